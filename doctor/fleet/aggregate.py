"""The audit put together from hosts as they come, in any order. What it keeps of a host is its line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from doctor import __version__
from doctor.checks.finding import Citation, Finding, Outcome, Severity
from doctor.exit_codes import ExitCode, worst
from doctor.fleet import across, likeness
from doctor.fleet.folder import Sharing
from doctor.fleet.model import (
    AcrossHosts,
    ByFinding,
    FleetReport,
    FleetVerdict,
    HostLine,
    fleet_verdict,
)
from doctor.report.model import Report

if TYPE_CHECKING:
    from doctor.fleet.golden import Golden

_WORST = (Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN)
"""Of one finding: what is known to be wrong on one host says more than what was not seen on another."""


class _Fault:
    """One finding over all hosts."""

    def __init__(self, finding: Finding) -> None:
        self.id = finding.id
        self.title = finding.title
        self.severity = finding.severity
        self.sources: list[Citation] = list(finding.sources)
        self.told = finding
        self.violated: list[str] = []
        self.unseen: list[str] = []
        self.explained: list[str] = []

    def add(self, host: str, finding: Finding) -> None:
        """The finding of one more host. What is told of all is that of the first of those it is worst on."""
        if not finding.counts:
            self.explained.append(host)
        elif finding.violated:
            self.violated.append(host)
        else:
            self.unseen.append(host)
        if self._rank(finding) < self._rank(self.told):
            self.told = finding

    @staticmethod
    def _rank(finding: Finding) -> tuple[bool, int]:
        return not finding.counts, _WORST.index(finding.outcome)

    def told_of_all(self) -> ByFinding:
        """The line of the report."""
        roots, unseen = self.violated, self.unseen
        if not roots:
            roots, unseen = unseen, []
        return ByFinding(
            id=self.id,
            title=self.title,
            severity=self.severity,
            outcome=self.told.outcome,
            hosts=sorted(roots) + sorted(unseen) + sorted(self.explained),
            roots=len(roots),
            unseen=len(unseen),
            message=self.told.message,
            fix=self.told.fix if self.told.violated else None,
            sources=self.sources,
        )


class Gathering:
    """Takes each host once. Lines share what they have in common, so that ten thousand hosts fit in memory."""

    def __init__(self) -> None:
        self._lines: dict[str, HostLine] = {}
        self._faults: dict[str, _Fault] = {}
        self._sharing = Sharing()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: HostLine, report: Report | None = None) -> None:
        """A host's line with its report; without a report a host that was not audited. A name that comes again is refused."""
        if line.name in self._lines:
            raise ValueError(f"{line.name} came twice")
        self._lines[line.name] = self._sharing.share(line)
        if report is None:
            return
        for finding in report.findings:
            if finding.outcome in (Outcome.PASS, Outcome.SKIP):
                continue
            fault = self._faults.get(finding.id)
            if fault is None:
                fault = self._faults[finding.id] = _Fault(finding)
            fault.add(line.name, finding)

    def finish(
        self,
        *,
        audit: str,
        inventory: str,
        started: str,
        finished: str,
        judged_as_of: str,
        golden: Golden | None = None,
    ) -> FleetReport:
        """Everything that can be said once all hosts are there."""
        lines = [self._lines[name] for name in sorted(self._lines)]
        outliers, alike = likeness.compare(lines, golden)
        found = across.judge(lines, judged_as_of)
        return FleetReport(
            audit=audit,
            doctor=__version__,
            inventory=inventory,
            started=started,
            finished=finished,
            judged_as_of=judged_as_of,
            verdict=verdict(lines, found),
            exit_code=exit_code(lines, found),
            counts=counts(lines),
            hosts=lines,
            by_finding=self._by_finding(),
            outliers=outliers,
            across=found,
            likeness=alike,
            golden=golden.name if golden is not None else "",
        )

    def _by_finding(self) -> list[ByFinding]:
        return sorted((fault.told_of_all() for fault in self._faults.values()), key=_order)


def _order(item: ByFinding) -> tuple[bool, bool, int, int, str]:
    """Root causes before what they explain; errors, also unseen ones, before warnings and notes; then by how many hosts."""
    severity = list(Severity).index(item.severity)
    return item.roots == 0, item.outcome is not Outcome.FAIL, severity, -item.roots, item.id


def counts(lines: list[HostLine]) -> dict[str, int]:
    """Hosts by verdict (of those that were audited) and by state; `hosts` is all."""
    found = Counter(line.verdict if line.state == "audited" else line.state for line in lines)
    audited = sum(1 for line in lines if line.state == "audited")
    return {"hosts": len(lines), "audited": audited, **dict(sorted(found.items()))}


def verdict(lines: list[HostLine], found: list[AcrossHosts]) -> FleetVerdict:
    """The hosts' verdict; a rule that only hosts together can break makes a healthy fleet degraded, and broken if it stops them."""
    said = fleet_verdict(lines)
    broken = {item.outcome for item in found}
    if Outcome.FAIL in broken:
        return "broken"
    warned = any(
        item.outcome is Outcome.WARN and item.severity is not Severity.INFO for item in found
    )
    return "degraded" if said == "healthy" and warned else said


def exit_code(lines: list[HostLine], found: list[AcrossHosts]) -> int:
    """The worst host's; 3 at least when one was not audited or there is none."""
    codes = [line.exit_code if line.state == "audited" else ExitCode.NO_VERDICT for line in lines]
    if any(item.outcome is Outcome.FAIL for item in found):
        codes.append(ExitCode.FINDINGS)
    return int(worst(codes or [ExitCode.NO_VERDICT]))


__all__ = ["Gathering", "counts", "exit_code", "verdict"]
