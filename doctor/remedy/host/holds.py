"""Holds of packages, before and after: what a step held is let go, what it let go is held again, the owner's are never touched.

What is ours is written in the record that the roles keep. apt's holds are selections of dpkg, dnf's are lines of a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from doctor.remedy.host.command import run

RECORD = "/var/lib/gpu-host-doctor/holds.json"
LIST = "/etc/dnf/plugins/versionlock.list"
Marks = dict[str, list[str]]


def marks(manager: str) -> Marks:
    """apt: what is held and what was only installed for others. dnf keeps its locks in /etc."""
    if manager != "apt":
        return {"held": [], "auto": []}
    return {
        "held": sorted(run(["apt-mark", "showhold"]).out.split()),
        "auto": sorted(run(["apt-mark", "showauto"]).out.split()),
    }


def ours(path: str = RECORD) -> dict[str, str]:
    """Name -> what was written for it: the holds that were made here."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def theirs(manager: str, own: Mapping[str, str], present: Mapping[str, list[str]]) -> set[str]:
    """Installed packages, as `packages.installed` names them, that their owner holds now."""
    if manager == "apt":
        held = set(marks(manager)["held"]) - set(own)
        return {key for key in present if key in held or key.rpartition(":")[0] in held}
    return locked(_text(LIST), own, present) if manager == "dnf" else set()


def locked(text: str, own: Mapping[str, str], present: Mapping[str, list[str]]) -> set[str]:
    """Packages that lines of versionlock.list are about which were not written here. Pure."""
    mine = {entry for entries in own.values() for entry in entries.split()}
    others = {_entry(line).lstrip("!") for line in text.splitlines()} - mine - {""}
    return {
        key
        for key, versions in present.items()
        if any(_about(entry, key, version) for entry in others for version in versions)
    }


def _about(entry: str, key: str, version: str) -> bool:
    name, _, architecture = key.rpartition(".")
    plain = version.partition(":")[2]
    forms = (name, f"{name}-{version}.{architecture}", f"{name}-{version}", f"{name}-{plain}")
    return any(fnmatchcase(form, entry) for form in (*forms, f"{name}-{plain}.{architecture}"))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def changes(
    before: Mapping[str, list[str]],
    after: Mapping[str, list[str]],
    now: Mapping[str, list[str]],
    own: Iterable[str],
) -> dict[str, list[str]]:
    """apt-mark's words and their packages: only what the step changed and nobody since. Pure."""
    was, became, current = (set(item.get("held", [])) for item in (before, after, now))
    auto_was, auto_became, auto_now = (set(item.get("auto", [])) for item in (before, after, now))
    found = {
        "unhold": (became - was) & current & set(own),
        "hold": (was - became) - current,
        "auto": (auto_was - auto_became) - auto_now,
        "manual": (auto_became - auto_was) & auto_now,
    }
    return {word: sorted(names) for word, names in found.items() if names}


def back(
    manager: str,
    before: Mapping[str, list[str]],
    after: Mapping[str, list[str]],
    own: Mapping[str, str],
    present: Iterable[str],
) -> dict[str, list[dict[str, str]]]:
    """Bring apt's marks back, for packages that are still there."""
    said: dict[str, list[dict[str, str]]] = {"restored": [], "left": [], "failed": []}
    if manager != "apt":
        return said
    here = {key.rpartition(":")[0] for key in present}
    for word, names in changes(before, after, marks(manager), own).items():
        known = [name for name in names if name.partition(":")[0] in here]
        if not known:
            continue
        ran = run(["apt-mark", word, *known])
        key, why = ("restored", "") if ran.ok else ("failed", ran.why)
        said[key] += [{"path": f"apt-mark {word} {name}", "why": why} for name in known]
    return said


def without(text: str, before: str, own: Mapping[str, str]) -> str:
    """versionlock.list without the lines that were written here since: what somebody else wrote meanwhile stays. Pure."""
    mine = {entry for entries in own.values() for entry in entries.split()}
    had = {_entry(line) for line in before.splitlines()}
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if _entry(line) not in mine or _entry(line) in had
    )


def _entry(line: str) -> str:
    return line.partition("#")[0].strip()


def unlock(before: bytes, own: Mapping[str, str], path: str = LIST) -> bool:
    """Take our lines out of a list that somebody else changed too. Whether there were any."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return False
    new = without(text, before.decode("utf-8", "replace"), own)
    if new == text:
        return False
    info = os.lstat(path)
    part = f"{path}.gpu-host-doctor"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as out:
        out.write(new)
        out.flush()
        os.fsync(out.fileno())
    os.chown(part, info.st_uid, info.st_gid)
    os.chmod(part, info.st_mode & 0o7777)
    os.replace(part, path)
    return True
