"""One host of a fix, from its look to its line: whatever becomes of it is its own."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import DoctorError
from doctor.events import RunFinished, RunStarted
from doctor.exit_codes import ExitCode
from doctor.fleet.compare import ORDER
from doctor.fleet.fixing.model import HostFix
from doctor.fleet.fixing.remote import LostError, Remote
from doctor.fleet.model import file_name
from doctor.plan.model import Plan
from doctor.plan.remedy import Remedy
from doctor.remedy.event_file import EventFile
from doctor.remedy.fix import InterruptedRunError
from doctor.remedy.fix import fix as fix_host
from doctor.remedy.job import FixOptions, Job, Line
from doctor.remedy.journal import Journal
from doctor.remedy.lock import LockedError
from doctor.remedy.outcome import FixReport, exit_code, finding_status, step_status
from doctor.remedy.resume import interrupted_run
from doctor.remedy.resume import resume as resume_run
from doctor.remedy.runner import CancelToken
from doctor.remedy.state import Run, State, open_state
from doctor.remedy.undo import UndoReport
from doctor.remedy.undo import undo as undo_run
from doctor.report.model import Report
from doctor.resources import playbooks_dir

FRESH = 120.0
"""Seconds for which a look of this fix is good to plan by."""
Tell = Callable[[Any], None]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What all hosts of a fix have in common."""

    options: FixOptions
    root: Path
    """Where the runs of the hosts are kept on this side."""
    plan: Callable[[Report], Plan]
    remedies: Mapping[str, Remedy]
    tell: Tell
    cancel: CancelToken
    resume: bool = False
    roles: tuple[Path, ...] = ()


class Seen:
    """A look that was made for all hosts of a wave, used once and only while it is fresh; after it, looks of the host's own."""

    def __init__(self, remote: Remote, report: Report | None, at: float) -> None:
        self._remote = remote
        self._report = report
        self._at = at

    def __call__(self) -> Report:
        """The host as it is."""
        report, self._report = self._report, None
        if report is not None and time.monotonic() - self._at < FRESH:
            return report
        return self._remote.look()


def state_of(root: Path, name: str) -> Path:
    """Where the runs of a host are kept."""
    return root / "fleet" / "hosts" / file_name(name).removesuffix(".json")


def fix_one(
    setting: Setting, remote: Remote, wave: int, seen: Seen
) -> tuple[HostFix, FixReport | None]:
    """Plan, do, look again, as on a host of one's own."""
    with _records(setting, remote.name) as state:
        run, go = _begin(setting, state)
        try:
            made = _at_work(setting, remote, state, run, "fix", seen, go)
        except (DoctorError, OSError) as error:
            return _lost(setting, remote.name, wave, run, error), None
        finally:
            if not run.journal.exists():
                shutil.rmtree(run.folder, ignore_errors=True)
        return line(remote.name, wave, made), made


def undo_one(setting: Setting, remote: Remote, run: str) -> UndoReport:
    """Take a run of the host back."""
    state = open_state(state_of(setting.root, remote.name), create=False)
    found = state.run(run)
    seen = Seen(remote, None, 0.0)
    undone: UndoReport = _at_work(setting, remote, state, found, "undo", seen, lambda job: undo_run(job, found))  # fmt: skip
    return undone


