"""What a fresh install of a distribution looks like: os-release, kernel, glibc, compiler, Python. Fillers for the simulator, never rules."""

from __future__ import annotations

import difflib

import msgspec

from doctor.errors import UsageError


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One release as its files show it."""

    id: str
    version: str
    """VERSION_ID; empty for a rolling distribution."""
    family: str
    pretty: str
    like: str = ""
    codename: str = ""
    kernel: str
    """Release with {arch} where the kernel's name carries the machine."""
    glibc: str
    gcc: str
    python: str

    @property
    def os_release(self) -> str:
        """Text of /etc/os-release."""
        name = self.pretty.split(" ", 1)[0] if self.id != "rhel" else "Red Hat Enterprise Linux"
        lines = [f'PRETTY_NAME="{self.pretty}"', f'NAME="{name}"', f"ID={self.id}"]
        if self.version:
            lines.append(f'VERSION_ID="{self.version}"')
        if self.like:
            lines.append(f'ID_LIKE="{self.like}"')
        if self.codename:
            lines.append(f"VERSION_CODENAME={self.codename}")
        if self.family == "rhel":
            lines.append(f'PLATFORM_ID="platform:{_platform(self)}"')
        return "\n".join(lines) + "\n"

    def kernel_for(self, machine: str) -> str:
        """The release string on a machine."""
        arch = {"x86_64": "amd64", "aarch64": "arm64"}[machine] if self.id == "debian" else machine
        return self.kernel.format(arch=arch)


def _platform(release: Release) -> str:
    if release.id == "fedora":
        return f"f{release.version}"
    return f"el{release.version.partition('.')[0]}"


