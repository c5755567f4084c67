"""Events change what is shown, in the order in which they come and never by guessing."""

from __future__ import annotations

import msgspec

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
    RunFinished,
    RunStarted,
    SmokeStageFinished,
    SmokeStageProgress,
    SmokeStageStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from doctor.fleet.model import ByFinding
from doctor.report.model import Report
from doctor.tui import fleet_state
from doctor.tui.bridge import Cancel
from doctor.tui.origin import read_events
from doctor.tui.state import (
    LOG_LINES,
    Begun,
    Ended,
    Failed,
    Happening,
    ViewState,
    reduce,
    reduce_all,
)
from tests.tui.play import LOGS, events_of, recorded


def after(*events: Happening, state: ViewState | None = None) -> ViewState:
    return reduce_all(state or ViewState(), events)


def finding(id: str, outcome: str, **more: object) -> CheckFinished:
    severity = "error" if outcome in ("fail", "unknown", "pass") else "warn"
    body = {"id": id, "title": id, "outcome": outcome, "severity": severity, "message": outcome}
    return CheckFinished(at=5.0, finding={**body, **more})


def test_facts_fill_in_while_other_areas_are_still_looked_at() -> None:
    state = after(
        RunStarted(verb="check", source="live", at=1.0),
        ProbeStarted(area="pci", at=1.1),
        ProbeStarted(area="nvml", at=1.1),
        ProbeFinished(area="pci", ms=12, facts={"devices": {"state": "absent", "via": "/sys"}}),
    )
    assert [item.area for item in state.looking] == ["nvml"]
    assert state.probes["pci"].ms == 12
    assert state.facts == {"pci": {"devices": {"state": "absent", "via": "/sys"}}}
    assert not state.is_judged


def test_a_whole_check_gives_the_findings_of_the_report() -> None:
    made = recorded("h200x2-stub")
    events: list[AnyEvent] = []
    report = made.start(events.append, Cancel())
    assert isinstance(report, Report)
    state = after(*events)
    assert [state.findings[id] for id in sorted(state.findings)] == report.findings
    assert state.exit_code == 1
    assert state.facts == report.facts


def test_one_by_one_and_all_at_once_are_the_same() -> None:
    events = events_of(recorded("no-gpu"))
    state = ViewState()
    for event in events:
        state = reduce(state, event)
    assert msgspec.structs.replace(state, revision=0) == msgspec.structs.replace(
        after(*events), revision=0
    )


def test_what_a_finding_was_before_is_kept() -> None:
    state = after(FactsReady(facts={}), finding("a.b", "fail"), finding("a.c", "pass"))
    state = after(FactsReady(facts={}), finding("a.b", "pass"), finding("a.c", "pass"), state=state)
    assert [change.outcome for change in state.history["a.b"]] == ["fail"]
    assert "a.c" not in state.history
    assert state.findings["a.b"].outcome == "pass"


def test_findings_that_are_no_longer_told_are_gone() -> None:
    state = after(FactsReady(facts={}), finding("a.b", "fail"))
    state = after(FactsReady(facts={}), finding("a.c", "pass"), state=state)
    assert set(state.findings) == {"a.c"}


def test_a_fix_step_by_step() -> None:
    state = after(
        RunStarted(verb="fix", source="live"),
        StepStarted(step="nouveau_off", say="blacklist", number=1, of=2, disturbs="reboot", at=2.0),
        StepProgress(step="nouveau_off", task="write the file", done=0),
        StepFinished(step="nouveau_off", status="verified", say="gone", changed=1, diffs=["+x"]),
        ApprovalNeeded(step="nvidia_driver", why="a GPU is in use", allow="gpu"),
        RunFinished(verdict="degraded", exit_code=5),
    )
    assert [(item.id, item.status) for item in state.steps.values()] == [
        ("nouveau_off", "verified"),
        ("nvidia_driver", "waiting"),
    ]
    assert state.steps["nouveau_off"].diffs == ("+x",)
    assert (state.fix_verdict, state.exit_code) == ("degraded", 5)
    assert any("--allow gpu" in line.text for line in state.log)


def test_a_smoke_run_rung_by_rung() -> None:
    result = {"outcome": "pass", "message": "2 GPUs", "ms": 40, "numbers": {"gpus": 2}}
    state = after(
        RunStarted(verb="smoke", source="live"),
        SmokeStageStarted(stage="driver", timeout=30, at=1.0),
        SmokeStageProgress(stage="driver", text="asking", done=1, total=2, at=2.0),
        SmokeStageFinished(stage="driver", result=result),
        RunFinished(verdict="passed", exit_code=0),
    )
    rung = state.rungs["driver"]
    assert (rung.outcome, rung.ms, rung.trace) == ("pass", 40, ((1.0, 1.0),))
    assert state.smoke_verdict == "passed"


