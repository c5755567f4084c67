"""Sorts a report's findings into the groups that people read, so that every format for people tells the same story.

Formats for people show the fix of a violated finding only: never that of a fault nobody has seen.
"""

from __future__ import annotations

import msgspec

from doctor.checks.finding import Evidence, Finding, Outcome, Severity
from doctor.fleet.model import Brief
from doctor.report.model import Report
from doctor.report.plain import escape


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Findings under one heading. key: fail, warn, note, unknown, explained, waived, pass or skip."""

    key: str
    title: str
    findings: list[Finding]


TITLES = {
    "fail": "Errors",
    "warn": "Warnings",
    "note": "Notes",
    "unknown": "Not seen",
    "explained": "Explained by another finding",
    "waived": "Waived",
    "pass": "Passed",
    "skip": "Does not apply",
}
"""In reading order: root causes first, what they explain below."""


def key_of(finding: Finding | Brief) -> str:
    """The group of a finding: only an unblocked, unwaived violation or blind spot is among the first four."""
    if finding.outcome in (Outcome.PASS, Outcome.SKIP):
        return str(finding.outcome.value)
    if finding.waived is not None:
        return "waived"
    if finding.blocked_by is not None:
        return "explained"
    if finding.outcome is Outcome.WARN and finding.severity is Severity.INFO:
        return "note"
    return str(finding.outcome.value)


def groups(report: Report) -> list[Group]:
    """All findings, each in exactly one group; the root cause that `next` answers stands first in its own."""
    rank = {item.id: place for place, item in enumerate(report.roots)}
    ordered = sorted(report.findings, key=lambda item: (rank.get(item.id, len(rank)), item.id))
    sorted_in = {key: [item for item in ordered if key_of(item) == key] for key in TITLES}
    return [
        Group(key=key, title=TITLES[key], findings=found)
        for key, found in sorted_in.items()
        if found
    ]


def counts(report: Report) -> dict[str, int]:
    """How many findings each group has; absent groups count 0."""
    found = dict.fromkeys(TITLES, 0)
    for item in report.findings:
        found[key_of(item)] += 1
    return found


def area(finding: Finding | Brief) -> str:
    """The part of an id before the dot."""
    return finding.id.partition(".")[0]


def seen_value(evidence: Evidence) -> str:
    """What was read, or why nothing was, as plain text."""
    return escape(str(evidence.reason if evidence.value is None else evidence.value))


def plain_lines(text: str | None) -> list[str]:
    """The lines of a command, each without control characters."""
    return [escape(line) for line in (text or "").split("\n")] if text else []
