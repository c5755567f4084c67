"""What the screens show, and how each event changes it. Pure, without Textual: behaviour is tested here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from doctor.checks.finding import Finding
from doctor.events import (
    AnyEvent,
    ApprovalNeeded,
    CheckFinished,
    FactsReady,
    FleetReady,
    FleetStarted,
    HostFinished,
    Note,
    PlanReady,
    ProbeFinished,
    ProbeStarted,
    RebootRequired,
    RunFinished,
    RunStarted,
    SmokeStageFinished,
    SmokeStageProgress,
    SmokeStageStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from doctor.plan.model import Plan
from doctor.tui import fleet_state
from doctor.tui.fleet_state import FleetView

LOG_LINES = 2000
"""Lines of the live log that are kept; events.jsonl has all."""


class Begun(msgspec.Struct, frozen=True):
    """Not an event of the engine: the app set to work."""

    work: str


class Failed(msgspec.Struct, frozen=True):
    """Not an event of the engine: the work ended with an error."""

    work: str
    message: str
    hint: str = ""


class Ended(msgspec.Struct, frozen=True):
    """Not an event of the engine: the work's thread ended, however it did."""

    work: str


Local: TypeAlias = Begun | Failed | Ended
Happening: TypeAlias = AnyEvent | Local


class Probe(msgspec.Struct, frozen=True):
    """One area that is being looked at, or was."""

    area: str
    started: float
    ms: int | None = None
    """None while it looks."""


class StepView(msgspec.Struct, frozen=True):
    """One step of a fix as it stands."""

    id: str
    say: str
    number: int
    of: int
    disturbs: str
    started: float = 0.0
    status: str = "running"
    task: str = ""
    changed: int = 0
    failures: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    refused: str = ""
    """The flag that would allow it."""


class Rung(msgspec.Struct, frozen=True):
    """One rung of the smoke ladder as it stands."""

    name: str
    timeout: float = 0.0
    started: float = 0.0
    outcome: str = "running"
    message: str = ""
    done: float | None = None
    total: float | None = None
    ms: int = 0
    result: dict[str, Any] = {}
    trace: tuple[tuple[float, float], ...] = ()
    """(second, done) of each progress with a measure."""


class LogLine(msgspec.Struct, frozen=True):
    """One line of the live log."""

    at: float
    who: str
    text: str
    style: str = ""
    verb: str = ""
    """What was run."""


class Change(msgspec.Struct, frozen=True):
    """What a finding was before it was looked at again."""

    at: float
    outcome: str
    message: str


