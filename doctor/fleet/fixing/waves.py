"""How hosts are parted into waves, and when too many of one failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.errors import UsageError

SERIAL = "1,25%"
"""One host first; then a quarter of all at a time."""


def parted(hosts: Sequence[str], serial: str) -> list[list[str]]:
    """`1,10%,5`: sizes of the waves one after the other, the last of them for all the rest; a share is of all hosts, at least one."""
    sizes = [_size(word.strip(), len(hosts)) for word in serial.split(",")]
    found: list[list[str]] = []
    rest = list(hosts)
    while rest:
        size = sizes[min(len(found), len(sizes) - 1)]
        found.append(rest[:size])
        rest = rest[size:]
    return found


def _size(word: str, all_: int) -> int:
    match = re.fullmatch(r"(\d{1,6})(%?)", word)
    number = int(match[1]) if match else 0
    if match is None or number == 0 or (match[2] and number > 100):
        raise UsageError(
            f"--serial cannot be {word!r}", "a number of hosts, a share such as 10%, or 1,10%,50%"
        )
    return max(1, all_ * number // 100) if match[2] else number


def share(word: str) -> float:
    """`20%` or `20` -> 0.2."""
    match = re.fullmatch(r"(\d{1,3})%?", word.strip())
    if match is None or int(match[1]) > 100:
        raise UsageError(f"--max-fail cannot be {word!r}", "a share of a wave from 0% to 100%")
    return int(match[1]) / 100


def too_many(failed: int, wave: int, most: float) -> bool:
    """More than that share of the wave's hosts failed. Counted in hosts, so that 20% of five is one."""
    return failed > wave * most + 1e-9
