"""Who holds the package manager's locks, and which processes of a run are still alive."""

from __future__ import annotations

import fcntl
import os
import struct

FILES = {
    "apt": (
        "/var/lib/dpkg/lock-frontend",
        "/var/lib/dpkg/lock",
        "/var/lib/apt/lists/lock",
        "/var/cache/apt/archives/lock",
    ),
    "dnf": ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"),
}
PID_FILES = (
    "/var/cache/dnf/metadata_lock.pid",
    "/var/cache/dnf/download_lock.pid",
    "/var/lib/dnf/rpmdb_lock.pid",
    "/var/run/yum.pid",
)
MARK = "GPU_HOST_DOCTOR_RUN"
"""Environment variable by which a run's own children are found."""


def holder(manager: str) -> dict[str, str]:
    """{"pid", "name", "lock"} of a process that is changing packages; empty when nobody is."""
    for path in FILES.get(manager, ()):
        pid = _locked_by(path)
        if pid:
            return {"pid": str(pid), "name": _name(pid), "lock": path}
    if manager == "dnf":
        for path in PID_FILES:
            pid = _alive_in(path)
            if pid:
                return {"pid": str(pid), "name": _name(pid), "lock": path}
    return {}


def _locked_by(path: str) -> int | None:
    """The process that holds a write lock on a file, asked without taking it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, asked))
        return pid if kind != fcntl.F_UNLCK else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _alive_in(path: str) -> int | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and os.path.isdir(f"/proc/{text}") else None


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "a process"


def leftovers(run: str) -> list[str]:
    """Processes that a run started and that outlived it."""
    found = []
    wanted = f"{MARK}={run}".encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(f"{_name(int(name))} (pid {name})")
        except OSError:
            continue
    return found
