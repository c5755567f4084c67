"""The report as Prometheus text, ready for node_exporter's textfile collector.

Series exist for violations and blind spots only; counts exist for every group, so that 0 is said and never implied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from doctor.checks.finding import Finding, Outcome
from doctor.fleet.model import Brief
from doctor.report.grouping import TITLES, area, counts
from doctor.report.model import Report
from doctor.report.plain import escape

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

VERDICTS = ("healthy", "degraded", "broken", "unknown")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What metrics say of a host."""

    host: str
    version: str
    judged_as_of: str
    platform: str
    distribution: str
    verdict: str
    exit_code: int
    counts: dict[str, int]
    findings: Sequence[Finding | Brief]
    unseen: int
    timing_ms: dict[str, int] = {}


def render(report: Report) -> str:
    """The exposition, one family after the other."""
    seen = Seen(
        host=report.host.name,
        version=report.doctor,
        judged_as_of=report.judged_as_of,
        platform=report.host.platform,
        distribution=report.host.distribution,
        verdict=report.verdict,
        exit_code=report.exit_code,
        counts=counts(report),
        findings=report.findings,
        unseen=len(report.unseen),
        timing_ms=report.timing_ms,
    )
    return expose([make([seen]) for make in FAMILIES])


def expose(families: Sequence[GaugeMetricFamily]) -> str:
    """Families as the client writes them."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Collector:
        def collect(self) -> Iterator[GaugeMetricFamily]:
            yield from families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return generate_latest(registry).decode("utf-8")


def family(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    """An empty gauge."""
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"doctor_{name}", about, labels=labels)


def _info(hosts: Sequence[Seen]) -> GaugeMetricFamily:
    labels = ("host", "version", "judged_as_of", "platform", "distribution")
    made = family("info", "What judged the host, as of which day.", *labels)
    for seen in hosts:
        said = (seen.host, seen.version, seen.judged_as_of, seen.platform, seen.distribution)
        made.add_metric([*map(escape, said)], 1)
    return made


def _verdict(hosts: Sequence[Seen]) -> GaugeMetricFamily:
    about = "1 for the verdict that holds, 0 for the others."
    made = family("verdict", about, "host", "verdict")
    for seen in hosts:
        for name in VERDICTS:
            made.add_metric([escape(seen.host), name], int(seen.verdict == name))
    return made


def _exit_code(hosts: Sequence[Seen]) -> GaugeMetricFamily:
    about = "Exit code of the check: 0 healthy, 1 findings, 3 no verdict."
    made = family("exit_code", about, "host")
    for seen in hosts:
        made.add_metric([escape(seen.host)], seen.exit_code)
    return made


def _findings(hosts: Sequence[Seen]) -> GaugeMetricFamily:
    about = "Findings by what they mean; explained and waived ones are not counted elsewhere."
    made = family("findings", about, "host", "group")
    for seen in hosts:
        for group in TITLES:
            made.add_metric([escape(seen.host), group], seen.counts[group])
    return made


def _finding(hosts: Sequence[Seen]) -> GaugeMetricFamily:
    labels = ("host", "id", "area", "severity", "outcome", "blocked_by", "waived")
    about = "1 for each violated or unseen check; alert on those without blocked_by and waived."
    made = family("finding", about, *labels)
    for seen in hosts:
        host = escape(seen.host)
        for item in seen.findings:
            if item.outcome in (Outcome.PASS, Outcome.SKIP):
                continue
            waived = "false" if item.waived is None else "true"
            said = (item.id, area(item), item.severity.value, item.outcome.value)
            made.add_metric([host, *said, item.blocked_by or "", waived], 1)
    return made


def _unseen(hosts: Sequence[Seen]) -> GaugeMetricFamily:
    made = family("unseen_facts", "Facts that could not be looked at.", "host")
    for seen in hosts:
        made.add_metric([escape(seen.host)], seen.unseen)
    return made


def _timing(hosts: Sequence[Seen]) -> GaugeMetricFamily:
    about = "How long each part of the check took."
    made = family("stage_duration_seconds", about, "host", "stage")
    for seen in hosts:
        for stage, milliseconds in seen.timing_ms.items():
            made.add_metric([escape(seen.host), escape(stage)], milliseconds / 1000)
    return made


FAMILIES: tuple[Callable[[Sequence[Seen]], GaugeMetricFamily], ...] = (
    _info,
    _verdict,
    _exit_code,
    _findings,
    _finding,
    _unseen,
    _timing,
)
"""In the order of the exposition."""
