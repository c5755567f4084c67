"""Audits a fleet that does not exist: the events of a real audit, and every host's report to look into."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import msgspec

from doctor import engine
from doctor.demos.fleets import read
from doctor.events import Emit, FleetReady, FleetStarted, HostFinished, RunFinished, RunStarted
from doctor.fleet.aggregate import Gathering
from doctor.fleet.line import line_of
from doctor.fleet.model import HostLine, State
from doctor.report.model import Report

PACE = 0.06
"""Seconds at least between two hosts, so that a person sees them come."""
_RANGE = re.compile(r"(.*)\[(\d+):(\d+)\](.*)")


class Stop(Protocol):
    """Tells whether somebody wants the end."""

    def wait(self, seconds: float) -> bool:
        """Sleep; whether the end is wanted."""
        ...


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One host: a description, or why it does not answer."""

    name: str
    group: str
    host: dict[str, Any]
    state: State = "audited"
    reason: str = ""


def members(name: str) -> Iterator[Member]:
    """Every host of the fleet, as its group is but for what differs."""
    document = read(name)
    differs, silent = document["differs"], document["silent"]
    for group, shared in document["groups"].items():
        for host in _expanded(shared["hosts"]):
            description = {"name": host, **shared["host"], **differs.get(host, {})}
            yield Member(name=host, group=group, host=description, **silent.get(host, {}))


def _expanded(pattern: str) -> list[str]:
    """`h100-[01:32]` as Ansible's inventories write it."""
    found = _RANGE.fullmatch(pattern)
    if found is None:
        return [pattern]
    head, first, last, tail = found.groups()
    width = len(first)
    return [f"{head}{number:0{width}}{tail}" for number in range(int(first), int(last) + 1)]


def audit(
    name: str, emit: Emit, stop: Stop, *, keep: dict[str, Report], pace: float = PACE
) -> None:
    """Judge host after host and say what an audit says; the reports are kept by host as they come."""
    tell = engine.Clock(emit)
    fleet = list(members(name))
    started = _now()
    tell(RunStarted(verb="fleet audit", source=name))
    tell(FleetStarted(audit=name, hosts={member.name: [member.group] for member in fleet}))
    gathering = Gathering()
    day = date.today()
    for number, member in enumerate(fleet, 1):
        began = time.monotonic()
        if member.state == "audited":
            report, day = _judged(member)
            keep[member.name] = report
            line = line_of(report, member.name, [member.group], time.monotonic() - began)
            gathering.add(line, report)
        else:
            line = HostLine(
                name=member.name, state=member.state, reason=member.reason, groups=[member.group]
            )
            gathering.add(line)
        tell(HostFinished(line=msgspec.to_builtins(line), done=number, of=len(fleet)))
        if stop.wait(max(0.0, pace - (time.monotonic() - began))):
            return
    report_of_all = gathering.finish(
        audit=name,
        inventory="simulated",
        started=started,
        finished=_now(),
        judged_as_of=day.isoformat(),
    )
    said = msgspec.to_builtins(msgspec.structs.replace(report_of_all, hosts=[]))
    tell(FleetReady(fleet=said))
    tell(RunFinished(verdict=report_of_all.verdict, exit_code=report_of_all.exit_code))


def _judged(member: Member) -> tuple[Report, date]:
    from doctor.probes.recordings.recorded import RecordedSource
    from doctor.simulate.simulator import simulate

    with TemporaryDirectory(prefix="doctor-demo-") as folder:
        simulate(member.host).write(Path(folder) / "host")
        source = RecordedSource(str(Path(folder) / "host"))
        day = date.fromisoformat(source.recorded_at[:10])
        return engine.check(source, engine.Options(as_of=day, label=member.name)), day


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