class ViewState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is shown. `revision` counts changes of findings and facts, so that lists know when to be made anew."""

    verb: str = ""
    source: str = ""
    working: str = ""
    """What the app is at: check, plan, fix, smoke; empty when nothing runs."""
    started: float = 0.0
    ended: float = 0.0
    probes: dict[str, Probe] = {}
    facts: dict[str, Any] = {}
    findings: dict[str, Finding] = {}
    before: dict[str, Finding] = {}
    judged: float = 0.0
    """When the findings were made; 0 before the first."""
    history: dict[str, tuple[Change, ...]] = {}
    plan: Plan | None = None
    planned: float = -1.0
    """The `judged` that the plan was made for."""
    steps: dict[str, StepView] = {}
    reboot: RebootRequired | None = None
    rungs: dict[str, Rung] = {}
    smoke_verdict: str = ""
    fix_verdict: str = ""
    exit_code: int | None = None
    log: tuple[LogLine, ...] = ()
    fleet: FleetView | None = None
    failures: dict[str, Failed] = {}
    """By the work that failed: check, plan, fix, smoke."""
    revision: int = 0

    def log_of(self, *verbs: str) -> list[LogLine]:
        """The lines of these verbs alone."""
        return [line for line in self.log if line.verb in verbs]

    @property
    def failed(self) -> Failed | None:
        """Why there is no verdict."""
        return self.failures.get("check")

    @property
    def looking(self) -> list[Probe]:
        """Areas that have not answered."""
        return [item for item in self.probes.values() if item.ms is None]

    @property
    def is_judged(self) -> bool:
        """Whether there are findings to show."""
        return bool(self.findings)


def reduce_all(state: ViewState, events: Iterable[Happening]) -> ViewState:
    """Many events at once; findings or hosts in a row are taken in one go, for there may be thousands."""
    for kind, group in groupby(events, key=type):
        if kind is CheckFinished:
            state = _findings(state, [item for item in group if isinstance(item, CheckFinished)])
        elif kind is HostFinished:
            state = _hosts(state, [item for item in group if isinstance(item, HostFinished)])
        else:
            for event in group:
                state = reduce(state, event)
    return state


def latest(events: Iterable[Happening]) -> float:
    """When the newest of these happened, by its own clock; 0 where none has one."""
    return max((getattr(event, "at", 0.0) for event in events), default=0.0)


def reduce(state: ViewState, event: Happening) -> ViewState:
    """One event. What is not known is left alone: a log may be from a newer version."""
    replace = msgspec.structs.replace
    if isinstance(event, CheckFinished):
        return _findings(state, [event])
    if isinstance(event, (Begun, Failed, Ended)):
        return _local(state, event)
    if isinstance(event, RunStarted):
        return _begun(state, event)
    if isinstance(event, ProbeStarted):
        probe = Probe(event.area, event.at)
        return replace(state, probes={**state.probes, event.area: probe})
    if isinstance(event, ProbeFinished):
        return _probed(state, event)
    if isinstance(event, FactsReady):
        return replace(
            state,
            facts=event.facts,
            before=state.findings,
            findings={},
            revision=state.revision + 1,
        )
    if isinstance(event, PlanReady):
        return replace(state, plan=msgspec.convert(event.plan, Plan), planned=state.judged)
    if isinstance(event, (FleetStarted, HostFinished, FleetReady)):
        return _fleet(state, event)
    if isinstance(event, Note):
        return _log(state, event.at, state.verb, event.text)
    if isinstance(event, RunFinished):
        return _ended(state, event)
    if isinstance(event, (SmokeStageStarted, SmokeStageProgress, SmokeStageFinished)):
        return _smoke(state, event)
    return _step(state, event)


def _local(state: ViewState, event: Local) -> ViewState:
    replace = msgspec.structs.replace
    if isinstance(event, Begun):
        left = {name: item for name, item in state.failures.items() if name != event.work}
        return replace(state, working=event.work, failures=left)
    if isinstance(event, Ended):
        return replace(state, working="" if state.working == event.work else state.working)
    state = replace(state, failures={**state.failures, event.work: event})
    return _log(state, 0.0, event.work, event.message, "fail")


def _begun(state: ViewState, event: RunStarted) -> ViewState:
    state = msgspec.structs.replace(
        state,
        verb=event.verb,
        source=event.source,
        started=event.at,
        ended=0.0,
        probes={},
        exit_code=None,
    )
    if event.verb in ("fix", "undo"):
        state = msgspec.structs.replace(state, steps={}, reboot=None, fix_verdict="")
    if event.verb == "smoke":
        state = msgspec.structs.replace(state, rungs={}, smoke_verdict="")
    return _log(state, event.at, event.verb, f"begins: {event.source}", "dim")


def _ended(state: ViewState, event: RunFinished) -> ViewState:
    state = msgspec.structs.replace(state, ended=event.at, exit_code=event.exit_code, before={})
    if state.verb == "smoke":
        state = msgspec.structs.replace(state, smoke_verdict=event.verdict)
    if state.verb in ("fix", "undo"):
        state = msgspec.structs.replace(state, fix_verdict=event.verdict)
    return _log(
        state, event.at, state.verb, f"ended: {event.verdict}, exit {event.exit_code}", "dim"
    )


def _probed(state: ViewState, event: ProbeFinished) -> ViewState:
    begun = state.probes.get(event.area)
    probe = Probe(event.area, begun.started if begun else event.at, event.ms)
    facts = {**state.facts, event.area: event.facts} if event.facts else state.facts
    return msgspec.structs.replace(
        state,
        probes={**state.probes, event.area: probe},
        facts=facts,
        revision=state.revision + (facts is not state.facts),
    )


def _findings(state: ViewState, events: Sequence[CheckFinished]) -> ViewState:
    findings = dict(state.findings)
    history = dict(state.history)
    for event in events:
        found = msgspec.convert(event.finding, Finding)
        findings[found.id] = found
        old = state.before.get(found.id)
        if old is not None and old.outcome is not found.outcome:
            change = Change(state.judged, old.outcome.value, old.message)
            history[found.id] = (*history.get(found.id, ()), change)
    return msgspec.structs.replace(
        state,
        findings=findings,
        history=history,
        judged=events[-1].at,
        revision=state.revision + 1,
    )


def _hosts(state: ViewState, events: Sequence[HostFinished]) -> ViewState:
    return msgspec.structs.replace(state, fleet=fleet_state.arrived(state.fleet, events))


def _fleet(state: ViewState, event: FleetStarted | HostFinished | FleetReady) -> ViewState:
    if isinstance(event, HostFinished):
        return _hosts(state, [event])
    if isinstance(event, FleetStarted):
        fleet = fleet_state.began(event)
    else:
        fleet = fleet_state.ended(state.fleet, event)
    return msgspec.structs.replace(state, fleet=fleet)


def _step(state: ViewState, event: Any) -> ViewState:
    if isinstance(event, RebootRequired):
        state = msgspec.structs.replace(state, reboot=event)
        return _log(state, event.at, "reboot", event.why, "warn")
    if not isinstance(event, (StepStarted, StepProgress, StepFinished, ApprovalNeeded)):
        return state
    known = state.steps.get(event.step) or StepView(event.step, "", 0, 0, "none", event.at)
    replace = msgspec.structs.replace
    if isinstance(event, StepStarted):
        known = StepView(event.step, event.say, event.number, event.of, event.disturbs, event.at)
        state = _log(state, event.at, event.step, event.say, "bold")
    elif isinstance(event, StepProgress):
        task = event.task.removeprefix(f"{event.step} : ")  # Ansible names the role in front
        known = replace(known, task=task)
        state = _log(state, event.at, event.step, task, "dim")
    elif isinstance(event, StepFinished):
        known = replace(
            known,
            status=event.status,
            say=event.say,
            changed=event.changed,
            failures=tuple(event.failures),
            diffs=tuple(event.diffs),
        )
        style = {"failed": "fail", "verified": "pass"}.get(event.status, "warn")
        state = _log(state, event.at, event.step, f"{event.status}: {event.say}", style)
        for line in event.failures:
            state = _log(state, event.at, event.step, line, "fail")
    else:
        known = replace(known, status="waiting", refused=event.allow, say=event.why)
        state = _log(
            state, event.at, event.step, f"{event.why}; --allow {event.allow} allows it", "warn"
        )
    return replace(state, steps={**state.steps, event.step: known})


def _smoke(
    state: ViewState, event: SmokeStageStarted | SmokeStageProgress | SmokeStageFinished
) -> ViewState:
    rung = state.rungs.get(event.stage) or Rung(event.stage, started=event.at)
    replace = msgspec.structs.replace
    if isinstance(event, SmokeStageStarted):
        rung = Rung(event.stage, event.timeout, event.at)
    elif isinstance(event, SmokeStageProgress):
        trace = rung.trace
        if event.done is not None:
            trace = (*trace[-999:], (event.at - rung.started, event.done))
        if event.text != rung.message:
            state = _log(state, event.at, event.stage, event.text)
        rung = replace(rung, message=event.text, done=event.done, total=event.total, trace=trace)
    else:
        result = event.result
        rung = replace(
            rung,
            outcome=str(result.get("outcome", "unknown")),
            message=str(result.get("message", "")),
            ms=int(result.get("ms") or 0),
            result=result,
        )
        style = {"pass": "pass", "fail": "fail", "skip": "dim"}.get(rung.outcome, "unknown")
        state = _log(state, event.at, event.stage, f"{rung.outcome}: {rung.message}", style)
    return replace(state, rungs={**state.rungs, event.stage: rung})


def _log(state: ViewState, at: float, who: str, text: str, style: str = "") -> ViewState:
    lines = (*state.log[-LOG_LINES + 1 :], LogLine(at, who, text, style, state.verb))
    return msgspec.structs.replace(state, log=lines)
