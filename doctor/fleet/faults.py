"""One finding over many hosts: of which it is the root cause, on which it could not be seen, what is told of all of them."""

from __future__ import annotations

from collections.abc import Iterable

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.fleet.model import Brief, ByFinding

_WORST = {Outcome.FAIL: 0, Outcome.WARN: 1, Outcome.UNKNOWN: 2}
"""Of one finding: what is known to be wrong on one host says more than what was not seen on another."""


class Fault:
    """One finding over all hosts. Of briefs alone title, fix and sources are not known."""

    def __init__(self, finding: Finding | Brief) -> None:
        self.first = self.told = finding
        self._told_rank = self._rank(finding)
        self.violated: list[str] = []
        self.unseen: list[str] = []
        self.explained: list[str] = []

    def add(self, host: str, finding: Finding | Brief) -> None:
        """The finding of one more host. What is told of all is that of the first of those it is worst on."""
        if not finding.counts:
            self.explained.append(host)
        elif finding.violated:
            self.violated.append(host)
        else:
            self.unseen.append(host)
        rank = self._rank(finding)
        if rank < self._told_rank:
            self.told, self._told_rank = finding, rank

    @staticmethod
    def _rank(finding: Finding | Brief) -> tuple[bool, int]:
        return not finding.counts, _WORST[finding.outcome]

    def told_of_all(self) -> ByFinding:
        """The line of the report."""
        roots, unseen = self.violated, self.unseen
        if not roots:
            roots, unseen = unseen, []
        first, told = self.first, self.told
        return ByFinding(
            id=first.id,
            title=first.title if isinstance(first, Finding) else "",
            severity=first.severity,
            outcome=told.outcome,
            hosts=sorted(roots) + sorted(unseen) + sorted(self.explained),
            roots=len(roots),
            unseen=len(unseen),
            message=told.message,
            fix=told.fix if isinstance(told, Finding) and told.violated else None,
            sources=list(first.sources) if isinstance(first, Finding) else [],
        )


def by_finding(faults: Iterable[Fault]) -> list[ByFinding]:
    """Root causes before what they explain; errors, also unseen ones, before warnings and notes; then by how many hosts."""
    return sorted((fault.told_of_all() for fault in faults), key=_order)


def _order(item: ByFinding) -> tuple[bool, bool, int, int, str]:
    severity = list(Severity).index(item.severity)
    return item.roots == 0, item.outcome is not Outcome.FAIL, severity, -item.roots, item.id
