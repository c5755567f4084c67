"""Small audits put together from few lines, and one with any text in every place that a host or an inventory can write to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from doctor.fleet.aggregate import Gathering
from doctor.fleet.compare import changes
from doctor.fleet.folder import Audit
from doctor.fleet.line import line_of
from doctor.fleet.model import FleetReport, HostLine, Identity
from doctor.report.formats import of_fleet
from doctor.report.model import Report
from doctor.report.text import Look
from tests.report.sample import SAID, report

ALIKE = {
    "nvml.gpus.name": "8 x H100",
    "host.distribution": "Ubuntu 24.04 LTS",
    "driver.loaded": "580.95.05",
    "nccl.wheels": "2.27.3",
    "fabric.manager_version": "580.95.05",
}


def line(
    name: str, *groups: str, traits: Mapping[str, str | None] | None = None, **said: object
) -> HostLine:
    """An audited, healthy host; a trait that is None was not seen."""
    merged = {**ALIKE, **(traits or {})}
    values = {
        "name": name,
        "state": "audited",
        "verdict": "healthy",
        "exit_code": 0,
        "groups": list(groups),
        "traits": {path: value for path, value in merged.items() if value is not None},
        "passed": 100,
        "skipped": 3,
        **said,
    }
    return msgspec.convert(values, HostLine)


def fleet(*lines: HostLine) -> FleetReport:
    """What is said of them."""
    gathering = Gathering()
    for item in lines:
        gathering.add(item)
    return finish(gathering)


def finish(gathering: Gathering) -> FleetReport:
    """The report of what was gathered."""
    return gathering.finish(
        audit="20261130T120000Z",
        inventory="hosts.ini",
        started="2026-11-30T12:00:00Z",
        finished="2026-11-30T12:01:00Z",
        judged_as_of="2026-11-30",
    )


class Small:
    """An audit in memory."""

    def __init__(self, fleet: FleetReport, reports: dict[str, Report]) -> None:
        self.fleet = fleet
        self._reports = reports

    def lines(self) -> Iterator[HostLine]:
        return iter(self.fleet.hosts)

    def reports(self) -> Iterator[tuple[HostLine, Report | None]]:
        return ((line, self._reports.get(line.name)) for line in self.fleet.hosts)


def audit(said: str = SAID, host: str = "gpu-1", group: str = "rack1") -> Small:
    """Six hosts with the sample's findings, one of them unlike the others, and one that did not answer; the audit before was better."""
    gathering = Gathering()
    reports = {}
    usual = {"driver.loaded": "580.95.05", "nccl.wheels": "2.27.3"}
    names = [host, *(f"other-{place}" for place in range(2, 7))]
    for place, name in enumerate(names):
        reports[name] = report(said, host=name)
        made = line_of(reports[name], name, [group, "all-gpus"], 1.5)
        traits = usual if place else {"driver.loaded": f"unlike {said}", "nccl.wheels": said}
        twin = Identity(gpus=["GPU-twin"], boot=said) if place < 2 else None
        gathering.add(msgspec.structs.replace(made, traits=traits, identity=twin), reports[name])
    gathering.add(HostLine(name="lost", state="late", reason=said, groups=[group], seconds=30.0))
    found = finish(gathering)
    earlier = {line.name: _better(line, said) for line in found.hosts}
    now = {line.name: line for line in found.hosts}
    found = msgspec.structs.replace(
        found, before="20261129T120000Z", changes=changes(earlier, now), inventory=said
    )
    return Small(found, reports)


def _better(line: HostLine, said: str) -> HostLine:
    traits = line.traits | {"kernel.running": said}
    return msgspec.structs.replace(
        line, state="audited", verdict="healthy", findings=[], traits=traits
    )


def write(format_: str, audit: Audit, verbose: bool = True) -> str:
    """The whole text of any format."""
    return "".join(of_fleet(audit, format_, Look(verbose=verbose)))
