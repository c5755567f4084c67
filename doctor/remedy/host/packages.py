"""The exact package set, copies of the packages that are here, and the way back to both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from doctor.remedy.host.command import Ran, run

Set = dict[str, list[str]]
"""name:architecture (apt) or name.architecture (dnf) -> versions; several for kernels of dnf."""

APT = ["apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=120"]
HELD = "its owner holds it at this version"
SEVERAL = ("kernel", "gpg-pubkey", "kmod-")
"""Beginnings of names of which dnf keeps several versions on purpose."""
LONG = 3600.0
"""Seconds that a package transaction may take."""


def installed(manager: str) -> Set:
    """What is installed now; empty without a manager."""
    if manager == "apt":
        form = "${db:Status-Status}\t${Package}:${Architecture}\t${Version}\n"
        return parse(run(["dpkg-query", "-W", "-f", form]).out, "installed")
    if manager == "dnf":
        form = "installed\t%{NAME}.%{ARCH}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"
        return parse(run(["rpm", "-qa", "--qf", form]).out, "installed")
    return {}


def keys(manager: str) -> list[str]:
    """dnf: the signing keys that rpm trusts; it keeps them among the packages. apt keeps keys in files."""
    if manager != "dnf":
        return []
    return sorted(run(["rpm", "-qa", "gpg-pubkey"]).out.split())


def forget(added: Sequence[str], manager: str, said: dict[str, list[dict[str, str]]]) -> None:
    """Take keys out again that came with a step; one that is gone already is no matter."""
    present = [key for key in keys(manager) if key in added]
    if present:
        _judge(run(["rpm", "-e", "--allmatches", *present]), present, said)


def left_behind(manager: str) -> list[str]:
    """apt: packages that are removed but whose configuration is still there."""
    if manager != "apt":
        return []
    form = "${db:Status-Status}\t${Package}:${Architecture}\t${Version}\n"
    return sorted(parse(run(["dpkg-query", "-W", "-f", form]).out, "config-files"))


def parse(text: str, status: str) -> Set:
    """Lines of state, name and version -> the set of one state."""
    found: Set = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[0] == status and not fields[1].startswith("gpg-pubkey."):
            found.setdefault(fields[1], []).append(fields[2])
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def half_configured(manager: str) -> list[str]:
    """Packages that were left half way; with any of these nobody should reboot."""
    if manager == "dnf":
        return doubled(installed(manager))
    if manager != "apt":
        return []
    form = "${db:Status-Abbrev}\t${Package}\n"
    found = []
    for line in run(["dpkg-query", "-W", "-f", form]).out.splitlines():
        state, _, name = line.partition("\t")
        if len(state) > 1 and state[1] in "HUFWt":
            found.append(name)
    return sorted(found)


def owned(manager: str, globs: Sequence[str]) -> set[str]:
    """Files of the installed packages that match, but for those under /etc, which are their owner's to change."""
    ask = {"apt": ["dpkg-query", "-L"], "dnf": ["rpm", "-ql"]}.get(manager)
    names = list(_matching(manager, globs))
    if ask is None or not names:
        return set()
    lines = run([*ask, *names], timeout=120).out.splitlines()
    return {line for line in lines if line.startswith("/") and not line.startswith("/etc/")}


def _matching(manager: str, globs: Sequence[str]) -> Set:
    mark = ":" if manager == "apt" else "."
    return {
        key: versions
        for key, versions in installed(manager).items()
        if any(fnmatchcase(key.rpartition(mark)[0], pattern) for pattern in globs)
    }


def doubled(found: Mapping[str, list[str]]) -> list[str]:
    """A transaction of rpm that was cut off leaves the old version of a package beside the new one. Pure."""
    return [
        key for key, versions in found.items() if len(versions) > 1 and not key.startswith(SEVERAL)
    ]


def save(manager: str, globs: Sequence[str], folder: str) -> dict[str, Any]:
    """Copies of the installed packages that match. -> {"saved": {name: file}, "missing": [name]}"""
    saved: dict[str, str] = {}
    missing: list[str] = []
    wanted = _matching(manager, globs)
    if wanted:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    if manager == "apt" and len(wanted) > 1:
        _all_debs(wanted, folder)
    for key, versions in wanted.items():
        fetch = _deb if manager == "apt" else _rpm
        files = [fetch(key, version, folder) for version in versions]
        if all(files):
            saved[key] = ",".join(item for item in files if item)
        else:
            missing.append(key)
    return {"saved": saved, "missing": missing}


def _all_debs(wanted: Mapping[str, list[str]], folder: str) -> None:
    """All in one go; where one cannot be had apt gets none, and each is asked for by itself."""
    asked = [
        f"{key.rpartition(':')[0] if key.endswith(':all') else key}={versions[0]}"
        for key, versions in wanted.items()
    ]
    options = ["-q", "-o", "APT::Sandbox::User=root"]
    run(["apt-get", *options, "download", *asked], timeout=LONG, cwd=folder)


def _deb(key: str, version: str, folder: str) -> str | None:
    name, _, architecture = key.rpartition(":")
    file = f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"
    target = os.path.join(folder, file)
    if os.path.exists(target):
        return file
    cached = os.path.join("/var/cache/apt/archives", file)
    if os.path.exists(cached):
        shutil.copyfile(cached, target)
        return file
    asked = f"{name}={version}" if architecture == "all" else f"{key}={version}"
    run(
        ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", asked],
        timeout=LONG,
        cwd=folder,
    )
    if not os.path.exists(target):
        run(["dpkg-repack", name], timeout=LONG, cwd=folder)
    return file if os.path.exists(target) else None


