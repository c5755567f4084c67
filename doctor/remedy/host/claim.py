"""The host's own lock, held over ssh: whoever changes a host from elsewhere comes and goes, so a process of its own keeps the lock meanwhile.

It is the same lock that a run on the host takes. It ends with the lease that each request renews, with a reboot, or when it is given back.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
from typing import Any

ROOT = "/var/lib/gpu-host-doctor"
LEASE = 7200
"""Seconds without a request after which the lock is free again; more than a role may take."""
_HOLDER = re.compile(r"(\S+) \(pid (\d+), for (.*)\)", re.DOTALL)
_KEEP = (
    "import os, sys, time\n"
    "fd, lease = int(sys.argv[2]), int(sys.argv[3])\n"
    "while time.time() - os.fstat(fd).st_mtime < lease: time.sleep(2)\n"
)


class ClaimedError(Exception):
    """Another run is at work on this host."""


def claim(run: str, by: str, root: str = ROOT, lease: int = LEASE) -> None:
    """Take the lock for a run or renew it. ClaimedError with the holder when it is another's."""
    os.makedirs(root, mode=0o700, exist_ok=True)
    fd = os.open(
        os.path.join(root, "lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = _text(fd)
            if text.split(" ", 1)[0] == run:
                os.utime(fd)
                return
            raise ClaimedError(f"run {text or 'of somebody else'} is changing this host") from None
        os.utime(fd)
        os.set_inheritable(fd, True)
        null = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in (0, 1, 2)]
        argv = [sys.executable, "-ISB", "-c", _KEEP, run, str(fd), str(lease)]
        keeper = os.posix_spawn(sys.executable, argv, {}, file_actions=null, setsid=True)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{run} (pid {keeper}, for {by})".encode(), 0)
    finally:
        os.close(fd)


def release(run: str, root: str = ROOT) -> dict[str, Any]:
    """Give it back, if it is still this run's."""
    try:
        fd = os.open(os.path.join(root, "lock"), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {"released": False}
    try:
        found = _HOLDER.fullmatch(_text(fd))
        if found is None or found[1] != run or not _keeps(int(found[2]), run):
            return {"released": False}
        os.ftruncate(fd, 0)  # before the lock is free: afterwards the text is another's
        os.kill(int(found[2]), signal.SIGTERM)
        return {"released": True}
    finally:
        os.close(fd)


def _text(fd: int) -> str:
    return os.pread(fd, 400, 0).decode("utf-8", "replace")


def _keeps(pid: int, run: str) -> bool:
    """Whether the process is the one that was started for this run: its number may be another's by now."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return _KEEP.encode() in words and run.encode() in words
