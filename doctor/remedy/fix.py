"""A run from the look to the report: plan, steps, rounds, reboot, the way it stands afterwards, the proof on the ladder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from doctor.checks.finding import Finding, Severity
from doctor.errors import DoctorError
from doctor.events import Note, PlanReady, StepFinished, StepStarted
from doctor.exit_codes import ExitCode
from doctor.plan.model import Plan, Step, digest
from doctor.remedy import lock
from doctor.remedy.hands import NoRightsError
from doctor.remedy.job import FixOptions, Job
from doctor.remedy.journal import store
from doctor.remedy.outcome import (
    FindingOutcome,
    FixReport,
    StepOutcome,
    exit_code,
    finding_status,
)
from doctor.remedy.pip_settings import may_be_kept
from doctor.remedy.proof import prove
from doctor.remedy.reboot import barrier
from doctor.remedy.resume import interrupted_run, take_over
from doctor.remedy.runner import RoleResult
from doctor.remedy.session import Session, outcome_of
from doctor.remedy.state import Run
from doctor.report.model import Report

FORGOTTEN = (
    "pip's settings carry a password and are not kept with the run: "
    "a part of it that goes on after a reboot reads /etc/pip.conf only"
)


class InterruptedRunError(DoctorError):
    """An earlier run did not end. Exit 5."""


def fix(job: Job, run: Run) -> FixReport:
    """Look, plan, do, look again. The host is locked from the first look on."""
    if job.options.dry_run:
        return _predict(job, run)

    def say(text: str) -> None:
        job.tell(Note(text=text))

    with lock.hold(job.state.lock, run.id, job.options.lock_wait, say):
        before = interrupted_run(job.state, run)
        if before is not None:
            raise InterruptedRunError(
                f"run {before.id} was interrupted half way",
                f"doctor fix --resume goes on with it; doctor undo {before.id} takes it back",
            )
        report = job.look()
        plan = job.plan(report)
        job.tell(PlanReady(plan=msgspec.to_builtins(plan)))
        session = Session(job, run, plan.steps, report)
        if not may_be_kept(job.options.pip):
            job.tell(Note(text=FORGOTTEN))
        try:
            approve(
                session,
                "started",
                verdict=report.verdict,
                options=msgspec.to_builtins(_kept(job.options)),
            )
        except OSError as error:
            _all_failed(session, f"no record can be kept in {run.folder}: {error.strerror}")
            return finish(session, report.verdict)
        if any(step.remedy in job.remedies for step in plan.steps) and not _may(session):
            return finish(session, report.verdict)
        return drive(session, report.verdict, job.options.rounds)


def approve(session: Session, what: str, **values: Any) -> None:
    """Write down what is going to be done, then that it is."""
    store(
        session.run.plan,
        {
            "steps": session.steps,
            "digest": digest(session.steps),
            "options": _kept(session.job.options),
        },
    )
    session.journal.add(what, digest=digest(session.steps), **values)


def _kept(options: FixOptions) -> FixOptions:
    """The options as a record holds them: without what carries a password."""
    return options if may_be_kept(options.pip) else msgspec.structs.replace(options, pip={})


def _may(session: Session) -> bool:
    """Whether root's rights are to be had; if not, every step failed for that reason."""
    try:
        session.job.do("nothing")
    except NoRightsError as error:
        _all_failed(session, error.message)
        return False
    return True


def _all_failed(session: Session, why: str) -> None:
    for step in session.steps:
        if step.remedy in session.job.remedies:
            session.ended[step.id] = outcome_of(step, "failed", why, failures=[why])


def drive(session: Session, before: str, rounds: int) -> FixReport:
    """Do the steps; then what only shows up once these are done; then the reboot, and what waited for it where this goes on."""
    session.go()
    for _ in range(rounds):
        if session.quit or session.stopped or session.job.cancel.canceled or session.waiting():
            break
        known = {step.id for step in session.steps}
        more = [
            step
            for step in session.job.plan(session.report).steps
            if step.id not in known and step.remedy in session.job.remedies
        ]
        if not more:
            break
        session.steps += more
        approve(session, "planned")
        session.go()
    while not session.job.cancel.canceled and barrier(session):
        boot = str(session.job.do("boot_id")["id"])
        session.journal.add("rebooted", boot_id=boot)
        session.report = session.job.look()
        take_over(session, boot)
        session.go()
    return finish(session, before)


