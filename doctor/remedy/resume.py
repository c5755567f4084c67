"""Going on with a run that was killed, stopped or rebooted: what is known to be done is looked at, the rest is done."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.errors import DoctorError, RemedyError, UsageError
from doctor.events import Note
from doctor.plan.model import Step, digest
from doctor.remedy import lock
from doctor.remedy.job import FixOptions, Job, manager_of
from doctor.remedy.journal import Journal, Record
from doctor.remedy.runner import RoleResult
from doctor.remedy.session import Session
from doctor.remedy.state import Run, State

if TYPE_CHECKING:
    from doctor.remedy.outcome import FixReport

LEFTOVERS = 180.0
"""Seconds to wait for what a killed run started and what outlived it."""


class Approved(msgspec.Struct, frozen=True):
    """What a run was approved to do."""

    steps: list[Step]
    digest: str
    options: FixOptions


def standing(run: Run) -> str:
    """done, stopped, rebooting, undone, interrupted (it ended without saying so) or empty (it never planned)."""
    return standing_of(Journal(run.journal).records())


def standing_of(records: list[Record]) -> str:
    """The same, from the journal's records."""
    state = "empty"
    for record in records:
        if record["what"] in ("started", "resumed", "undo-begun"):
            state = "interrupted"
        elif record["what"] == "finished":
            state = str(record["state"])
        elif record["what"] == "undo-finished":
            state = "undone"
    return state


def interrupted_run(state: State, but: Run) -> Run | None:
    """The newest other run, if it left a step half way or waits for its reboot."""
    for run in reversed(state.runs()):
        if run.id == but.id:
            continue
        records = Journal(run.journal).records()
        found = standing_of(records)
        if found == "empty":
            continue
        half = found == "interrupted" and any(item["what"] == "step-begun" for item in records)
        return run if half or found == "rebooting" else None
    return None


def newest(state: State) -> Run:
    """The run that --resume means. UsageError when there is nothing to go on with."""
    for run in reversed(state.runs()):
        found = standing(run)
        if found in ("interrupted", "stopped", "rebooting"):
            return run
        if found != "empty":
            break
    raise UsageError("no run was left half way", "see doctor runs list")


def approved(run: Run) -> Approved:
    """What was approved, whole and unchanged."""
    try:
        found = msgspec.json.decode(run.plan.read_bytes(), type=Approved)
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"run {run.id} has no plan to go on with: {error}", "doctor fix") from None
    records = [item for item in Journal(run.journal).records() if "digest" in item]
    known = {str(item["digest"]) for item in records}
    if found.digest != digest(found.steps) or found.digest not in known:
        raise DoctorError(
            f"the plan of run {run.id} is not the one that was approved", "doctor fix"
        )
    return found


def resume(job: Job, run: Run, *, after_reboot: bool = False) -> FixReport:
    """Go on. After a reboot only what was approved is done, and only if it really is another boot."""
    from doctor.remedy.fix import drive, finish

    if after_reboot:
        job.do("withdraw")
    with lock.hold(
        job.state.lock, run.id, job.options.lock_wait, lambda text: job.tell(Note(text=text))
    ):
        steps = approved(run).steps
        journal = Journal(run.journal)
        before = str((journal.last("started") or {}).get("verdict", ""))
        _wait_for_leftovers(job, run)
        boot = str(job.do("boot_id")["id"])
        report = job.look()
        if _repair(job, journal, manager_of(report)):
            report = job.look()
        journal.add("resumed", boot_id=boot, after_reboot=after_reboot)
        session = Session(job, run, steps, report)
        take_over(session, boot)
        ordered = journal.last("reboot-ordered")
        if after_reboot and (ordered is None or ordered["boot_id"] == boot or not boot):
            job.tell(Note(text="this is still the same boot: nothing is done or proved"))
            return finish(session, before)
        return drive(session, before, 0 if after_reboot else job.options.rounds)


def take_over(session: Session, boot: str) -> None:
    """What ran to its end is judged by the fresh look; what did not is done again, against its first copy."""
    for step in session.steps:
        begun = session.journal.last("step-begun", step.id)
        ended = session.journal.last("step-ended", step.id)
        if begun is None:
            continue
        if ended is None or ended["at"] < begun["at"] or ended["status"] != "ok":
            _note_foreign(session, step)
            continue
        remedy = session.job.remedies.get(step.remedy or "")
        recorded = session.journal.last("changed", step.id)
        if remedy is not None and (recorded is None or recorded["at"] < ended["at"]):
            session.record_changes(step.id, remedy.touches)
        waits = ended.get("reboot") if ended.get("boot_id") == boot else None
        result = RoleResult(status="ok", changed=int(ended.get("changed", 0)), reboot=waits)
        session.ended[step.id] = session.judged(step, result)


BY_PACKAGES = (".dpkg-dist", ".dpkg-old", ".dpkg-new", ".ucf-dist", ".rpmnew", ".rpmsave")
"""Ends of names that only package managers give."""


def own_files(files: Sequence[dict[str, Any]], paths: Sequence[str]) -> list[dict[str, Any]]:
    """Of a step that was killed nobody knows what it wrote: what its role touches, and what package managers leave."""

    def own(path: str) -> bool:
        return path.endswith(BY_PACKAGES) or any(
            fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/") + "/")
            for pattern in paths
        )

    return [item for item in files if own(item["path"])]


def _note_foreign(session: Session, step: Step) -> None:
    """What somebody else changed between the kill and now is not the step's, and is written down as that."""
    remedy = session.job.remedies.get(step.remedy or "")
    if remedy is None or session.journal.last("foreign", step.id) is not None:
        return
    changed = session.changes_of(step.id, remedy.touches)
    own = {item["path"] for item in own_files(changed["files"], remedy.touches.paths)}
    foreign = [item for item in changed["files"] if item["path"] not in own]
    session.journal.add("foreign", step=step.id, files=foreign)


def _wait_for_leftovers(job: Job, run: Run) -> None:
    until = time.monotonic() + LEFTOVERS
    told = False
    while found := job.do("leftovers", run=run.id)["processes"]:
        if time.monotonic() >= until:
            raise lock.LockedError(
                f"what run {run.id} started still runs: {', '.join(found[:4])}",
                "run again when it has ended",
            )
        if not told:
            job.tell(Note(text=f"waiting for what the run started: {', '.join(found[:4])}"))
            told = True
        time.sleep(1)


def _repair(job: Job, journal: Journal, manager: str) -> bool:
    """Finish a package transaction that was killed, before anything else. Whether there was a step to repair."""
    half: Any = None
    for record in journal.records():
        if record["what"] == "step-begun":
            half = record
        elif record["what"] in ("step-ended", "step-left"):
            half = None
    if half is None:
        return False
    said = job.do("repair", manager=manager)["why"]
    if said:
        raise RemedyError(said, "put the packages right, then doctor fix --resume")
    return True
