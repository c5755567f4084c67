"""Which findings answer for a glob over check ids: what was asked for and, where that did not pass, why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from doctor.checks.base import Check
from doctor.checks.finding import Finding, Outcome


def unsettled(findings: Iterable[Finding]) -> set[str]:
    """The ids of those that neither passed nor do not apply."""
    return {item.id for item in findings if item.outcome not in (Outcome.PASS, Outcome.SKIP)}


def shown(findings: list[Finding], checks: Mapping[str, Check], pattern: str) -> list[Finding]:
    """What was asked for, and whatever did not pass of what those need that did not pass either."""
    wanted = {item.id for item in findings if fnmatchcase(item.id, pattern)}
    left = unsettled(findings)
    pending, kept, seen = list(wanted & left), set(wanted), set(wanted)
    while pending:
        needs = set(checks[pending.pop()].needs) & set(checks) - seen
        seen |= needs
        kept |= needs & left
        pending += needs
    return [item for item in findings if item.id in kept]