# (version, codename, kernel, glibc, gcc, python)
_UBUNTU = (
    ("18.04", "bionic", "4.15.0-213-generic", "2.27", "7.5.0", "3.6.9"),
    ("20.04", "focal", "5.4.0-216-generic", "2.31", "9.4.0", "3.8.10"),
    ("21.10", "impish", "5.13.0-52-generic", "2.34", "11.2.0", "3.9.7"),
    ("22.04", "jammy", "5.15.0-157-generic", "2.35", "11.4.0", "3.10.12"),
    ("24.04", "noble", "6.8.0-85-generic", "2.39", "13.3.0", "3.12.3"),
    ("25.10", "questing", "6.17.0-6-generic", "2.42", "15.2.0", "3.13.7"),
    ("26.04", "resolute", "7.0.0-14-generic", "2.43", "15.2.0", "3.14.3"),
)
_DEBIAN = (
    ("11", "bullseye", "5.10.0-35-{arch}", "2.31", "10.2.1", "3.9.2"),
    ("12", "bookworm", "6.1.0-32-{arch}", "2.36", "12.2.0", "3.11.2"),
    ("13", "trixie", "6.12.48+deb13-{arch}", "2.41", "14.2.0", "3.13.5"),
)
# major: (kernel of the newest minor, kernels by minor, glibc, gcc, python, newest minor)
_EL = {
    "7": ("3.10.0-1160.119.1.el7.{arch}", {}, "2.17", "4.8.5", "3.6.8", "9"),
    "8": (
        "4.18.0-553.el8_10.{arch}",
        {"4": "305", "6": "372.9.1", "8": "477.10.1", "9": "513.5.1", "10": "553"},
        "2.28",
        "8.5.0",
        "3.6.8",
        "10",
    ),
    "9": (
        "5.14.0-611.5.1.el9_7.{arch}",
        {
            "0": "70.13.1",
            "2": "284.11.1",
            "3": "362.8.1",
            "4": "427.13.1",
            "5": "503.14.1",
            "6": "570.12.1",
            "7": "611.5.1",
        },
        "2.34",
        "11.5.0",
        "3.9.23",
        "7",
    ),
    "10": (
        "6.12.0-55.9.1.el10_0.{arch}",
        {"0": "55.9.1", "1": "124.8.1"},
        "2.39",
        "14.2.1",
        "3.12.9",
        "0",
    ),
}
_EL_BASE = {"8": "4.18.0", "9": "5.14.0", "10": "6.12.0"}
_EL_NAMES = {
    "rhel": ("Red Hat Enterprise Linux {v}", "fedora"),
    "rocky": ("Rocky Linux {v}", "rhel centos fedora"),
    "almalinux": ("AlmaLinux {v}", "rhel centos fedora"),
    "centos": ("CentOS Linux {v}", "rhel fedora"),
    "ol": ("Oracle Linux Server {v}", "fedora"),
}
_ALIASES = {
    "alma": "almalinux",
    "redhat": "rhel",
    "oracle": "ol",
    "amazon": "amzn",
    "al2023": "amzn",
    "archlinux": "arch",
    "opensuse": "opensuse-leap",
    "suse": "sles",
}
_FEDORA = {
    "40": ("6.8.5-301.fc40.{arch}", "2.39", "14.0.1", "3.12.2"),
    "41": ("6.11.4-301.fc41.{arch}", "2.40", "14.2.1", "3.13.0"),
    "42": ("6.14.0-63.fc42.{arch}", "2.41", "15.0.1", "3.13.2"),
    "43": ("6.17.1-300.fc43.{arch}", "2.42", "15.2.1", "3.14.0"),
    "44": ("6.19.4-200.fc44.{arch}", "2.43", "16.0.1", "3.14.3"),
}
_OTHERS = """
amzn | 2023 | rhel | Amazon Linux 2023.8 | fedora |  | 6.1.147-172.266.amzn2023.{arch} | 2.34 | 11.5.0 | 3.9.23
amzn | 2 | rhel | Amazon Linux 2 | centos rhel fedora |  | 5.10.238-234.956.amzn2.{arch} | 2.26 | 7.3.1 | 3.7.16
opensuse-leap | 15.6 | suse | openSUSE Leap 15.6 | suse opensuse |  | 6.4.0-150600.23.65-default | 2.38 | 7.5.0 | 3.6.15
opensuse-tumbleweed |  | suse | openSUSE Tumbleweed | opensuse suse |  | 6.17.7-1-default | 2.42 | 15.2.1 | 3.13.9
sles | 15.6 | suse | SUSE Linux Enterprise Server 15 SP6 | suse |  | 6.4.0-150600.23.65-default | 2.38 | 7.5.0 | 3.6.15
sles | 15.7 | suse | SUSE Linux Enterprise Server 15 SP7 | suse |  | 6.4.0-150700.53.16-default | 2.38 | 7.5.0 | 3.6.15
arch |  | other | Arch Linux |  |  | 6.17.8-arch1-1 | 2.42 | 15.2.1 | 3.13.7
manjaro |  | other | Manjaro Linux | arch |  | 6.12.48-1-MANJARO | 2.42 | 15.2.1 | 3.13.7
nixos | 24.05 | other | NixOS 24.05 (Uakari) |  | uakari | 6.6.68 | 2.39 | 13.2.0 | 3.11.10
nixos | 25.05 | other | NixOS 25.05 (Warbler) |  | warbler | 6.12.41 | 2.40 | 14.2.1 | 3.12.11
solus | 4.7 | other | Solus 4.7 Endurance |  |  | 6.12.9-312.current | 2.40 | 14.2.0 | 3.11.11
gentoo | 2.17 | other | Gentoo Linux |  |  | 6.12.54-gentoo-dist | 2.41 | 14.3.1 | 3.13.7
pop | 22.04 | debian | Pop!_OS 22.04 LTS | ubuntu debian | jammy | 6.9.3-76060903-generic | 2.35 | 11.4.0 | 3.10.12
linuxmint | 22 | debian | Linux Mint 22 | ubuntu debian | wilma | 6.8.0-85-generic | 2.39 | 13.3.0 | 3.12.3
azurelinux | 3.0 | other | Microsoft Azure Linux 3.0 |  |  | 6.6.96.1-1.azl3 | 2.38 | 13.2.0 | 3.12.9
alpine | 3.21 | other | Alpine Linux v3.21 |  |  | 6.12.31-0-lts |  | 14.2.0 | 3.12.10
"""
"""id, VERSION_ID, family, PRETTY_NAME, ID_LIKE, codename, kernel, glibc, gcc, Python."""


