"""Reads NCCL's debug log: which way each pair of ranks talks, and its warnings."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

_CHANNEL = re.compile(
    r"Channel \d+(?:/\d+)? : \d+\[\w*\] -> \d+\[\w*\](?: \[\w+\])? via ([A-Za-z0-9]+(?:/[\w ]+)*)"
)
_WARNING = re.compile(r"NCCL WARN (.+)")
_NVLS = re.compile(r"\b([1-9]\d*) nvls channels")
MOST = 4 << 20


class Transports(msgspec.Struct, frozen=True, kw_only=True):
    """How the ranks talk."""

    kinds: dict[str, int] = {}
    """P2P, SHM, NET -> channels."""
    ways: tuple[str, ...] = ()
    """As the log names them, for example P2P/CUMEM."""
    nvls: bool = False
    warning: str = ""
    """The last warning."""
    tail: str = ""
    files: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For a person."""
        shown = ", ".join(self.ways) or "none"
        return f"{shown}{', NVLS' if self.nvls else ''}"


def read_log(log: Path, keep: Path) -> Transports:
    """Parse the log and keep it in the run folder; a log that is not there says nothing."""
    try:
        with log.open("rb") as file:
            data = file.read(MOST)
        keep.write_bytes(data)
    except OSError:
        return Transports()
    return parse_log(data.decode("utf-8", "replace"), (keep.name,))


def parse_log(text: str, files: tuple[str, ...] = ()) -> Transports:
    """Pure: the text of a log -> what it says."""
    kinds: dict[str, int] = {}
    ways: dict[str, None] = {}
    for match in _CHANNEL.finditer(text):
        way = match.group(1).strip()
        kind = way.partition("/")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
        ways[way] = None
    warnings = _WARNING.findall(text)
    return Transports(
        kinds=kinds,
        ways=tuple(ways),
        nvls=_NVLS.search(text) is not None,
        warning=warnings[-1].strip()[:300] if warnings else "",
        tail=text[-20_000:],
        files=files,
    )
