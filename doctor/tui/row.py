"""A row of a list and how its parts look. Pure; every text of a host is escaped before it becomes a part."""

from __future__ import annotations

from itertools import zip_longest
from typing import TypeAlias

import msgspec

from doctor.report.plain import escape

Part: TypeAlias = tuple[str, str]
"""Text and the name of its style: one of STYLES or nothing."""

STYLES = {
    "pass": "$text-success",
    "fail": "bold $text-error",
    "warn": "$text-warning",
    "unknown": "$text-accent",
    "dim": "$text-muted",
    "bold": "bold",
    "head": "bold $text-primary",
    "command": "$text-secondary",
}
"""Style names and what they are in the theme."""

MARKS = {
    "pass": ("✓", "pass"),
    "fail": ("✗", "FAIL"),
    "warn": ("!", "warn"),
    "unknown": ("?", "unknown"),
    "skip": ("–", "n/a"),  # noqa: RUF001 - the house's glyph for n/a
}
"""Outcome -> glyph and word: never colour alone."""


class Row(msgspec.Struct, frozen=True):
    """One line of a list."""

    key: str
    parts: tuple[Part, ...]
    text: str = ""
    """What a filter looks in, lower case."""
    selectable: bool = True
    fold: bool | None = None
    """True: folded, with more under it; False: unfolded; None: nothing under it."""


def mark(outcome: str) -> Part:
    """Glyph and word of an outcome, as wide as the widest."""
    glyph, word = MARKS.get(outcome, ("?", outcome))
    style = "dim" if outcome == "skip" else outcome
    return f"{glyph} {word:<7}", style


def tree_mark(folded: bool | None) -> str:
    """Whether a row has more under it."""
    return "  " if folded is None else "▸ " if folded else "▾ "


def keep(rows: list[Row], wanted: str) -> list[Row]:
    """The rows that hold every word of the filter; headings of nothing go."""
    words = wanted.lower().split()
    if not words:
        return rows
    found = [row for row in rows if not row.selectable or all(word in row.text for word in words)]
    return [
        row
        for row, following in zip_longest(found, found[1:])
        if row.selectable or (following is not None and following.selectable)
    ]


def safe(value: object) -> str:
    """A value of a host as one line of text."""
    return escape(value if isinstance(value, str) else str(value))
