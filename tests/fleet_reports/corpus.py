"""Stored results of many hosts that differ: judged simulations of a few kinds, with each host's own name, version and time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from doctor import engine
from doctor.fleet.aggregate import Gathering
from doctor.fleet.folder import write_summary
from doctor.fleet.line import line_of
from doctor.fleet.model import FleetReport, HostLine, State, file_name
from doctor.probes.recordings.recorded import RecordedSource
from doctor.report.model import Report
from doctor.simulate.simulator import simulate

DAY = date(2026, 11, 30)
H100 = {
    "gpus": [{"name": "NVIDIA H100 80GB HBM3", "count": 8}],
    "driver": "580.95.05",
    "nvswitch": 4,
    "fabric_manager": {"version": "580.95.05", "state": "active"},
    "containers": {"docker": "28.1.1", "toolkit": "1.18.0"},
    "toolkits": ["13.0"],
}
KINDS: dict[str, tuple[int, dict[str, Any]]] = {
    "well": (80, {}),
    "older driver": (6, {"driver": "580.82.07", "fabric_manager": {"version": "580.82.07"}}),
    "skew": (4, {"driver": {"package": "580.95.05", "disk": "580.95.05", "loaded": "580.82.07"}}),
    "fabric": (3, {"fabric_manager": {"version": "580.82.07", "state": "failed"}}),
    "nouveau": (3, {"gpus": [{"name": "NVIDIA H100 80GB HBM3", "bound_to": "nouveau"}]}),
    "ampere": (4, {"gpus": [{"name": "NVIDIA A100-SXM4-80GB", "count": 8}]}),
}
"""How many of a hundred hosts, and how they differ from a healthy one."""
LOST: tuple[State, ...] = ("unreachable", "late", "refused", "failed")


def described(**changes: Any) -> dict[str, Any]:
    """A healthy host of eight GPUs, and what is different."""
    return {**H100, **changes}


def judged(folder: Path, description: dict[str, Any]) -> Report:
    """The report of a simulated host."""
    where = simulate(description).write(folder)
    return engine.check(RecordedSource(str(where)), engine.Options(as_of=DAY, label="simulated"))


def kinds(folder: Path) -> dict[str, Report]:
    """A report of each kind."""
    return {
        name: judged(folder / name.replace(" ", "-"), described(**changes))
        for name, (_, changes) in KINDS.items()
    }


def hosts(
    number: int, reports: dict[str, Report], seed: int = 1
) -> Iterator[tuple[HostLine, Report | None]]:
    """One host after the other; two of a hundred did not answer."""
    chance = random.Random(seed)
    names = list(reports)
    weights = [KINDS[name][0] for name in names]
    for place in range(number):
        name = f"gpu-{place:05d}.example.net"
        groups = [f"rack{place // 32:03d}", "h100"]
        if chance.random() < 0.02:
            state = LOST[place % len(LOST)]
            yield (
                HostLine(
                    name=name,
                    state=state,
                    reason=f"{state}: no answer from {name}",
                    groups=groups,
                    seconds=30.0,
                ),
                None,
            )
            continue
        (kind,) = chance.choices(names, weights)
        report = _own(reports[kind], name)
        yield line_of(report, name, groups, 1 + chance.random() * 3), report


def _own(report: Report, name: str) -> Report:
    findings = [
        msgspec.structs.replace(item, message=f"{item.message} ({name})")
        if item.violated and item.counts
        else item
        for item in report.findings
    ]
    host = msgspec.structs.replace(report.host, name=name.partition(".")[0])
    return msgspec.structs.replace(report, findings=findings, host=host)


def store(folder: Path, number: int, scratch: Path, seed: int = 1) -> FleetReport:
    """As an audit leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    gathering = Gathering()
    for line, report in hosts(number, kinds(scratch), seed):
        gathering.add(line, report)
        if report is not None:
            (folder / file_name(line.name)).write_bytes(msgspec.json.encode(report))
    fleet = gathering.finish(
        audit=f"20261130T1200{seed:02d}Z",
        inventory="inventory.ini",
        started="2026-11-30T12:00:00Z",
        finished="2026-11-30T12:04:00Z",
        judged_as_of=DAY.isoformat(),
    )
    write_summary(folder, fleet)
    return fleet
