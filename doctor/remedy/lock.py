"""One run at a time changes a host. The kernel gives the lock back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from doctor.errors import DoctorError

WAIT = 60.0
"""Seconds to wait for another run."""


class LockedError(DoctorError):
    """Another run is at work. Exit 5: run again."""


@contextmanager
def hold(
    path: Path,
    run: str,
    wait: float = WAIT,
    say: Callable[[str], None] = lambda text: None,
    pause: float = 0.5,
) -> Iterator[None]:
    """Hold the lock; LockedError with the holder when it is not given back in time."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _take(fd, wait, say, pause)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{run} (pid {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(fd)


def _take(fd: int, wait: float, say: Callable[[str], None], pause: float) -> None:
    until = time.monotonic() + wait
    told = False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 200, 0).decode("utf-8", "replace") or "another run"
            if time.monotonic() >= until:
                raise LockedError(
                    f"run {holder} is changing this host; waited {wait:g} s",
                    "run again when it has ended; doctor runs list shows it",
                ) from None
            if not told:
                say(f"run {holder} is changing this host; waiting up to {wait:g} s")
                told = True
            time.sleep(pause)
        else:
            return


def is_held(path: Path) -> bool:
    """Whether some run holds the lock now."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)
