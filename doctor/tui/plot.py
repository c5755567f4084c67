"""Numbers of a smoke run as bars. Pure; the number stands beside every bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doctor.tui.header import bar
from doctor.tui.row import Part, safe

Lines = list[list[Part]]
WIDTH = 16
NAMES = {
    "first_token_ms": ("first token", "ms"),
    "request_ms": ("whole request", "ms"),
    "tokens_per_s": ("throughput", "tokens/s"),
    "windows_tokens_per_s": ("throughput in each part of the run", "tokens/s"),
}
"""Measurements of the load as people call them, and their units."""


def number_lines(numbers: Mapping[str, Any]) -> Lines:
    """Tables of percentiles and series as bars, single numbers as they are."""
    lines: Lines = []
    single: Lines = []
    for name, value in numbers.items():
        title, unit = named(name)
        if (
            isinstance(value, Mapping)
            and value
            and all(_is_number(item) for item in value.values())
        ):
            lines += [[(title, "head")], *bars(dict(value), unit), []]
        elif isinstance(value, list) and value and all(_is_number(item) for item in value):
            parts = {f"part {number}": item for number, item in enumerate(value, 1)}
            lines += [[(title, "head")], *bars(parts, unit), []]
        elif isinstance(value, list):
            single += [[("  " + safe(item), "dim")] for item in value]
        elif not isinstance(value, Mapping) and value is not None:
            shown = f"{value:g}" if isinstance(value, float) else safe(value)
            single.append([(f"{title}  ", "dim"), (f"{shown} {unit}".rstrip(), "")])
    return [*lines, *single]


def bars(values: Mapping[str, float], unit: str) -> Lines:
    """One bar a value, the longest as wide as WIDTH."""
    most = max(values.values(), default=0)
    widest = max((len(name) for name in values), default=0)
    return [
        [
            (f"  {safe(name):<{widest}}  ", "dim"),
            *bar(value, most or 1, WIDTH),
            (f"  {value:g} {unit}".rstrip(), ""),
        ]
        for name, value in values.items()
    ]


UNITS = {"ms": "ms", "s": "s", "percent": "%", "bytes": "bytes"}
"""Last word of a measurement's name and its unit."""


def named(name: str) -> tuple[str, str]:
    """`first_token_ms` -> first token, ms; `tokens_per_s` -> tokens, per s; `peer_slowest_gb_s` -> ..., GB/s."""
    if name in NAMES:
        return NAMES[name]
    words = name.split("_")
    if words[-2:] == ["gb", "s"]:
        return safe(" ".join(words[:-2])), "GB/s"
    if words[-2:] == ["per", "s"]:
        return safe(" ".join(words[:-2])), "/s"
    if len(words) > 1 and words[-1] in UNITS:
        return safe(" ".join(words[:-1])), UNITS[words[-1]]
    return safe(" ".join(words)), ""


def throughput(trace: Sequence[tuple[float, float]]) -> str:
    """How far a long rung is, per second."""
    if len(trace) < 2 or trace[-1][0] <= trace[0][0]:
        return ""
    return f"{(trace[-1][1] - trace[0][1]) / (trace[-1][0] - trace[0][0]):.3g} per s"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
