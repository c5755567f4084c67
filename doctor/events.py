"""What happens during a run, as frozen records. The CLI prints them, the TUI posts them, tests append them; events.jsonl replays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Common keys. `at`: seconds since the epoch; `seq` counts within a run."""

    run: str = ""
    seq: int = 0
    at: float = 0.0
    host: str = ""


class RunStarted(Event, frozen=True, kw_only=True, tag="run-started"):
    """A verb begins."""

    verb: str
    source: str
    """live, or the path of a recording."""


class ProbeStarted(Event, frozen=True, kw_only=True, tag="probe-started"):
    """One area is being looked at."""

    area: str


class ProbeFinished(Event, frozen=True, kw_only=True, tag="probe-finished"):
    """One area was looked at. `facts`: what was found there, for whoever shows it before all probes ended."""

    area: str
    ms: int
    facts: dict[str, Any] = {}


class FactsReady(Event, frozen=True, kw_only=True, tag="facts-ready"):
    """All probes ended; facts as in the report."""

    facts: dict[str, Any]


class CheckFinished(Event, frozen=True, kw_only=True, tag="check-finished"):
    """One finding, as in the report."""

    finding: dict[str, Any]


class SmokeStageStarted(Event, frozen=True, kw_only=True, tag="smoke-stage-started"):
    """A rung of the smoke ladder begins."""

    stage: str
    timeout: float
    """Seconds it may take."""


class SmokeStageProgress(Event, frozen=True, kw_only=True, tag="smoke-stage-progress"):
    """A long rung goes on. `done` of `total` where there is a measure."""

    stage: str
    text: str
    done: float | None = None
    total: float | None = None


class SmokeStageFinished(Event, frozen=True, kw_only=True, tag="smoke-stage-finished"):
    """A rung ended; the result as in the smoke report."""

    stage: str
    result: dict[str, Any]


class PlanReady(Event, frozen=True, kw_only=True, tag="plan-ready"):
    """What is going to be done; the plan as in doctor.plan/1."""

    plan: dict[str, Any]


class ApprovalNeeded(Event, frozen=True, kw_only=True, tag="approval-needed"):
    """A step does not run unless somebody allows it."""

    step: str
    why: str
    allow: str
    """What --allow would have to name."""


class StepStarted(Event, frozen=True, kw_only=True, tag="step-started"):
    """A role begins. Steps are counted from 1."""

    step: str
    say: str
    number: int
    of: int
    disturbs: str


class StepProgress(Event, frozen=True, kw_only=True, tag="step-progress"):
    """A task of the role begins."""

    step: str
    task: str
    done: int
    """Tasks before it."""


class StepFinished(Event, frozen=True, kw_only=True, tag="step-finished"):
    """How the step stands after a fresh look; `diffs` are shown in a dry run."""

    step: str
    status: str
    """planned, not-applied, failed, unverified or verified."""
    say: str
    changed: int = 0
    failures: list[str] = []
    diffs: list[str] = []


class RebootRequired(Event, frozen=True, kw_only=True, tag="reboot-required"):
    """What was done takes effect with a reboot."""

    why: str
    scheduled: bool
    command: str | None = None
    """What a person runs instead."""


class FleetStarted(Event, frozen=True, kw_only=True, tag="fleet-started"):
    """An audit begins. `hosts`: inventory name -> its groups."""

    audit: str
    hosts: dict[str, list[str]]
    folder: str = ""
    """Where each host's report will be; empty where there is none."""


class HostFinished(Event, frozen=True, kw_only=True, tag="host-finished"):
    """What became of one host of an audit; `line` as in doctor.fleet/1."""

    line: dict[str, Any]
    done: int
    of: int


class FleetReady(Event, frozen=True, kw_only=True, tag="fleet-ready"):
    """The audit as a whole, as in doctor.fleet/1 without its hosts."""

    fleet: dict[str, Any]


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """A sentence for the person who waits."""

    text: str


class RunFinished(Event, frozen=True, kw_only=True, tag="run-finished"):
    """The verb ended."""

    verdict: str
    exit_code: int


AnyEvent: TypeAlias = (
    RunStarted
    | ProbeStarted
    | ProbeFinished
    | FactsReady
    | CheckFinished
    | PlanReady
    | ApprovalNeeded
    | StepStarted
    | StepProgress
    | StepFinished
    | RebootRequired
    | SmokeStageStarted
    | SmokeStageProgress
    | SmokeStageFinished
    | FleetStarted
    | HostFinished
    | FleetReady
    | Note
    | RunFinished
)
Emit: TypeAlias = Callable[[AnyEvent], None]


def ignore(event: AnyEvent) -> None:
    """An emit for callers who do not listen."""
