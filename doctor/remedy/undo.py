"""Takes a run back, its last step first: packages, files and unit states as they were before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from doctor.checks.finding import Severity
from doctor.errors import RemedyError, UsageError
from doctor.events import Note, StepFinished, StepStarted
from doctor.exit_codes import ExitCode, worst
from doctor.plan.model import Step
from doctor.remedy import lock
from doctor.remedy.consent import consent, running
from doctor.remedy.job import Job, manager_of
from doctor.remedy.journal import Journal
from doctor.remedy.outcome import Stopped
from doctor.remedy.resume import approved, own_files
from doctor.remedy.state import Run
from doctor.report.model import Report

SCHEMA = "doctor.undo/1"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A path, a package or a unit, and why it is as it is."""

    path: str
    why: str = ""


class StepUndone(msgspec.Struct, frozen=True, kw_only=True):
    """One step."""

    id: str
    status: str
    """undone, partly, failed or stopped."""
    say: str
    restored: list[Part] = []
    left: list[Part] = []
    """What somebody else changed since, or what was not copied."""
    failed: list[Part] = []
    notes: list[str] = []


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the undo ended and how the host stands now."""

    schema: str = SCHEMA
    run: str
    exit_code: int
    steps: list[StepUndone]
    stopped: list[Stopped] = []
    report: Report


def undo(job: Job, run: Run) -> UndoReport:
    """Every step that changed something and was not undone yet."""

    def say(text: str) -> None:
        job.tell(Note(text=text))

    with lock.hold(job.state.lock, run.id, job.options.lock_wait, say):
        journal = Journal(run.journal)
        steps = {step.id: step for step in approved(run).steps}
        todo = _todo(journal)
        report = job.look()
        if not todo:
            return UndoReport(run=run.id, exit_code=0, steps=[], report=report)
        journal.add("undo-begun", boot_id=job.do("boot_id")["id"])
        done: list[StepUndone] = []
        stopped: list[Stopped] = []
        for number, id in enumerate(todo, 1):
            if id not in steps:
                raise UsageError(f"run {run.id} has no step {id}", "see doctor runs show")
            job.tell(
                StepStarted(
                    step=id,
                    say=f"take back {id}",
                    number=number,
                    of=len(todo),
                    disturbs=steps[id].disturbs,
                )
            )
            refused = _refused(job, steps[id])
            if refused is not None:
                stopped.append(refused)
                done.append(StepUndone(id=id, status="stopped", say=refused.why))
                break
            result = _one(job, run, journal, steps[id], manager_of(report))
            done.append(result)
            job.tell(StepFinished(step=id, status=result.status, say=result.say))
            if result.status == "failed":
                break
        report = job.look()
        codes = [ExitCode.NOT_FIXED for item in done if item.status in ("failed", "partly")]
        if stopped:
            codes.append(ExitCode.STOPPED)
        code = worst(codes)
        journal.add("undo-finished", code=int(code), steps=[item.id for item in done])
        return UndoReport(
            run=run.id, exit_code=int(code), steps=done, stopped=stopped, report=report
        )


def _todo(journal: Journal) -> list[str]:
    """Steps that began, the last first, without those that are undone already; one that was left began one time less."""
    times: dict[str, int] = {}
    for record in journal.records():
        if record["what"] == "step-begun":
            times[record["step"]] = times.get(record["step"], 0) + 1
        elif record["what"] == "step-left" and record["step"] in times:
            times[record["step"]] -= 1
        if record["what"] == "undone" or times.get(record.get("step", "")) == 0:
            times.pop(record["step"], None)
    return list(times)[::-1]


def _refused(job: Job, step: Step) -> Stopped | None:
    """The same consent as for doing it."""
    workload = job.do("workload") if step.disturbs != "none" else {}
    asked = msgspec.structs.replace(
        step,
        severity=Severity.ERROR,
        reversible="exact",
        disturbs="gpu" if step.disturbs == "reboot" else step.disturbs,
    )
    person = False
    if job.ask is not None:
        if job.ask(asked, running(asked.disturbs, workload)) != "yes":
            return Stopped(why=f"{step.id} was not wanted back")
        person = True
    refusal = consent(asked, job.options.allow, workload, person=person)
    return None if refusal is None else Stopped(why=refusal.why, allow=refusal.flag)


def _one(job: Job, run: Run, journal: Journal, step: Step, manager: str) -> StepUndone:
    remedy = job.remedies.get(step.remedy or "")
    touches = remedy.touches if remedy is not None else None
    units = touches.units if touches is not None else []
    begun = journal.last("step-begun", step.id)
    recorded = journal.last("changed", step.id)
    try:
        if recorded is None or (begun is not None and recorded["at"] < begun["at"]):
            changed = job.do(
                "after_step", folder=str(run.saved), step=step.id, manager=manager, touched=units
            )
            files = own_files(changed["files"], touches.paths if touches is not None else [])
            whole = [{**item, "unsure": True} for item in changed["trees"]]
            files = [{**item, "unsure": True} for item in files]
            changed = {**changed, "files": files, "trees": whole}
        else:
            changed = recorded["record"]
        saved = (journal.last("saved", step.id) or {}).get("packages", {})
        touched = bool(changed["files"] or changed["trees"]) or any(changed["packages"].values())
        said = job.do(
            "undo_step",
            folder=str(run.saved),
            step=step.id,
            manager=manager,
            changed=changed,
            saved=saved,
            touched=units,
            restart=touched,
        )
    except RemedyError as error:
        return StepUndone(id=step.id, status="failed", say=error.message)
    return _told(journal, step, said)


def _told(journal: Journal, step: Step, said: Mapping[str, Any]) -> StepUndone:
    parts: dict[str, list[Part]] = {"restored": [], "left": [], "failed": []}
    for area in ("packages", "files", "units"):
        for key, found in parts.items():
            found += [Part(path=item["path"], why=item["why"]) for item in said[area][key]]
    status = "partly" if parts["failed"] else "undone"
    say = f"{len(parts['restored'])} things are as they were"
    if parts["left"]:
        say += f", {len(parts['left'])} are left: {parts['left'][0].why}"
    if parts["failed"]:
        say += f", {len(parts['failed'])} could not be put back: {parts['failed'][0].why}"
    if status == "undone":
        journal.add("undone", step=step.id)
    return StepUndone(
        id=step.id,
        status=status,
        say=say,
        restored=parts["restored"],
        left=parts["left"],
        failed=parts["failed"],
        notes=list(said["notes"]),
    )