@contextlib.contextmanager
def _records(setting: Setting, name: str) -> Iterator[State]:
    """A dry run keeps none."""
    if not setting.options.dry_run:
        yield open_state(state_of(setting.root, name))
        return
    scratch = Path(tempfile.mkdtemp(prefix="gpu-host-doctor-"))
    try:
        yield open_state(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _begin(setting: Setting, state: State) -> tuple[Run, Callable[[Job], FixReport]]:
    """A new run, or the one that was left half way."""
    if setting.resume and not setting.options.dry_run:
        left = interrupted_run(state, Run("", Path()))
        if left is not None:
            return left, lambda job: resume_run(job, left)
    run = state.new_run()
    return run, lambda job: fix_host(job, run)


def _at_work(
    setting: Setting,
    remote: Remote,
    state: State,
    run: Run,
    verb: str,
    seen: Seen,
    act: Callable[[Job], Any],
) -> Any:
    record = EventFile(run.events)
    tell = _Stamp(remote.name, run.id, setting.tell, record)
    do = remote.hands(run)
    playbooks = playbooks_dir()
    job = Job(
        line=Line(look=seen, plan=setting.plan, prove=_no_proof),
        remedies=setting.remedies,
        state=state,
        do=do,
        run_playbook=remote.play,
        playbooks=playbooks,
        options=setting.options,
        tell=tell,
        roles=setting.roles,
        cancel=setting.cancel,
        root=False,
        reboot=lambda: remote.reboot(run, playbooks, setting.cancel),
    )
    tell(RunStarted(verb=verb, source=remote.name))
    try:
        report = act(job)
        tell(RunFinished(verdict=report.report.verdict, exit_code=report.exit_code))
        return report
    finally:
        if remote.claimed:
            with contextlib.suppress(DoctorError):
                do("release")
        record.close()


def _no_proof(*_: Any) -> Any:
    raise AssertionError("a fix of many hosts asks for no smoke")


class _Stamp:
    """Gives every event its host, run, number and time. Hosts speak at the same time."""

    def __init__(self, host: str, run: str, *emits: Tell) -> None:
        self._host = host
        self._run = run
        self._emits = emits
        self._seq = 0
        self._lock = threading.Lock()

    def __call__(self, event: Any) -> None:
        with self._lock:
            self._seq += 1
            stamped = msgspec.structs.replace(
                event, run=self._run, seq=self._seq, at=time.time(), host=self._host
            )
            for emit in self._emits:
                emit(stamped)


def line(name: str, wave: int, made: FixReport, reason: str = "") -> HostFix:
    """What is said of a host."""
    worse = ORDER.index(made.verdict_after) > ORDER.index(made.verdict_before or made.verdict_after)
    return HostFix(
        name=name,
        wave=wave,
        state="done",
        exit_code=made.exit_code,
        reason=reason,
        failed=not made.dry_run and (made.exit_code in (4, 70) or worse),
        run="" if made.dry_run else made.run,
        verdict_before=made.verdict_before,
        verdict_after=made.verdict_after,
        changed=0 if made.dry_run else sum(step.changed for step in made.steps if step.ran),
        findings=made.findings,
        steps=made.steps,
        stopped=made.stopped,
    )


def _lost(
    setting: Setting, name: str, wave: int, run: Run, error: DoctorError | OSError
) -> HostFix:
    """4 once a step had begun: what it did is not known. 5 where another run is in the way. Else no verdict."""
    begun = bool(Journal(run.journal).of("step-begun")) if run.journal.exists() else False
    waits = isinstance(error, (LockedError, InterruptedRunError))
    code = ExitCode.STOPPED if waits else ExitCode.NOT_FIXED if begun else ExitCode.NO_VERDICT
    said = said_of(error)
    if begun and not waits:
        said += "; doctor fleet fix --resume goes on with it"
    elif isinstance(error, InterruptedRunError):
        said = f"{error.message}; doctor fleet fix --resume goes on with it"
    return HostFix(
        name=name,
        wave=wave,
        state="failed",
        exit_code=int(code),
        reason=said,
        failed=not waits,
        run=run.id if run.journal.exists() and not setting.options.dry_run else "",
    )


def said_of(error: DoctorError | OSError) -> str:
    """An error in its own words."""
    return error.message if isinstance(error, DoctorError) else str(error)


def not_looked_at(name: str, wave: int, error: LostError) -> HostFix:
    """A host that gave no answer to begin with."""
    return HostFix(
        name=name, wave=wave, state="failed", exit_code=3, failed=True,
        reason=f"{error.line.state}: {error.message}",
    )  # fmt: skip


def seen_again(made: FixReport, report: Report | None, why: str = "") -> FixReport:
    """A fix whose every finding is judged by one more look, after the whole wave; None: there was none."""
    by_id = {item.id: item for item in report.findings} if report is not None else {}
    findings = []
    for item in made.findings:
        if item.status == "verified":
            status, say = (
                finding_status(by_id.get(item.id), waits=False)
                if report is not None
                else ("unverified", f"it could not be looked at again: {why}")
            )
            item = msgspec.structs.replace(item, status=status, say=say)
        findings.append(item)
    status_of = {item.id: item.status for item in findings}
    steps = []
    for step in made.steps:
        if step.ran and not step.failures and step.findings:
            again = step_status(status_of.get(id, "unverified") for id in step.findings)
            step = msgspec.structs.replace(step, status=again)
        steps.append(step)
    code = exit_code(
        report.exit_code if report is not None else ExitCode.NO_VERDICT,
        steps,
        made.stopped,
        interrupted=made.interrupted,
    )
    return msgspec.structs.replace(
        made,
        findings=findings,
        steps=steps,
        exit_code=int(code),
        verdict_after=report.verdict if report is not None else "unknown",
        report=report if report is not None else made.report,
    )
