"""Reports as Prometheus text, ready for node_exporter's textfile collector.

Series exist for violations and blind spots only; counts exist for every group, so that 0 is said and never implied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from doctor.checks.finding import Outcome
from doctor.report.grouping import TITLES, area, counts
from doctor.report.model import Report
from doctor.report.plain import escape

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

VERDICTS = ("healthy", "degraded", "broken", "unknown")


def render(reports: Sequence[Report]) -> str:
    """The exposition, one family after the other."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(reports))
    return generate_latest(registry).decode("utf-8")


class _Collector:
    """Hands the client finished families; nothing is kept between scrapes."""

    def __init__(self, reports: Sequence[Report]) -> None:
        self.reports = reports

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Every family, each with all hosts."""
        yield _info(self.reports)
        yield _verdict(self.reports)
        yield _exit_code(self.reports)
        yield _findings(self.reports)
        yield _finding(self.reports)
        yield _unseen(self.reports)
        yield _timing(self.reports)


def _family(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"doctor_{name}", about, labels=["host", *labels])


def _info(reports: Sequence[Report]) -> GaugeMetricFamily:
    labels = ("version", "judged_as_of", "platform", "distribution")
    family = _family("info", "What judged the host, as of which day.", *labels)
    for report in reports:
        said = (report.doctor, report.judged_as_of, report.host.platform, report.host.distribution)
        family.add_metric([_host(report), *map(escape, said)], 1)
    return family


def _verdict(reports: Sequence[Report]) -> GaugeMetricFamily:
    family = _family("verdict", "1 for the verdict that holds, 0 for the others.", "verdict")
    for report in reports:
        for name in VERDICTS:
            family.add_metric([_host(report), name], int(report.verdict == name))
    return family


def _exit_code(reports: Sequence[Report]) -> GaugeMetricFamily:
    family = _family("exit_code", "Exit code of the check: 0 healthy, 1 findings, 3 no verdict.")
    for report in reports:
        family.add_metric([_host(report)], report.exit_code)
    return family


def _findings(reports: Sequence[Report]) -> GaugeMetricFamily:
    about = "Findings by what they mean; explained and waived ones are not counted elsewhere."
    family = _family("findings", about, "group")
    for report in reports:
        found = counts(report)
        for group in TITLES:
            family.add_metric([_host(report), group], found[group])
    return family


def _finding(reports: Sequence[Report]) -> GaugeMetricFamily:
    labels = ("id", "area", "severity", "outcome", "blocked_by", "waived")
    about = "1 for each violated or unseen check; alert on those without blocked_by and waived."
    family = _family("finding", about, *labels)
    for report in reports:
        for item in report.findings:
            if item.outcome in (Outcome.PASS, Outcome.SKIP):
                continue
            waived = "false" if item.waived is None else "true"
            said = (item.id, area(item), item.severity.value, item.outcome.value)
            family.add_metric([_host(report), *said, item.blocked_by or "", waived], 1)
    return family


def _unseen(reports: Sequence[Report]) -> GaugeMetricFamily:
    family = _family("unseen_facts", "Facts that could not be looked at.")
    for report in reports:
        family.add_metric([_host(report)], len(report.unseen))
    return family


def _timing(reports: Sequence[Report]) -> GaugeMetricFamily:
    family = _family("stage_duration_seconds", "How long each part of the check took.", "stage")
    for report in reports:
        for stage, milliseconds in report.timing_ms.items():
            family.add_metric([_host(report), escape(stage)], milliseconds / 1000)
    return family


def _host(report: Report) -> str:
    return escape(report.host.name)
