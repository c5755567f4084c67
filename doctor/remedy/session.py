"""The steps of one run, one after the other: look, consent, save, act, record, look again."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from doctor.checks.finding import Severity
from doctor.errors import RemedyError
from doctor.events import ApprovalNeeded, Note, StepFinished, StepProgress, StepStarted
from doctor.plan.model import Step
from doctor.plan.remedy import Remedy, Touches
from doctor.remedy import inventory
from doctor.remedy.consent import Refusal, consent, running
from doctor.remedy.job import Job, manager_of
from doctor.remedy.journal import Journal
from doctor.remedy.outcome import Status, StepOutcome, Stopped, finding_status, step_status
from doctor.remedy.runner import Asked, RoleResult
from doctor.remedy.state import Run
from doctor.remedy.workspace import Workspace
from doctor.report.model import Report


class Session:
    """One pass over the steps of a run. `ended` holds how each step stands."""

    def __init__(self, job: Job, run: Run, steps: Sequence[Step], report: Report) -> None:
        self.job = job
        self.run = run
        self.steps = list(steps)
        self.report = report
        self.journal = Journal(run.journal)
        self.ended: dict[str, StepOutcome] = {}
        self.stopped: list[Stopped] = []
        self.quit = False
        self._workspace: Workspace | None = None

    @property
    def manager(self) -> str:
        """apt or dnf."""
        return manager_of(self.report)

    @property
    def workspace(self) -> Workspace:
        """Made when the first role runs."""
        if self._workspace is None:
            self._workspace = Workspace(self.run.workspace)
        return self._workspace

    def go(self) -> None:
        """Do every step that is left and can be done."""
        for number, step in enumerate(self.steps, 1):
            if step.id in self.ended:
                continue
            if self.quit or self.job.cancel.canceled:
                return
            outcome = self._one(step, number)
            if outcome is not None:
                self.ended[step.id] = outcome
                self._tell_finished(outcome)

    def waiting(self) -> list[StepOutcome]:
        """Steps that ran and take effect with a reboot."""
        return [item for item in self.ended.values() if item.ran and item.reboot]

    def _one(self, step: Step, number: int) -> StepOutcome | None:
        """How the step ended; None when it is put off until after a reboot or a consent."""
        remedy = self.job.remedies.get(step.remedy or "")
        if remedy is None:
            return by_hand(step)
        if self.put_off(step):
            return None
        lacking = self.lacking(step)
        if lacking is not None:
            return outcome_of(step, "not-applied", lacking)
        if not self.still_needed(step):
            return outcome_of(step, "not-applied", "nothing left to do: its findings are gone")
        workload = self.job.do("workload") if step.disturbs != "none" or self.job.ask else {}
        person = False
        if self.job.ask is not None:
            answer = self.job.ask(step, running(step.disturbs, workload))
            if answer == "quit":
                self.quit = True
                return None
            if answer == "no":
                return outcome_of(step, "not-applied", "not wanted")
            person = True
        refusal = consent(step, self.job.options.allow, workload, person=person)
        if refusal is not None:
            return self._refused(step, refusal)
        return self._apply(step, remedy, number, person)

    def put_off(self, step: Step) -> bool:
        """Whether something it needs only takes effect with a reboot that is still to come."""
        waits = {item.id for item in self.waiting()}
        return step.disturbs != "reboot" and any(
            need in waits or self._is_put_off(need) for need in step.needs
        )

    def _is_put_off(self, id: str) -> bool:
        step = next((item for item in self.steps if item.id == id), None)
        return step is not None and id not in self.ended and self.put_off(step)

    def lacking(self, step: Step) -> str | None:
        """Which of the steps that it needs is not done."""
        for need in step.needs:
            known = self.ended.get(need)
            if known is None:
                return f"needs {need}, which is not done"
            if known.status == "failed" or (known.status == "not-applied" and not self._gone(need)):
                return f"needs {need}: {known.say}"
        return None

    def _gone(self, id: str) -> bool:
        step = next(item for item in self.steps if item.id == id)
        return step.remedy in self.job.remedies and not self.still_needed(step)

    def still_needed(self, step: Step) -> bool:
        """Whether a plan made now has it too: what an earlier step cured is not cured again."""
        violated = {item.id for item in self.report.findings if item.violated}
        return bool(violated & set(step.findings)) or self._in_plan(step)

    def _in_plan(self, step: Step) -> bool:
        return any(item.id == step.id and item.remedy for item in self.job.plan(self.report).steps)

    def _refused(self, step: Step, refusal: Refusal) -> StepOutcome:
        """A warning's step is left out; an error's stops the run when the others are done."""
        tell = ApprovalNeeded(step=step.id, why=refusal.why, allow=refusal.flag)
        self.job.tell(tell)
        say = f"{refusal.why}; --allow {refusal.flag} allows it"
        if step.severity is not Severity.ERROR and step.id not in self._asked_for():
            return outcome_of(step, "not-applied", say)
        self.journal.add("refused", step=step.id, flag=refusal.flag, why=refusal.why)
        self.stopped.append(Stopped(why=refusal.why, allow=refusal.flag))
        return outcome_of(step, "not-applied", say)

    def _asked_for(self) -> set[str]:
        asked = set(self.job.options.only)
        return {step.id for step in self.steps if set(step.findings) & asked}

    def _apply(self, step: Step, remedy: Remedy, number: int, person: bool) -> StepOutcome:
        self.job.tell(
            StepStarted(
                step=step.id,
                say=remedy.say,
                number=number,
                of=len(self.steps),
                disturbs=step.disturbs,
            )
        )
        try:
            refusal = self._save(step, remedy.touches, person)
            if refusal is not None:
                return self._refused(step, refusal)
            refusal = self._looked_again(step, person)
            if refusal is not None:
                self.journal.add("step-left", step=step.id)
                return self._refused(step, refusal)
            result = self.play(step)
            self._record(step, remedy.touches, result)
        except (RemedyError, OSError) as error:
            return self._could_not(step, error)
        self.report = self.job.look()
        return self.judged(step, result)

    def _looked_again(self, step: Step, person: bool) -> Refusal | None:
        """Saving what undo needs can take minutes: whoever began to work meanwhile is not disturbed either."""
        if step.disturbs == "none" or step.disturbs in self.job.options.allow:
            return None
        return consent(step, self.job.options.allow, self.job.do("workload"), person=person)

    def _could_not(self, step: Step, error: RemedyError | OSError) -> StepOutcome:
        """What stood in the way before or after the role; a full disk may even keep it from being written down."""
        if isinstance(error, OSError):
            said = f"{error.filename or self.run.folder}: {error.strerror}"
        else:
            said = error.message
        with contextlib.suppress(OSError):
            self.journal.add("step-ended", step=step.id, status="failed", failures=[said])
        return outcome_of(step, "failed", said, failures=[said])

    def _save(self, step: Step, touches: Touches, person: bool) -> Refusal | None:
        """Everything that undo needs, before anything is touched."""
        if touches.packages:
            self._wait_for_packages()
        boot = self.job.do("boot_id")["id"]
        self.journal.add("step-begun", step=step.id, boot_id=boot)
        self.job.do(
            "before_step",
            folder=str(self.run.saved),
            step=step.id,
            paths=touches.paths,
            manager=self.manager,
            packaged=touches.packages,
            whole=[filled(item, step.vars) for item in touches.trees],
        )
        if not touches.packages or self.journal.last("saved", step.id) is not None:
            return None
        kept = self.job.do(
            "keep_packages",
            folder=str(self.run.saved),
            globs=touches.packages,
            manager=self.manager,
        )
        lost = self._lost(step, kept["missing"])
        if lost and "irreversible" not in self.job.options.allow and not person:
            self.journal.add("step-left", step=step.id)
            names = ", ".join(lost[:4])
            why = f"no copy of the installed {names} can be had, so {step.id} might not be undone"
            return Refusal(flag="irreversible", why=why)
        self.journal.add("saved", step=step.id, packages=kept["saved"], missing=kept["missing"])
        return None

    def _lost(self, step: Step, missing: list[str]) -> list[str]:
        """Of the packages without a copy those that the step would replace, as far as a dry run can tell."""
        if not missing:
            return []
        told = self.play(step, check=True)
        if told.status != "ok":
            return missing
        return [
            key for key in missing if key.rpartition(":" if ":" in key else ".")[0] in told.replaces
        ]

    def _wait_for_packages(self) -> None:
        """Until nobody else changes packages; RemedyError after the bound."""
        until = time.monotonic() + self.job.options.package_wait
        told = False
        while holder := self.job.do("package_lock", manager=self.manager):
            who = f"{holder['name']} (pid {holder['pid']}) holds {holder['lock']}"
            if time.monotonic() >= until or self.job.cancel.canceled:
                waited = f"{self.job.options.package_wait:g} s"
                raise RemedyError(f"packages are busy: {who}; waited {waited}")
            if not told:
                self.job.tell(Note(text=f"{who}; waiting"))
                told = True
            time.sleep(1)

    def play(self, step: Step, *, check: bool = False) -> RoleResult:
        """Run the role."""
        name = self.report.host.name or "localhost"
        asked = Asked(
            ident=f"{step.id}-{'check' if check else len(self.journal.of('step-begun', step.id))}",
            playbooks=self.job.playbooks,
            playbook="remedy.yml",
            inventory=inventory.local(name, self.workspace.scratch),
            values={**step.vars, **self._common(step)},
            check=check,
            become=not self.job.root,
            roles=self.job.roles,
            run=self.run.id,
        )

        def tell(task: str, done: int) -> None:
            self.job.tell(StepProgress(step=step.id, task=task, done=done))

        return self.job.run_playbook(asked, self.workspace, tell, self.job.cancel)

    def _common(self, step: Step) -> dict[str, Any]:
        """What every role is told."""
        return {
            "doctor_remedy": step.remedy,
            "doctor_run_id": self.run.id,
            **self.job.line.offline,
            **self.job.line.own.get(step.remedy or "", {}),
            "doctor_lock_timeout": int(min(self.job.options.package_wait, 600)),
        }

    def _record(self, step: Step, touches: Touches, result: RoleResult) -> None:
        """How it ended, then what it changed: the undo record."""
        self.journal.add(
            "step-ended",
            step=step.id,
            status=result.status,
            changed=result.changed,
            reboot=result.reboot,
            failures=result.failures,
            boot_id=self.job.do("boot_id")["id"],
        )
        self.record_changes(step.id, touches)

    def record_changes(self, id: str, touches: Touches) -> None:
        """The undo record of a step, against the copy that was made before it first began."""
        changed = self.changes_of(id, touches)
        foreign = (self.journal.last("foreign", id) or {}).get("files", [])
        files = [item for item in changed["files"] if item not in foreign]
        self.journal.add("changed", step=id, record={**changed, "files": files})

    def changes_of(self, id: str, touches: Touches) -> dict[str, Any]:
        """What is different from the copy that was made before the step first began."""
        return self.job.do(
            "after_step",
            folder=str(self.run.saved),
            step=id,
            manager=self.manager,
            touched=touches.units,
        )

    def judged(self, step: Step, result: RoleResult) -> StepOutcome:
        """How a step stands after it ran and the host was looked at again."""
        if result.status != "ok":
            said = result.failures[0] if result.failures else result.status
            return outcome_of(
                step,
                "failed",
                said,
                failures=result.failures,
                changed=result.changed,
                ran=True,
            )
        status, say = self.verified(step, bool(result.reboot))
        return outcome_of(step, status, say, changed=result.changed, reboot=result.reboot, ran=True)

    def verified(self, step: Step, waits: bool) -> tuple[Status, str]:
        """By the same checks on a fresh probe; without findings, by a plan that no longer has the step."""
        by_id = {item.id: item for item in self.report.findings}
        if step.findings:
            each = [finding_status(by_id.get(id), waits) for id in step.findings]
            status = step_status(item[0] for item in each)
            return status, next(say for found, say in each if found == status)
        if self._in_plan(step):
            return (
                "unverified",
                "takes effect with a reboot" if waits else "the target is not reached",
            )
        return "verified", "the target is reached"

    def _tell_finished(self, outcome: StepOutcome) -> None:
        self.job.tell(
            StepFinished(
                step=outcome.id,
                status=outcome.status,
                say=outcome.say,
                changed=outcome.changed,
                failures=outcome.failures,
                diffs=outcome.diffs,
            )
        )


def filled(path: str, values: Mapping[str, Any]) -> str:
    """A folder's path with the step's own values. RemedyError where these lead elsewhere."""
    found = path.format_map(values)
    if os.path.normpath(found) != found or found.count("/") != path.count("/"):
        raise RemedyError(f"{found!r} is no folder below {path.rpartition('/')[0]}")
    return found


def by_hand(step: Step) -> StepOutcome:
    """A person's step. What its owner keeps as it is was asked for and cannot be done: that is no success of anybody's."""
    if step.kept_by_owner:
        say = "; ".join(step.changes)
        return outcome_of(step, "failed", say, failures=[say], command=step.command)
    say = "by hand: no role does this here" if step.remedy else "by hand"
    return outcome_of(step, "not-applied", say, command=step.command)


def outcome_of(step: Step, status: Status, say: str, **more: Any) -> StepOutcome:
    """The outcome of a step."""
    return msgspec.structs.replace(
        StepOutcome(
            id=step.id,
            remedy=step.remedy,
            status=status,
            say=say,
            findings=step.findings,
            disturbs=step.disturbs,
        ),
        **more,
    )
