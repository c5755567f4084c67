"""An audit seen anew: against another golden host, or since another audit. What was stored stays as it is."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from doctor.fleet import compare, golden, likeness
from doctor.fleet.folder import Audit
from doctor.fleet.model import FleetReport, HostLine
from doctor.fleet.opening import lines_of
from doctor.report.model import Report


class Revised:
    """Another summary of the same hosts."""

    def __init__(self, audit: Audit, fleet: FleetReport) -> None:
        self._audit = audit
        self.fleet = fleet

    def lines(self) -> Iterator[HostLine]:
        """Those of the audit."""
        return self._audit.lines()

    def reports(self) -> Iterator[tuple[HostLine, Report | None]]:
        """Those of the audit."""
        return self._audit.reports()


def against(audit: Audit, what: str) -> Revised:
    """Compared with a golden file or host."""
    lines = lines_of(audit)
    wanted = golden.chosen(what, lines, audit.fleet.judged_as_of)
    outliers, alike = likeness.compare(list(lines.values()), wanted)
    fleet = msgspec.structs.replace(
        audit.fleet, outliers=outliers, likeness=alike, golden=wanted.name
    )
    return Revised(audit, fleet)


def since(audit: Audit, before: Audit) -> Revised:
    """With the changes since an earlier audit."""
    changes = compare.changes(lines_of(before), lines_of(audit))
    fleet = msgspec.structs.replace(audit.fleet, before=before.fleet.audit, changes=changes)
    return Revised(audit, fleet)
