"""An audit of many hosts as it stands, and how its events change it. Pure; what is reckoned over all hosts is reckoned once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from doctor.events import FleetReady, FleetStarted, HostFinished
from doctor.fleet.faults import Fault, by_finding
from doctor.fleet.model import ByFinding, FleetReport, HostLine

WAITING = "waiting"
"""Of a host that has not answered; never a state of the audit itself."""
ORDER = (
    "broken",
    "refused",
    "failed",
    "late",
    "unreachable",
    "not-reached",
    "unknown",
    "degraded",
    "healthy",
    WAITING,
)
"""How hosts stand, what needs somebody first."""


class FleetView(msgspec.Struct, frozen=True, kw_only=True):
    """One audit. `report` is there when all is: who differs, and the rules across hosts."""

    audit: str = ""
    groups: dict[str, list[str]] = {}
    """Every host that is to be audited -> its inventory groups."""
    lines: dict[str, HostLine] = {}
    started: float = 0.0
    report: FleetReport | None = None
    """Without its hosts."""

    @property
    def of(self) -> int:
        """Hosts in all."""
        return max(len(self.groups), len(self.lines))


def began(event: FleetStarted) -> FleetView:
    """A new audit; the last one is no longer shown."""
    return FleetView(audit=event.audit, groups=event.hosts, started=event.at)


def arrived(view: FleetView | None, events: Sequence[HostFinished]) -> FleetView:
    """Hosts answered. There may be thousands: they are taken in one go."""
    view = view or FleetView(started=events[0].at)
    lines = dict(view.lines)
    for event in events:
        line = msgspec.convert(event.line, HostLine)
        lines[line.name] = line
    return msgspec.structs.replace(view, lines=lines)


def ended(view: FleetView | None, event: FleetReady) -> FleetView:
    """All that can be said of the hosts together."""
    report = msgspec.convert({**event.fleet, "hosts": []}, FleetReport)
    view = view or FleetView(audit=report.audit, started=event.at)
    return msgspec.structs.replace(view, report=report)


class _Last:
    """What was reckoned for the view that was asked for last; a view is never changed."""

    view: FleetView | None = None
    counts: dict[str, int] | None = None
    faults: list[ByFinding] | None = None


def _of(view: FleetView) -> type[_Last]:
    if _Last.view is not view:
        _Last.view, _Last.counts, _Last.faults = view, None, None
    return _Last


def counts(view: FleetView) -> dict[str, int]:
    """Hosts by how they stand, in the order of need, those of none left out."""
    kept = _of(view)
    if kept.counts is None:
        found = Counter(line.standing for line in view.lines.values())
        found[WAITING] = view.of - len(view.lines) if view.report is None else 0
        kept.counts = {name: found[name] for name in ORDER if found[name]}
    return kept.counts


def faults(view: FleetView) -> list[ByFinding]:
    """Faults and the hosts that have them: as the audit reckons them, or before its end from what has come."""
    if view.report is not None:
        return view.report.by_finding
    kept = _of(view)
    if kept.faults is None:
        kept.faults = _faults(view)
    return kept.faults


def _faults(view: FleetView) -> list[ByFinding]:
    found: dict[str, Fault] = {}
    for name in sorted(view.lines):
        for item in view.lines[name].findings:
            fault = found.get(item.id)
            if fault is None:
                fault = found[item.id] = Fault(item)
            fault.add(name, item)
    return by_finding(found.values())
