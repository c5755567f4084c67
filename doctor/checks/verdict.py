"""The verdict over findings: a pure function, so that every format and every exit code says the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from doctor.checks.finding import Finding, Outcome, Severity

Verdict = Literal["healthy", "degraded", "broken", "unknown"]


def verdict(findings: Iterable[Finding]) -> Verdict:
    """broken: an unblocked error failed; else unknown: an error could not be seen; else degraded: a warning; else healthy.

    No findings at all is unknown: nothing was looked at.
    """
    every = list(findings)
    counted = [item for item in every if item.counts]
    if not every:
        return "unknown"
    if any(item.outcome is Outcome.FAIL for item in counted):
        return "broken"
    if any(item.outcome is Outcome.UNKNOWN and item.severity is Severity.ERROR for item in counted):
        return "unknown"
    if any(item.outcome is Outcome.WARN and item.severity is Severity.WARN for item in counted):
        return "degraded"
    return "healthy"
