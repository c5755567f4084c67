"""Packages, repositories, locks and waiting upgrades of a simulated host, as its package manager would show them."""

from __future__ import annotations

from doctor.probes.reading import apt, rpm
from doctor.simulate.host import Host
from doctor.simulate.kernel import BUILT
from doctor.simulate.machine import BOOTED
from doctor.simulate.package_set import held_packages, packages_of
from doctor.simulate.repositories import apt_lists, repositories_of
from doctor.simulate.writer import RecordingWriter

KEYRING = bytes([0x98, 12, 4, 0x50, 0, 0, 0, 1, 0, 8, 0x80, 0, 1, 1])
"""A public key packet of version 4, of nobody."""


def write(host: Host, out: RecordingWriter) -> None:
    """The database that the family's probe asks, and the files it reads."""
    if host.family == "debian":
        out.file("/var/lib/dpkg/status", keep=False)
        if not host.in_container:
            _apt(host, out)
    elif host.family in ("rhel", "suse"):
        out.folder("/usr/lib/sysimage/rpm")
        if not host.in_container:
            _rpm(host, out)


def _apt(host: Host, out: RecordingWriter) -> None:
    found = packages_of(host)
    held = held_packages(host, found)
    rows = []
    for name, version in sorted(found.items()):
        state = ("h" if name in held else "i") + ("F" if name in host.d.broken else "i")
        rows.append(f"{state} \t{name}\t{version}\tamd64")
        _file_list(host, out, name)
    out.command(
        list(apt.QUERY),
        "\n".join(rows) + "\n",
        rc=1,
        stderr="dpkg-query: no packages found matching nvlsm*\n",
    )
    audit = "".join(f" {name:<20} a package\n" for name in host.d.broken)
    head = "The following packages are only half configured, probably due to problems\nconfiguring them the first time:\n"
    out.command(["dpkg", "--audit"], head + audit if audit else "")
    for path, text in repositories_of(host).items():
        out.file(path, text)
    _keyrings(host, out)
    _automatic(host, out)
    _pending(host, out, found)


def _file_list(host: Host, out: RecordingWriter, name: str) -> None:
    driver = host.driver
    swapped = driver.loaded and driver.package and driver.loaded != driver.package
    out.file(
        f"/var/lib/dpkg/info/{name}.list", keep=False, mtime=BOOTED + 3600 if swapped else BUILT
    )


def _keyrings(host: Host, out: RecordingWriter) -> None:
    for row in [row for text in repositories_of(host).values() for row in apt.parse_one_line(text)]:
        if (
            row["key"]
            and row["key"].startswith("/usr/share/keyrings/")
            and "gone" not in row["key"]
        ):
            out.file(row["key"], KEYRING)


def _automatic(host: Host, out: RecordingWriter) -> None:
    part = host.d.unattended_upgrades
    out.file(
        "/etc/apt/apt.conf.d/20auto-upgrades",
        f'APT::Periodic::Unattended-Upgrade "{int(part.enabled)}";\n',
    )
    lines = ["Unattended-Upgrade::Allowed-Origins {"]
    lines += [
        '        "${distro_id}:${distro_codename}";',
        '        "${distro_id}:${distro_codename}-security";',
        "};",
    ]
    lines += [
        "Unattended-Upgrade::Package-Blacklist {",
        *(f'    "{name}";' for name in part.package_blacklist),
        "};",
    ]
    out.file("/etc/apt/apt.conf.d/50unattended-upgrades", "\n".join(lines) + "\n")


def _pending(host: Host, out: RecordingWriter, found: dict[str, str]) -> None:
    lists = apt_lists(host)
    for path in lists:
        out.file(path, keep=False)
    lines = []
    for item in host.d.pending:
        cuda = [path for path in lists if "nvidia" in path and host.driver.origin == "cuda-repo"]
        path = (cuda or lists)[0]
        lines += [f"{path}:Package: {item.name}", f"{path}-Version: {item.version}", "--"]
    argv = apt.pending_query(apt.watched(found), lists)
    out.command(argv, "\n".join(lines) + "\n" if lines else "", rc=0 if lines else 1)


def _rpm(host: Host, out: RecordingWriter) -> None:
    found = packages_of(host)
    driver = host.driver
    swapped = driver.loaded and driver.package and driver.loaded != driver.package
    when = BOOTED + 3600 if swapped else BUILT
    rows = [f"{name}\t{version}\t{when}\tvendor" for name, version in sorted(found.items())]
    rows += ["gpg-pubkey\td42d0685-62589a51\t1\t(none)", "gpg-pubkey\t350d275d-6279464b\t1\t(none)"]
    out.command(list(rpm.QUERY), "\n".join(rows) + "\n")
    out.file(
        "/etc/dnf/dnf.conf",
        "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\n",
    )
    for path, text in repositories_of(host).items():
        out.file(path, text)
    held = held_packages(host, found)
    if held:
        out.file("/etc/dnf/plugins/versionlock.list", "".join(f"{name}-*\n" for name in held))
    if host.d.dnf_module:
        name, _, stream = host.d.dnf_module.partition(":")
        text = f"[{name}]\nname={name}\nstream={stream}\nprofiles=\nstate=enabled\n"
        out.file(f"/etc/dnf/modules.d/{name}.module", text)
    _dnf_automatic(host, out)


def _dnf_automatic(host: Host, out: RecordingWriter) -> None:
    part = host.d.unattended_upgrades
    if not part.enabled:
        return
    out.link(
        "/etc/systemd/system/timers.target.wants/dnf-automatic-install.timer",
        "/usr/lib/systemd/system/dnf-automatic-install.timer",
    )
    if part.package_blacklist:
        text = f"[main]\ngpgcheck=1\nexcludepkgs={' '.join(part.package_blacklist)}\n"
        out.file("/etc/dnf/dnf.conf", text)
