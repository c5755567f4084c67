"""All checks over one host: one finding each, root causes first, what they explain under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from doctor.checks.base import Check, judge
from doctor.checks.finding import Finding, Outcome, Severity
from doctor.checks.knowledge import Knowledge
from doctor.facts.tree import Facts

AREA_ORDER = (
    "gpu wsl pci kernel driver fabric cuda packages container nccl limits shm disk toolkit python service engine host"
).split()
"""Where two root causes are equally severe, the one lower in the stack is said first."""
CAN_WAIT = ("*-cve", "*-eol")
"""Security floors and ends of life: said after what breaks or is about to."""


def evaluate(checks: Mapping[str, Check], facts: Facts, knowledge: Knowledge) -> list[Finding]:
    """One finding per check, ordered by id."""
    findings = {id: judge(check, facts, knowledge) for id, check in sorted(checks.items())}
    return [_blocked(id, checks, findings) for id in sorted(findings)]


def _blocked(id: str, checks: Mapping[str, Check], findings: Mapping[str, Finding]) -> Finding:
    finding = findings[id]
    if finding.outcome in (Outcome.PASS, Outcome.SKIP):
        return finding
    root = _root(id, checks, findings, frozenset({id}))
    return finding if root is None else msgspec.structs.replace(finding, blocked_by=root)


def _root(
    id: str, checks: Mapping[str, Check], findings: Mapping[str, Finding], seen: frozenset[str]
) -> str | None:
    """The failing check at the bottom of what `id` needs; else, for what was not seen, the unseen one.

    A warning is also explained by a warning that it needs.
    """
    unseen: str | None = None
    warned: str | None = None
    for need in checks[id].needs:
        if need not in findings or need in seen:
            continue
        deeper = _root(need, checks, findings, seen | {need})
        outcome = findings[need].outcome
        if deeper is not None and findings[deeper].outcome is Outcome.FAIL:
            return deeper
        if outcome is Outcome.FAIL:
            return need
        if outcome is Outcome.WARN:
            warned = warned or deeper or need
        if outcome is Outcome.UNKNOWN and findings[need].severity is Severity.ERROR:
            unseen = unseen or deeper or need
    if findings[id].outcome is Outcome.WARN and warned is not None:
        return warned
    return unseen if findings[id].outcome is Outcome.UNKNOWN else None


def root_causes(findings: Iterable[Finding]) -> list[Finding]:
    """Unblocked violations, the most severe and lowest in the stack first."""
    roots = [item for item in findings if item.violated and item.counts]
    return sorted(roots, key=_rank)


def _rank(finding: Finding) -> tuple[int, bool, int, str]:
    area = finding.id.partition(".")[0]
    severity = (Severity.ERROR, Severity.WARN, Severity.INFO).index(finding.severity)
    can_wait = any(fnmatchcase(finding.id, pattern) for pattern in CAN_WAIT)
    depth = AREA_ORDER.index(area) if area in AREA_ORDER else len(AREA_ORDER)
    return severity, can_wait, depth, finding.id
