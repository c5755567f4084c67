"""What people want to know first of many hosts: how many are in what state, which differ, what changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.fleet.compare import UNSEEN
from doctor.fleet.model import AcrossHosts, ByFinding, Change, FleetReport, HostLine
from doctor.report.model import Report
from doctor.report.text import VERDICTS

FLEET_VERDICTS = {**VERDICTS, "partial": ("cyan", "◐", "?")}
"""A host's, and that of an audit which did not see every host."""
STATES = {
    "unreachable": "no connection",
    "late": "no answer by the deadline",
    "failed": "the probe did not run",
    "refused": "the answer was not a probe's",
    "not-reached": "the audit ended before",
}
WORST_FIRST = ("broken", "unknown", "degraded", "healthy")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts that differ from their like in the same way."""

    trait: str
    title: str
    value: str
    usual: str
    golden: bool
    severity: Severity
    hosts: list[str]
    groups: list[str]


def differences(fleet: FleetReport) -> list[Difference]:
    """Outliers with the same value of the same trait together, whichever of the groups they are in; in the fleet's order."""
    from doctor.fleet.trait_list import BY_PATH

    found: dict[tuple[str, str, str, bool], list[int]] = defaultdict(list)
    for place, item in enumerate(fleet.outliers):
        golden = item.group.startswith("golden: ")
        found[item.trait, item.value, item.usual, golden].append(place)
    made = []
    for (trait, value, usual, golden), places in found.items():
        items = [fleet.outliers[place] for place in places]
        known = BY_PATH.get(trait)
        made.append(
            Difference(
                trait=trait,
                title=known.title if known else trait,
                value=value,
                usual=usual,
                golden=golden,
                severity=items[0].severity,
                hosts=sorted({item.host for item in items}),
                groups=sorted({item.group for item in items}),
            )
        )
    order = {path: at for at, path in enumerate(BY_PATH)}
    return sorted(made, key=lambda item: (order.get(item.trait, len(order)), item.value))


def not_compared(fleet: FleetReport) -> dict[str, int]:
    """Title of a trait -> hosts of whom it was not seen, so that nobody takes them for alike."""
    found: dict[str, int] = defaultdict(int)
    for row in fleet.likeness:
        if row.seen < row.hosts:
            found[row.title] += row.hosts - row.seen
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def said_counts(fleet: FleetReport) -> str:
    """`1000 hosts: 100 broken, 878 degraded, 22 not audited`."""
    counts = fleet.counts
    parts = [f"{counts[name]} {name}" for name in WORST_FIRST if counts.get(name)]
    lost = counts.get("hosts", 0) - counts.get("audited", 0)
    if lost:
        parts.append(f"{lost} not audited")
    total = counts.get("hosts", 0)
    return f"{total} host{'' if total == 1 else 's'}" + (f": {', '.join(parts)}" if parts else "")


def lost(lines: Iterable[HostLine]) -> dict[str, list[HostLine]]:
    """State -> its hosts, in the order of STATES."""
    found: dict[str, list[HostLine]] = {state: [] for state in STATES}
    for line in lines:
        if line.state != "audited":
            found.setdefault(line.state, []).append(line)
    return {state: hosts for state, hosts in found.items() if hosts}


def told(line: HostLine, report: Report | None) -> list[Finding]:
    """What did not pass on a host: as its report says it or, where that is gone, what is left of it in the host's line."""
    if report is not None:
        skipped = (Outcome.PASS, Outcome.SKIP)
        return [item for item in report.findings if item.outcome not in skipped]
    return [
        Finding(
            id=item.id,
            title=item.id,
            outcome=item.outcome,
            severity=item.severity,
            message=item.message,
            blocked_by=item.blocked_by,
            waived=item.waived,
        )
        for item in line.findings
    ]


def causes(fleet: FleetReport) -> dict[str, list[ByFinding]]:
    """Errors, Warnings, Notes and Not seen: faults that nothing else explains on one host at least."""
    titles: dict[str, list[ByFinding]] = {
        "Errors": [],
        "Warnings": [],
        "Notes": [],
        "Not seen": [],
    }
    for item in fleet.by_finding:
        if not item.roots:
            continue
        if item.outcome is Outcome.FAIL:
            titles["Errors"].append(item)
        elif item.outcome is Outcome.UNKNOWN:
            titles["Not seen"].append(item)
        else:
            titles["Notes" if item.severity is Severity.INFO else "Warnings"].append(item)
    return {title: found for title, found in titles.items() if found}


def broken_rules(fleet: FleetReport) -> list[AcrossHosts]:
    """Rules across hosts that do not hold, or of which it was not seen."""
    return [item for item in fleet.across if item.outcome is not Outcome.PASS]


def some(names: Sequence[str], most: int = 4) -> str:
    """`a, b, c and 37 more`."""
    rest = len(names) - most
    shown = ", ".join(names[: most if rest > 1 else most + 1])
    return f"{shown} and {rest} more" if rest > 1 else shown


WAYS = ("worse", "better", "different")


def way(item: Change) -> str:
    """Another version is neither worse nor better."""
    if item.worse:
        return "worse"
    return "different" if item.kind == "trait" and item.before != UNSEEN else "better"


def by_way(changes: Sequence[Change]) -> dict[str, list[Change]]:
    """Way -> its changes, those that there are."""
    found = {name: [item for item in changes if way(item) == name] for name in WAYS}
    return {name: items for name, items in found.items() if items}


def said_change(item: Change) -> str:
    """What changed, in a line without the host."""
    if item.kind == "host":
        return f"new, {item.after}" if not item.before else f"gone, was {item.before}"
    if item.kind == "verdict":
        return f"{item.before} -> {item.after}"
    return f"{item.subject}: {item.before or 'fine'} -> {item.after or 'fine'}"
