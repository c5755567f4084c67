"""Headers of *.safetensors: sizes and types of tensors without the tensors. Bounded, for the file may be anybody's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from doctor.plan.safe_read import open_regular

MAX_HEADER = 16 * 1024 * 1024
BYTES = {
    "F64": 8,
    "I64": 8,
    "F32": 4,
    "I32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
"""Bytes of an element; other types take what their offsets say."""


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `problem` says what is wrong with it, if anything is."""

    name: str
    size: int
    dtypes: dict[str, int] = {}
    """Type -> bytes of tensors of it."""
    tensors: tuple[str, ...] = ()
    problem: str | None = None


def read_shard(path: Path) -> Shard:
    """The header of one file. A broken file is a finding, not an error of the user."""
    try:
        handle = open_regular(path)
    except OSError as error:
        return Shard(name=path.name, size=0, problem=error.strerror or "cannot be read")
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little") if size >= 8 else -1
        if length < 2 or length > min(MAX_HEADER, size - 8):
            return Shard(
                name=path.name,
                size=size,
                problem="is no safetensors file, or cut short before its header ends",
            )
        content = file.read(length)
    try:
        header = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return Shard(name=path.name, size=size, problem="has a header that is not JSON")
    if not isinstance(header, dict):
        return Shard(name=path.name, size=size, problem="has a header that is no JSON object")
    return _shard(path.name, size, 8 + length, header)


def _shard(name: str, size: int, start: int, header: dict[str, object]) -> Shard:
    dtypes: dict[str, int] = {}
    names: list[str] = []
    end = 0
    for tensor, described in header.items():
        if tensor == "__metadata__":
            continue
        offsets = described.get("data_offsets") if isinstance(described, dict) else None
        if not isinstance(described, dict) or not isinstance(offsets, list) or len(offsets) != 2:
            return Shard(
                name=name, size=size, problem=f"describes {tensor[:60]!r} without data_offsets"
            )
        first, last = offsets
        if (
            not all(isinstance(item, int) and not isinstance(item, bool) for item in offsets)
            or not 0 <= first <= last
        ):
            return Shard(
                name=name, size=size, problem=f"has offsets of {tensor[:60]!r} that make no sense"
            )
        kind = str(described.get("dtype"))[:20]
        dtypes[kind] = dtypes.get(kind, 0) + last - first
        names.append(tensor)
        end = max(end, last)
    problem = None
    if start + end != size:
        problem = f"is {size} bytes where its header promises {start + end}"
    return Shard(name=name, size=size, dtypes=dtypes, tensors=tuple(names), problem=problem)
