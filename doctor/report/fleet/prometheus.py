"""The audit as Prometheus text, ready for node_exporter's textfile collector: the families of one host for every host, and the fleet's.

A host that was not audited has the verdict unknown and a state that says why; so no alert goes quiet because a host did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from doctor.fleet.folder import Audit
from doctor.fleet.model import FleetReport, HostLine
from doctor.report.fleet.summary import FLEET_VERDICTS, STATES, WAYS, broken_rules, way
from doctor.report.grouping import TITLES, key_of
from doctor.report.plain import escape
from doctor.report.prometheus import FAMILIES, VERDICTS, Seen, expose, family
from doctor.report.text import Look

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

T = TypeVar("T")
TOGETHER = 500
"""Hosts whose samples are in memory at once."""


def write(audit: Audit, _: Look) -> Iterator[str]:
    """The fleet's families, then each family of hosts with all of them, as the format asks."""
    yield expose([make(audit.fleet) for make in OF_FLEET])
    for of_lines in OF_LINES:
        yield from _in_parts(of_lines, audit.lines())
    for of_seen in FAMILIES:
        yield from _in_parts(of_seen, (_seen(line, audit.fleet) for line in audit.lines()))


def _in_parts(
    make: Callable[[Sequence[T]], GaugeMetricFamily], hosts: Iterable[T]
) -> Iterator[str]:
    """A family some hosts at a time; only the first part has its help and type."""
    source = iter(hosts)
    first = True
    while part := list(islice(source, TOGETHER)):
        made = make(part)
        if not made.samples:
            continue
        text = expose([made])
        yield text if first else text.split("\n", 2)[2]
        first = False


def _seen(line: HostLine, fleet: FleetReport) -> Seen:
    counts = dict.fromkeys(TITLES, 0) | Counter(key_of(item) for item in line.findings)
    return Seen(
        host=line.name,
        version=fleet.doctor,
        judged_as_of=fleet.judged_as_of,
        platform=line.platform,
        distribution=line.distribution,
        verdict=line.verdict if line.state == "audited" else "unknown",
        exit_code=line.exit_code,
        counts=counts | {"pass": line.passed, "skip": line.skipped},
        findings=line.findings,
        unseen=line.unseen,
    )


def _info(fleet: FleetReport) -> GaugeMetricFamily:
    made = family("fleet_info", "The audit.", "audit", "inventory", "version", "judged_as_of")
    said = (fleet.audit, fleet.inventory, fleet.doctor, fleet.judged_as_of)
    made.add_metric([*map(escape, said)], 1)
    return made


def _verdict(fleet: FleetReport) -> GaugeMetricFamily:
    made = family("fleet_verdict", "1 for the verdict that holds, 0 for the others.", "verdict")
    for name in FLEET_VERDICTS:
        made.add_metric([name], int(fleet.verdict == name))
    return made


def _exit_code(fleet: FleetReport) -> GaugeMetricFamily:
    made = family("fleet_exit_code", "Exit code of the audit: the worst host's.")
    made.add_metric([], fleet.exit_code)
    return made


def _hosts(fleet: FleetReport) -> GaugeMetricFamily:
    made = family("fleet_hosts", "Hosts by what became of them.", "state")
    for state in ("audited", *STATES):
        made.add_metric([state], fleet.counts.get(state, 0))
    return made


def _hosts_by_verdict(fleet: FleetReport) -> GaugeMetricFamily:
    made = family("fleet_audited_hosts", "Audited hosts by verdict.", "verdict")
    for name in VERDICTS:
        made.add_metric([name], fleet.counts.get(name, 0))
    return made


def _finished(fleet: FleetReport) -> GaugeMetricFamily:
    about = "When the audit ended; no sample while it goes on or after it was cut short."
    made = family("fleet_finished_timestamp_seconds", about)
    if fleet.finished:
        made.add_metric(
            [], datetime.fromisoformat(fleet.finished.replace("Z", "+00:00")).timestamp()
        )
    return made


def _faults(fleet: FleetReport) -> GaugeMetricFamily:
    about = "Hosts that have a fault which nothing else explains and no waiver lifts."
    made = family("fleet_fault_hosts", about, "id", "severity", "outcome")
    for item in fleet.by_finding:
        if item.roots:
            made.add_metric([item.id, item.severity.value, item.outcome.value], item.roots)
    return made


def _outliers(fleet: FleetReport) -> GaugeMetricFamily:
    about = "Hosts that differ in a trait from those they should be like."
    made = family("fleet_outlier_hosts", about, "trait", "severity")
    found = Counter((item.trait, item.severity.value) for item in fleet.outliers)
    for (trait, severity), number in sorted(found.items()):
        made.add_metric([escape(trait), severity], number)
    return made


def _rules(fleet: FleetReport) -> GaugeMetricFamily:
    about = "1 for each rule across hosts that does not hold in a group, or was not seen to."
    made = family("fleet_rule", about, "id", "group", "severity", "outcome")
    for item in broken_rules(fleet):
        said = (item.id, escape(item.group), item.severity.value, item.outcome.value)
        made.add_metric([*said], 1)
    return made


def _changes(fleet: FleetReport) -> GaugeMetricFamily:
    made = family("fleet_changes", "Changes since the audit before.", "way")
    if fleet.before:
        found = Counter(map(way, fleet.changes))
        for name in WAYS:
            made.add_metric([name], found[name])
    return made


def _state(lines: Sequence[HostLine]) -> GaugeMetricFamily:
    made = family("host_state", "1 for what became of the host in the audit.", "host", "state")
    for line in lines:
        made.add_metric([escape(line.name), line.state], 1)
    return made


def _group(lines: Sequence[HostLine]) -> GaugeMetricFamily:
    made = family("host_group", "1 for each inventory group of the host.", "host", "group")
    for line in lines:
        for group in line.groups:
            made.add_metric([escape(line.name), escape(group)], 1)
    return made


def _seconds(lines: Sequence[HostLine]) -> GaugeMetricFamily:
    about = "From the start of the host's task to its answer."
    made = family("host_audit_duration_seconds", about, "host")
    for line in lines:
        made.add_metric([escape(line.name)], line.seconds)
    return made


OF_FLEET: tuple[Callable[[FleetReport], GaugeMetricFamily], ...] = (
    _info,
    _verdict,
    _exit_code,
    _hosts,
    _hosts_by_verdict,
    _finished,
    _faults,
    _outliers,
    _rules,
    _changes,
)
OF_LINES: tuple[Callable[[Sequence[HostLine]], GaugeMetricFamily], ...] = (
    _state,
    _group,
    _seconds,
)