def finish(session: Session, before: str) -> FixReport:
    """Judge every step by the last look, write the report."""
    job, report = session.job, session.report
    if job.cancel.canceled:
        report = session.report = job.look()
    steps = [_settled(session, step) for step in session.steps]
    findings = _findings(session, steps, report)
    smoke, left_out = prove(session, steps)
    code = exit_code(
        report.exit_code, steps, session.stopped, interrupted=job.cancel.canceled, smoke=smoke
    )
    made = FixReport(
        run=session.run.id,
        exit_code=int(code),
        verdict_before=before,
        verdict_after=report.verdict,
        steps=steps,
        findings=findings,
        stopped=session.stopped,
        interrupted=job.cancel.canceled,
        smoke=smoke,
        no_smoke=left_out,
        report=report,
    )
    try:
        store(session.run.report, made)
        session.journal.add("finished", code=int(code), state=_state(session))
    except OSError as error:
        job.tell(Note(text=f"the record in {session.run.folder} is not whole: {error.strerror}"))
    return made


def _state(session: Session) -> str:
    if any(item.rebooting for item in session.stopped):
        return "rebooting"
    if session.job.cancel.canceled or session.quit or session.stopped:
        return "stopped"
    return "done"


def _settled(session: Session, step: Step) -> StepOutcome:
    """As it stands now: a later step may have changed what an earlier one showed."""
    known = session.ended.get(step.id)
    if known is None:
        return outcome_of(step, "planned", "not reached")
    if not known.ran or (known.status == "failed" and known.failures):
        return known
    result = RoleResult(status="ok", changed=known.changed, reboot=known.reboot)
    return session.judged(step, result)


def _findings(
    session: Session, steps: Sequence[StepOutcome], report: Report
) -> list[FindingOutcome]:
    """Each finding that a step answers, and each error that no step answers, with its command."""
    by_id = {item.id: item for item in report.findings}
    found: dict[str, FindingOutcome] = {}
    for step in steps:
        for id in step.findings:
            found[id] = _of_step(id, step, by_id.get(id))
    for finding in report.findings:
        grave = finding.violated and finding.counts and finding.severity is Severity.ERROR
        if grave and finding.id not in found:
            found[finding.id] = FindingOutcome(
                id=finding.id,
                status="not-applied",
                say=finding.message,
                command=finding.fix.command if finding.fix else None,
            )
    return list(found.values())


def _of_step(id: str, step: StepOutcome, finding: Finding | None) -> FindingOutcome:
    command = finding.fix.command if finding is not None and finding.fix is not None else None
    if step.ran and not step.failures:
        status, say = finding_status(finding, bool(step.reboot))
    elif finding is not None and finding.outcome.value == "pass":
        status, say = "verified", finding.message
    else:
        status, say = step.status, step.say
    return FindingOutcome(
        id=id, status=status, say=say, command=None if status == "verified" else command
    )


def _predict(job: Job, run: Run) -> FixReport:
    """A dry run: every role in check mode, with differences; nothing is changed, saved or locked."""
    report = job.look()
    plan: Plan = job.plan(report)
    job.tell(PlanReady(plan=msgspec.to_builtins(plan)))
    session = Session(job, run, plan.steps, report)
    for number, step in enumerate(plan.steps, 1):
        remedy = job.remedies.get(step.remedy or "")
        if remedy is None:
            outcome = outcome_of(step, "not-applied", "by hand", command=step.command)
        else:
            job.tell(
                StepStarted(
                    step=step.id,
                    say=remedy.say,
                    number=number,
                    of=len(plan.steps),
                    disturbs=step.disturbs,
                )
            )
            outcome = _predicted(step, session.play(step, check=True))
        session.ended[step.id] = outcome
        job.tell(
            StepFinished(step=step.id, status=outcome.status, say=outcome.say, diffs=outcome.diffs)
        )
        if job.cancel.canceled:
            break
    steps = [
        session.ended.get(step.id) or outcome_of(step, "planned", "not reached")
        for step in plan.steps
    ]
    code = ExitCode.INTERRUPTED if job.cancel.canceled else report.exit_code
    return FixReport(
        run=run.id,
        dry_run=True,
        no_smoke="a dry run proves nothing",
        exit_code=int(code),
        verdict_before=report.verdict,
        verdict_after=report.verdict,
        steps=steps,
        findings=_findings(session, steps, report),
        report=report,
    )


def _predicted(step: Step, result: RoleResult) -> StepOutcome:
    if result.status == "ok":
        say = f"would change {result.changed} thing{'' if result.changed == 1 else 's'}"
    else:
        said = result.failures[0] if result.failures else result.status
        say = f"what it would change cannot be told before the steps it needs are done: {said}"
    return outcome_of(step, "planned", say, changed=result.changed, diffs=result.diffs)
