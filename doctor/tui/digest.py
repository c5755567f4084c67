"""What a screen says of all findings together, reckoned once for each set of them: a key must not pay for five thousand rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.checks.verdict import Verdict, verdict
from doctor.report.model import Next, next_step


class Digest(msgspec.Struct, frozen=True):
    """Verdict, counts, the one next step, and who points at whom."""

    verdict: Verdict
    counts: str
    next: Next | None
    explains: dict[str, list[str]]
    """Finding -> those that it explains."""
    readers: dict[str, list[str]]
    """Fact -> findings that read it."""


class _Last:
    """The set that was asked for last; a state is never changed, so the same object is the same set."""

    findings: Mapping[str, Finding] | None = None
    digest: Digest


def digest(findings: Mapping[str, Finding]) -> Digest:
    """All that is said of these together."""
    if _Last.findings is not findings:
        _Last.digest = _made(findings)
        _Last.findings = findings
    return _Last.digest


def _made(findings: Mapping[str, Finding]) -> Digest:
    every = [findings[id] for id in sorted(findings)]
    explains: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for item in every:
        if item.blocked_by is not None:
            explains.setdefault(item.blocked_by, []).append(item.id)
        for fact in {each.fact for each in item.evidence}:
            readers.setdefault(fact, []).append(item.id)
    return Digest(verdict(every), counts(every), next_step(every), explains, readers)


def counts(findings: list[Finding]) -> str:
    """How many of what, as the report counts them."""
    outcomes = Counter(item.outcome for item in findings if item.counts)
    warned = [item for item in findings if item.outcome is Outcome.WARN and item.counts]
    notes = sum(1 for item in warned if item.severity is Severity.INFO)
    parts = [
        _count(outcomes[Outcome.FAIL], "error"),
        _count(len(warned) - notes, "warning"),
        _count(notes, "note"),
        f"{outcomes[Outcome.PASS]} passed",
        f"{outcomes[Outcome.UNKNOWN]} not seen" if outcomes[Outcome.UNKNOWN] else "",
    ]
    return ", ".join(part for part in parts if part)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else ""