def _rpm(key: str, version: str, folder: str) -> str | None:
    name, _, architecture = key.rpartition(".")
    epoch, _, rest = version.partition(":")
    file = f"{name}-{rest}.{architecture}.rpm"
    target = os.path.join(folder, file)
    if not os.path.exists(target):
        exact = f"{name}-{version if epoch != '0' else rest}.{architecture}"
        run(["dnf", "-q", "-y", "download", "--destdir", folder, exact], timeout=LONG)
    return file if os.path.exists(target) else None


def difference(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> dict[str, Any]:
    """-> {"added": {name: versions}, "removed": {name: versions}, "changed": {name: [before, after]}}"""
    return {
        "added": {name: after[name] for name in sorted(after) if name not in before},
        "removed": {name: before[name] for name in sorted(before) if name not in after},
        "changed": {
            name: [before[name], after[name]]
            for name in sorted(before)
            if name in after and before[name] != after[name]
        },
    }


def restore(
    manager: str,
    changed: Mapping[str, Any],
    saved: Mapping[str, str],
    folder: str,
    held: Container[str] = (),
) -> dict[str, list[dict[str, str]]]:
    """Back to the set before. Packages that somebody changed or holds since are left. -> {"restored", "left", "failed"}"""
    said: dict[str, list[dict[str, str]]] = {"restored": [], "left": [], "failed": []}
    now = installed(manager)
    remove = []
    for name, versions in changed.get("added", {}).items():
        if name not in now:
            continue
        if now[name] != versions:
            said["left"].append({"path": name, "why": f"now {', '.join(now[name])}"})
        elif name in held:
            said["left"].append({"path": name, "why": HELD})
        else:
            remove.append(name)
    wanted: dict[str, list[str]] = {}
    for name, versions in changed.get("removed", {}).items():
        if name not in now:
            wanted[name] = versions
    for name, (was, became) in changed.get("changed", {}).items():
        if name not in now or now[name] == was:
            continue
        if now[name] != became:
            said["left"].append({"path": name, "why": f"now {', '.join(now[name])}"})
        elif name in held:
            said["left"].append({"path": name, "why": HELD})
        else:
            wanted[name] = was
    if remove or wanted:
        back = _apt_back if manager == "apt" else _dnf_back
        back(remove, wanted, saved, folder, said)
    return said


def _apt_back(
    remove: Sequence[str],
    wanted: Mapping[str, list[str]],
    saved: Mapping[str, str],
    folder: str,
    said: dict[str, list[dict[str, str]]],
) -> None:
    asked = [
        os.path.join(folder, saved[name]) if name in saved else f"{name}={versions[0]}"
        for name, versions in wanted.items()
    ]
    options = ["--allow-downgrades", "--no-install-recommends", "--allow-change-held-packages"]
    options += ["-o", "Dpkg::Options::=--force-confold", "-o", "APT::Sandbox::User=root"]
    taken = [f"{name}-" for name in remove]
    command = [*APT, "--purge", *options, "install", *asked, *taken]
    trial = run([*command[:1], "-s", *command[1:]], timeout=120)
    others = _removed_too(trial, remove)
    if others:
        said["left"] += [
            {"path": name, "why": f"needed by {', '.join(others)}, which came since"}
            for name in remove
        ]
        command = [*APT, *options, "install", *asked] if asked else []
    if command:
        _judge(run(command, timeout=LONG), [*wanted, *([] if others else remove)], said)


def _removed_too(trial: Ran, asked: Sequence[str]) -> list[str]:
    """What apt would remove beside what is asked: it belongs to somebody else."""
    names = {item.rpartition(":")[0] for item in asked}
    found = []
    for line in trial.out.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("Remv", "Purg"):
            name = rest.split(" ")[0].partition(":")[0]
            if name not in names:
                found.append(name)
    return sorted(set(found))


def _dnf_back(
    remove: Sequence[str],
    wanted: Mapping[str, list[str]],
    saved: Mapping[str, str],
    folder: str,
    said: dict[str, list[dict[str, str]]],
) -> None:
    if remove:
        _judge(run(["rpm", "-e", *remove], timeout=LONG), list(remove), said)
    files = [
        os.path.join(folder, file)
        for name in wanted
        if name in saved
        for file in saved[name].split(",")
    ]
    if files:
        ran = run(["rpm", "-U", "--oldpackage", "--replacepkgs", *files], timeout=LONG)
        _judge(ran, [name for name in wanted if name in saved], said)
    others = [name for name in wanted if name not in saved]
    for name in others:
        base, _, architecture = name.rpartition(".")
        exact = [f"{base}-{version}.{architecture}" for version in wanted[name]]
        ran = run(
            ["dnf", "-y", "-q", "--setopt=install_weak_deps=0", "install", *exact], timeout=LONG
        )
        if not ran.ok:
            ran = run(["dnf", "-y", "-q", "downgrade", *exact], timeout=LONG)
        _judge(ran, [name], said)


def _judge(ran: Ran, names: Sequence[str], said: dict[str, list[dict[str, str]]]) -> None:
    key = "restored" if ran.ok else "failed"
    said[key] += [{"path": name, "why": "" if ran.ok else ran.why} for name in names]


def repair(manager: str) -> str:
    """Finish what a killed transaction of ours left half way; "" when there is nothing to say."""
    if manager != "apt" or not (half_configured(manager) or os.listdir("/var/lib/dpkg/updates")):
        return ""
    ran = run(["dpkg", "--configure", "-a", "--force-confold"], timeout=LONG)
    if not ran.ok or half_configured(manager):
        ran = run([*APT, "-f", "install"], timeout=LONG)
    return "" if ran.ok else f"half-configured packages stay: {ran.why}"
