"""Segments in /dev/shm: what was there before a run, and removal of what the run left."""

from __future__ import annotations

import re
from pathlib import Path

SHM = Path("/dev/shm")
_OURS = re.compile(r"(psm_|sem\.|nccl-|torch_|vllm|mp-|cuda\.shm|trtllm|__KMP|\w*-pipe)")
"""Names that engines, Python's multiprocessing, torch and NCCL give; other new segments are somebody else's."""


def segments() -> frozenset[str]:
    """Names that are there now."""
    try:
        return frozenset(item.name for item in SHM.iterdir())
    except OSError:
        return frozenset()


def remove_new(before: frozenset[str], owners: set[int]) -> list[str]:
    """Remove new segments of these owners that nobody maps; those that would not go, in words."""
    left: list[str] = []
    new = [SHM / name for name in segments() - before if _OURS.match(name)]
    if not new:
        return left
    mapped = _mapped()
    for path in new:
        try:
            info = path.lstat()
            if info.st_uid not in owners or info.st_ino in mapped:
                continue
            path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            left.append(f"segment {path}: {error.strerror}")
    return left


def _mapped() -> set[int]:
    """Inodes under /dev/shm that some process maps.

    By inode, for sem_open maps a file under another name than the one it then gets.
    """
    found: set[int] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except OSError:
            continue
        found |= {int(line.split()[4]) for line in lines if "/dev/shm/" in line}
    return found
