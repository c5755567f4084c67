"""Explanations of a pasted error as text or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import msgspec

from doctor.diagnose import Explanation
from doctor.report.plain import escape


def render(found: Sequence[Explanation], format_: str, width: int = 80) -> str:
    """{"explanations": [...]} or a ranked list; an empty one says so."""
    if format_ == "json":
        entries = [{**msgspec.to_builtins(item), "rank": item.rank} for item in found]
        return msgspec.json.format(
            msgspec.json.encode({"explanations": entries}), indent=2
        ).decode()
    if not found:
        return (
            "Nothing known fits this text well enough to name a cause.\n"
            "  doctor check says what this host shows; a longer excerpt of the log may fit better."
        )
    lines: list[str] = []
    for item in found:
        lines.append(f"{item.score:>3}  {item.rank:<8}  {item.finding}")
        lines += _wrap(f"cause: {item.cause}", width)
        lines += _wrap(f"fits: {item.matched}", width)
        lines += _wrap(f"this host: {item.host}: {item.host_message}", width)
        for step in item.remedy:
            lines += _wrap(f"- {step}", width)
        if item.command:
            lines += [f"       $ {escape(line)}" for line in item.command.splitlines()]
        lines += [f"     {source.url} ({source.as_of})" for source in item.sources[:2]]
        lines.append("")
    return "\n".join(lines).rstrip()


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(
        escape(text),
        width,
        initial_indent="     ",
        subsequent_indent="       ",
        break_long_words=False,
        break_on_hyphens=False,
    )