def release(name: str) -> Release:
    """The release called `ubuntu-24.04` or the like; UsageError names the nearest one."""
    distro, _, version = (
        name.rpartition("-") if name.rpartition("-")[2][:1].isdigit() else (name, "", "")
    )
    distro = _ALIASES.get(distro, distro)
    if distro in _EL_NAMES and version:
        found = _el(distro, version)
        if found:
            return found
    if distro == "fedora" and version in _FEDORA:
        kernel, glibc, gcc, python = _FEDORA[version]
        return Release(
            id="fedora",
            version=version,
            family="rhel",
            pretty=f"Fedora Linux {version} (Server Edition)",
            kernel=kernel,
            glibc=glibc,
            gcc=gcc,
            python=python,
        )
    key = f"{distro}-{version}" if version else distro
    known = _table()
    if key in known:
        return known[key]
    near = difflib.get_close_matches(name, [*known, *_el_examples()], n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else "for example ubuntu-24.04 or rocky-9.6"
    raise UsageError(f"distro: {name} is not a distribution that can be simulated; {hint}", hint)


def _el(distro: str, version: str) -> Release | None:
    major, _, minor = version.partition(".")
    if major not in _EL:
        return None
    newest, kernels, glibc, gcc, python, last = _EL[major]
    if minor and major in _EL_BASE and minor in kernels:
        kernel = f"{_EL_BASE[major]}-{kernels[minor]}.el{major}_{minor}.{{arch}}"
    elif minor and kernels and minor not in kernels:
        return None if not minor.isdigit() else _like_nearest(distro, major, minor)
    else:
        kernel = newest
    shown = version if minor else f"{major}.{last}" if major != "7" else "7"
    pretty, like = _EL_NAMES[distro]
    return Release(
        id=distro,
        version=shown,
        family="rhel",
        pretty=pretty.format(v=shown),
        like=like,
        kernel=kernel,
        glibc=glibc,
        gcc=gcc,
        python=python,
    )


def _like_nearest(distro: str, major: str, minor: str) -> Release | None:
    """A minor release between two known ones has the kernel of the one before it."""
    _, kernels, *_ = _EL[major]
    before = [item for item in kernels if int(item) <= int(minor)]
    if not before or int(minor) > max(map(int, kernels)) + 3:
        return None
    near = _el(distro, f"{major}.{max(before, key=int)}")
    return near and msgspec.structs.replace(
        near,
        version=f"{major}.{minor}",
        pretty=near.pretty.replace(near.version, f"{major}.{minor}"),
    )


def _el_examples() -> list[str]:
    return (
        [f"{name}-{major}" for name in _EL_NAMES for major in _EL]
        + [
            f"{name}-{major}.{minor}"
            for name in _EL_NAMES
            for major, row in _EL.items()
            for minor in row[1]
        ]
        + [f"fedora-{version}" for version in _FEDORA]
    )


def _table() -> dict[str, Release]:
    found: dict[str, Release] = {}
    for version, code, kernel, glibc, gcc, python in _UBUNTU:
        lts = " LTS" if version.endswith(".04") and int(version[:2]) % 2 == 0 else ""
        found[f"ubuntu-{version}"] = Release(
            id="ubuntu",
            version=version,
            family="debian",
            pretty=f"Ubuntu {version}{lts}",
            like="debian",
            codename=code,
            kernel=kernel,
            glibc=glibc,
            gcc=gcc,
            python=python,
        )
    for version, code, kernel, glibc, gcc, python in _DEBIAN:
        found[f"debian-{version}"] = Release(
            id="debian",
            version=version,
            family="debian",
            pretty=f"Debian GNU/Linux {version} ({code})",
            codename=code,
            kernel=kernel,
            glibc=glibc,
            gcc=gcc,
            python=python,
        )
    for line in _OTHERS.strip().splitlines():
        item = _other(line)
        found[f"{item.id}-{item.version}" if item.version else item.id] = item
        found.setdefault(item.id, item)
    return found


def _other(line: str) -> Release:
    id, version, family, pretty, like, codename, kernel, glibc, gcc, python = (
        cell.strip() for cell in line.split("|")
    )
    return Release(
        id=id,
        version=version,
        family=family,
        pretty=pretty,
        like=like,
        codename=codename,
        kernel=kernel,
        glibc=glibc,
        gcc=gcc,
        python=python,
    )
