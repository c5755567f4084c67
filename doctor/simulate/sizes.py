"""Sizes as people write them: 64M, 9.6M, 128G, 0. One reading for every writer."""

from __future__ import annotations

import re

from doctor.errors import UsageError

MIB = 1 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?:i?B)?", re.IGNORECASE)


def size(text: str | int, key: str = "size") -> int:
    """Bytes; UsageError names the key."""
    if isinstance(text, int):
        return text
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise UsageError(f"{key}: {text} is not a size", "write 64M, 128G or a number of bytes")
    return int(float(found["number"]) * _UNITS[found["unit"].upper()])
