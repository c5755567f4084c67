"""What changed between two audits, by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from doctor.fleet.model import FleetReport
from doctor.report.fleet import markdown
from doctor.report.fleet.summary import by_way
from doctor.report.fleet.text import change_lines
from doctor.report.text import Look


def as_text(fleet: FleetReport, look: Look) -> Iterator[str]:
    """Alike changes of several hosts on one line."""
    found = {name: len(items) for name, items in by_way(fleet.changes).items()}
    said = ", ".join(f"{number} {name}" for name, number in found.items()) or "nothing changed"
    yield f"{fleet.before} -> {fleet.audit}: {said}\n"
    for name, items in by_way(fleet.changes).items():
        yield "\n".join(change_lines(name, items, look)) + "\n"


def as_json(fleet: FleetReport, _: Look) -> Iterator[str]:
    """{"schema": "doctor.diff/1", "before", "after", "changes": [...]}, as in the report of an audit."""
    said = {
        "schema": "doctor.diff/1",
        "before": fleet.before,
        "after": fleet.audit,
        "changes": fleet.changes,
    }
    yield msgspec.json.format(msgspec.json.encode(said), indent=2).decode() + "\n"


def as_lines(fleet: FleetReport, _: Look) -> Iterator[str]:
    """A doctor.change/1 a line."""
    from doctor.report.fleet.jsonl import line_of

    for item in fleet.changes:
        first = {"before_audit": fleet.before, "audit": fleet.audit}
        yield line_of("doctor.change/1", first, item)


def as_markdown(fleet: FleetReport, _: Look) -> Iterator[str]:
    """The section of the report."""
    for section in markdown.changes(fleet):
        yield "\n".join(section) + "\n"


FORMATS: dict[str, Callable[[FleetReport, Look], Iterator[str]]] = {
    "text": as_text,
    "json": as_json,
    "jsonl": as_lines,
    "markdown": as_markdown,
}
