"""Ports of the loopback: one that is free, and who listens on one."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from doctor.smoke.processes import process_ids

LOOPBACK = "127.0.0.1"
_LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp."""


def free_port() -> int:
    """A port that nobody listens on now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether something takes connections on this port."""
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def holder(port: int) -> tuple[int, str] | None:
    """(pid, name) of who listens on it; None where nobody does or it cannot be seen who."""
    inodes: set[str | None] = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
            inodes |= {_listening_inode(line, port) for line in lines} - {None}
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    pid = next((pid for pid in process_ids() if _has_one(f"/proc/{pid}", wanted)), None)
    return None if pid is None else (pid, _name(f"/proc/{pid}"))


def _name(process: str) -> str:
    try:
        return Path(process, "comm").read_text(errors="replace").strip()
    except OSError:
        return "gone since"


def _listening_inode(line: str, port: int) -> str | None:
    fields = line.split()
    listens = len(fields) > 9 and fields[3] == _LISTEN
    return fields[9] if listens and int(fields[1].rpartition(":")[2], 16) == port else None


def _has_one(process: str, sockets: set[str]) -> bool:
    try:
        names = os.listdir(f"{process}/fd")  # noqa: PTH208 - a Path for each of thousands is slow
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(f"{process}/fd/{name}") in sockets:  # noqa: PTH115
                return True
    return False
