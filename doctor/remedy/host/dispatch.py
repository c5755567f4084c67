"""One request in, one answer out, both JSON: the same for root in this process, for sudo and for ssh."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from doctor.remedy.host import boot, files, holds, locks, packages, trees, units, workload
from doctor.remedy.host.command import run

ROOM = 64 << 20
"""Bytes that have to be free before anything is touched."""
WRITTEN = ["/etc", "/var"]
PACKAGED = ["/usr", "/var/lib"]
BASE = ["/etc"]
"""Always saved: package scripts and services change it without being asked."""


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do one thing. Every operation returns an object."""
    operation = OPERATIONS[str(request["do"])]
    arguments = {key: value for key, value in request.items() if key != "do"}
    found: dict[str, Any] = operation(**arguments)
    return found


def main(arguments: list[str]) -> None:
    """Read the request from stdin, print the answer."""
    os.umask(0o077)
    request = json.load(sys.stdin)
    try:
        said: dict[str, Any] = {"ok": answer(request)}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(said))


def before_step(
    folder: str,
    step: str,
    paths: list[str],
    manager: str,
    base: bool = True,
    packaged: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> dict[str, Any]:
    """Copy files, list packages and units; kept in the folder under the step's name. A copy that is there stays: it is the first."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    room(folder, [*(WRITTEN if base else []), *(PACKAGED if manager and packaged else [])])
    place = _place(folder, step)
    if os.path.exists(place):
        return {"kept": True}
    known: files.Manifest = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("before-") and name.endswith(".json"):
            known.update(_load(os.path.join(folder, name))["files"])
    patterns = [*(BASE if base else []), *paths]
    pack = files.Pack(os.path.join(folder, "pack"))
    manifest = files.snapshot(patterns, pack, known, packages.owned(manager, packaged))
    state = {
        "patterns": patterns,
        "files": manifest,
        "trees": trees.look(whole),
        "packages": packages.installed(manager),
        "left_behind": packages.left_behind(manager),
        "keys": packages.keys(manager),
        "marks": holds.marks(manager),
        "units": units.states(),
        "boot_id": boot.boot_id(),
    }
    _store(place, state)
    return {"kept": False, "files": len(manifest), "packages": len(state["packages"])}


def room(folder: str, written: list[str]) -> None:
    """OSError where the record or the change would find a full or read-only file system half way."""
    for path in (folder, *written):
        info = os.statvfs(path)
        if info.f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        if info.f_bavail * info.f_frsize < ROOM:
            raise OSError(errno.ENOSPC, f"less than {ROOM >> 20} MiB are free", path)


def after_step(folder: str, step: str, manager: str, touched: list[str]) -> dict[str, Any]:
    """What the step changed, as an undo record. Without a copy its role never ran, and nothing is changed."""
    if not os.path.exists(_place(folder, step)):
        none: dict[str, Any] = {"added": {}, "removed": {}, "changed": {}}
        marks: dict[str, Any] = {"held": [], "auto": []}
        return {
            "files": [],
            "trees": [],
            "packages": none,
            "left_behind": [],
            "units": {},
            "keys": [],
            "marks": marks,
        }
    before = _load(_place(folder, step))
    return {
        "files": files.changes(before["files"], before["patterns"]),
        "trees": trees.difference(before["trees"]),
        "packages": packages.difference(before["packages"], packages.installed(manager)),
        "left_behind": [
            name
            for name in packages.left_behind(manager)
            if name not in before["left_behind"] and name not in before["packages"]
        ],
        "units": units.difference(before["units"], units.states(), touched),
        "keys": [key for key in packages.keys(manager) if key not in before["keys"]],
        "marks": holds.marks(manager),
    }


def undo_step(
    folder: str,
    step: str,
    manager: str,
    changed: Mapping[str, Any],
    saved: Mapping[str, str],
    touched: list[str],
    restart: bool,
) -> dict[str, Any]:
    """Packages, then files, then what reads them, then units. -> {"packages", "files", "units", "notes"}"""
    if not os.path.exists(_place(folder, step)):
        nothing: dict[str, Any] = {"restored": [], "left": [], "failed": []}
        return {"packages": nothing, "files": nothing, "units": nothing, "notes": []}
    before = _load(_place(folder, step))
    pack = files.Pack(os.path.join(folder, "pack"))
    stored = os.path.join(folder, "packages")
    standing = _differing(before)
    own = holds.ours()
    held = holds.theirs(manager, own, packages.installed(manager))
    taken = packages.restore(manager, changed["packages"], saved, stored, held)
    marked = holds.back(
        manager, before["marks"], changed["marks"], own, packages.installed(manager)
    )
    for key, found in marked.items():
        taken[key] += found
    packages.forget(changed["keys"], manager, taken)
    if changed["left_behind"]:
        run(["dpkg", "--purge", *changed["left_behind"]], timeout=600)
    todo, left = _ours(changed["files"], standing, _differing(before))
    put = files.restore(todo, before["files"], pack)
    for key, parts in trees.restore(changed["trees"]).items():
        put[key] += parts
    put["left"] += _unlocked(left, before["files"], pack, own)
    notes = _read_again([item["path"] for item in todo], changed["packages"])
    ran = units.restore(changed["units"], touched, before["units"], restart)
    put["restored"] += files.restore(todo, before["files"], pack)["restored"]
    return {"packages": taken, "files": put, "units": ran, "notes": notes}


def _unlocked(
    left: list[dict[str, str]],
    before: files.Manifest,
    pack: files.Pack,
    own: Mapping[str, str],
) -> list[dict[str, str]]:
    """dnf's list of locks may have been changed since and stays; our own lines in it do not."""
    for item in left:
        if item["path"] == holds.LIST:
            was = before.get(holds.LIST, {})
            text = pack.read(was["at"]) if "at" in was else b""
            if holds.unlock(text, own):
                item["why"] += ", so only the locks that were made here are taken out of it"
    return left


def _differing(before: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["path"]: item for item in files.changes(before["files"], before["patterns"])}


def _ours(
    recorded: list[dict[str, Any]],
    standing: Mapping[str, dict[str, Any]],
    now: Mapping[str, dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """What is put back: what the step changed and nobody since, and what taking packages back has changed by itself."""
    ours = {item["path"]: item for item in recorded}
    todo, left = [], []
    for path, item in now.items():
        known, was = ours.get(path), standing.get(path)
        if was is None or (
            known is not None and (known.get("unsure") or files.same(was["after"], known["after"]))
        ):
            todo.append({**item, "unsure": True})
        elif known is not None:
            left.append({"path": path, "why": "somebody changed it since"})
    return todo, left


def _read_again(paths: list[str], changed: Mapping[str, Any]) -> list[str]:
    """Whoever caches what was restored reads it again."""
    notes = []

    def under(*folders: str) -> bool:
        return any(path.startswith(folders) for path in paths)

    boot_files = (
        "/etc/modprobe.d",
        "/etc/modules-load.d",
        "/etc/initramfs-tools",
        "/etc/dracut.conf",
    )
    jobs = []
    if under("/etc/systemd", "/usr/lib/systemd", "/lib/systemd"):
        jobs.append(["systemctl", "daemon-reload"])
    if under("/etc/ld.so.conf") or any(changed.get(key) for key in ("added", "removed", "changed")):
        jobs.append(["ldconfig"])
    if under("/etc/udev"):
        jobs.append(["udevadm", "control", "--reload"])
    if under(*boot_files):
        jobs.append(["update-initramfs", "-u"])
        jobs.append(["dracut", "--force"])
    for job in jobs:
        ran = run(job, timeout=900)
        if ran.rc is not None and not ran.ok:
            notes.append(f"{' '.join(job)}: {ran.why}")
    return notes


def keep_packages(folder: str, globs: list[str], manager: str) -> dict[str, Any]:
    """Copies of the packages that a step may replace."""
    return packages.save(manager, globs, os.path.join(folder, "packages"))


def _place(folder: str, step: str) -> str:
    return os.path.join(folder, f"before-{step}.json")


def _load(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
        return found


def _store(path: str, state: Mapping[str, Any]) -> None:
    """Whole or not at all: what is half written is not a copy."""
    part = f"{path}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


OPERATIONS: dict[str, Any] = {
    "before_step": before_step,
    "after_step": after_step,
    "undo_step": undo_step,
    "keep_packages": keep_packages,
    "workload": lambda docker=workload.DOCKER: workload.look(docker),
    "package_lock": lambda manager: locks.holder(manager),
    "leftovers": lambda run: {"processes": locks.leftovers(run)},
    "repair": lambda manager: {"why": packages.repair(manager)},
    "obstacles": lambda manager, session: {"why": boot.obstacles(manager, session)},
    "boot_id": lambda: {"id": boot.boot_id()},
    "schedule": lambda run_id, doctor: boot.schedule(run_id, doctor),
    "withdraw": lambda: boot.withdraw(),
    "nothing": dict,
}
