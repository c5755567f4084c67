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
            if path.lstat().st_uid not in owners or str(path) in mapped:
                continue
            path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            left.append(f"segment {path}: {error.strerror}")
    return left


def _mapped() -> set[str]:
    found: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text(errors="replace")
        except OSError:
            continue
        found |= {
            line[line.index("/dev/shm/") :] for line in text.splitlines() if "/dev/shm/" in line
        }
    return found
