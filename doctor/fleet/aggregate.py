"""The audit put together from hosts as they come, in any order. What it keeps of a host is its line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from doctor import __version__
from doctor.checks.finding import Outcome, Severity
from doctor.exit_codes import ExitCode, worst
from doctor.fleet import across, likeness
from doctor.fleet.faults import Fault, by_finding
from doctor.fleet.folder import Sharing
from doctor.fleet.model import (
    AcrossHosts,
    FleetReport,
    FleetVerdict,
    HostLine,
    fleet_verdict,
)
from doctor.report.model import Report

if TYPE_CHECKING:
    from doctor.fleet.golden import Golden


class Gathering:
    """Takes each host once. Lines share what they have in common, so that ten thousand hosts fit in memory."""

    def __init__(self) -> None:
        self._lines: dict[str, HostLine] = {}
        self._faults: dict[str, Fault] = {}
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
                fault = self._faults[finding.id] = Fault(finding)
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
            by_finding=by_finding(self._faults.values()),
            outliers=outliers,
            across=found,
            likeness=alike,
            golden=golden.name if golden is not None else "",
        )


def counts(lines: list[HostLine]) -> dict[str, int]:
    """Hosts by verdict (of those that were audited) and by state; `hosts` is all."""
    found = Counter(line.standing for line in lines)
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