def test_a_failure_is_that_of_its_work_and_goes_when_it_begins_anew() -> None:
    state = after(Begun("plan"), Failed("plan", "no such want", "see doctor plan"), Ended("plan"))
    assert state.failed is None
    assert state.failures["plan"].message == "no such want"
    assert state.working == ""
    assert after(Begun("plan"), state=state).failures == {}


def test_the_end_of_earlier_work_does_not_end_the_newer() -> None:
    assert after(Begun("check"), Begun("plan"), Ended("check")).working == "plan"


def test_the_log_is_bounded() -> None:
    state = after(*(Note(text=str(number)) for number in range(LOG_LINES + 50)))
    assert len(state.log) == LOG_LINES
    assert state.log[-1].text == str(LOG_LINES + 49)


def test_a_plan_is_read_as_it_is_told() -> None:
    host = {"name": "h", "source": "live", "platform": "", "distribution": ""}
    told = {
        "host": host,
        "judged_as_of": "2026-11-30",
        "want": [],
        "status": "satisfied",
        "exit_code": 0,
    }
    state = after(PlanReady(plan=told))
    assert state.plan is not None
    assert state.plan.status == "satisfied"


def test_progress_that_says_the_same_again_is_one_line_of_the_log() -> None:
    state = after(
        RunStarted(verb="smoke", source="live", at=1.0),
        SmokeStageStarted(stage="serve", timeout=9.0, at=1.0),
        *(
            SmokeStageProgress(stage="serve", text=text, done=float(n), total=9.0, at=2.0 + n)
            for n, text in enumerate(("starting", "starting", "loading", "starting"))
        ),
    )
    said = [line.text for line in state.log_of("smoke") if line.who == "serve"]
    assert said == ["starting", "loading", "starting"]
    assert len(state.rungs["serve"].trace) == 4


def test_a_host_that_answers_again_is_counted_once_and_an_end_is_not_made_up() -> None:
    line = {"name": "a", "state": "audited", "verdict": "broken", "findings": []}
    state = after(
        FleetStarted(audit="x", hosts={"a": ["g"], "b": []}, at=1.0),
        HostFinished(line=line, done=1, of=2, at=2.0),
        HostFinished(line={**line, "verdict": "healthy"}, done=1, of=2, at=3.0),
    )
    assert state.fleet is not None
    assert fleet_state.counts(state.fleet) == {"healthy": 1, "waiting": 1}
    assert state.fleet.report is None
    state = after(FleetStarted(audit="y", hosts={}, at=9.0), state=state)
    assert state.fleet is not None
    assert state.fleet.lines == {}


def test_faults_before_the_end_are_those_that_the_audit_says_at_its_end() -> None:
    lines = [
        ("a", "unknown", None),
        ("b", "warn", None),
        ("c", "fail", "other"),
        ("d", "unknown", None),
    ]
    made = after(
        FleetStarted(audit="x", hosts={}, at=1.0),
        *(
            HostFinished(line=_with_fault(name, outcome, by), done=1, of=4, at=2.0)
            for name, outcome, by in lines
        ),
    )
    assert made.fleet is not None
    [fault] = fleet_state.faults(made.fleet)
    assert (fault.outcome.value, fault.message) == ("warn", "said of b")
    assert (fault.hosts, fault.roots, fault.unseen) == (["b", "a", "d", "c"], 1, 2)

    events = list(read_events(LOGS / "fleet.jsonl"))
    whole = reduce_all(ViewState(), events).fleet
    told = reduce_all(ViewState(), [e for e in events if not isinstance(e, FleetReady)]).fleet
    assert whole is not None
    assert told is not None
    assert told.report is None
    assert [_told(item) for item in fleet_state.faults(told)] == [
        _told(item) for item in fleet_state.faults(whole)
    ]


def _with_fault(name: str, outcome: str, blocked_by: str | None) -> dict[str, object]:
    said = {"id": "x.y", "outcome": outcome, "severity": "error", "message": f"said of {name}"}
    return {"name": name, "state": "audited", "findings": [{**said, "blocked_by": blocked_by}]}


def _told(item: ByFinding) -> tuple[object, ...]:
    return item.id, item.outcome, item.severity, item.hosts, item.roots, item.unseen, item.message
