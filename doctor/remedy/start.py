"""Puts a fix, a resume or an undo together for this host: trust first, then the state folder, then the hands."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from doctor.events import RunFinished, RunStarted
from doctor.plan.remedy import remedies
from doctor.remedy import trust
from doctor.remedy.event_file import EventFile
from doctor.remedy.fix import fix as fix_host
from doctor.remedy.hands import hands
from doctor.remedy.host.boot import own_session
from doctor.remedy.job import Ask, FixOptions, Job, Line
from doctor.remedy.outcome import FixReport
from doctor.remedy.pip_settings import pip_settings
from doctor.remedy.resume import approved, newest
from doctor.remedy.resume import resume as resume_run
from doctor.remedy.runner import CancelToken, run_playbook
from doctor.remedy.state import Run, State, open_state
from doctor.remedy.undo import UndoReport
from doctor.remedy.undo import undo as undo_run
from doctor.resources import playbooks_dir

LineOf = Callable[[FixOptions, Callable[[Any], None]], Line]
"""What was asked and who listens -> the stages for this host."""
Emit = Callable[[Any], None]


class Stamp:
    """Gives every event its run, number and time, and hands it to whoever listens."""

    def __init__(self, run: str, *emits: Emit) -> None:
        self._run = run
        self._emits = emits
        self._seq = 0

    def __call__(self, event: Any) -> None:
        """Emit the event."""
        self._seq += 1
        stamped = msgspec.structs.replace(event, run=self._run, seq=self._seq, at=time.time())
        for emit in self._emits:
            emit(stamped)


def fix(
    asked: FixOptions,
    line_of: LineOf,
    emit: Emit,
    *,
    ask: Ask | None = None,
    cancel: CancelToken | None = None,
) -> FixReport:
    """A new run."""
    _trusted(asked)
    asked = msgspec.structs.replace(asked, pip=pip_settings() if asked.wants else {})
    scratch = Path(tempfile.mkdtemp(prefix="gpu-host-doctor-")) if asked.dry_run else None
    try:
        state = open_state(scratch)
        run = state.new_run()
        try:
            made: FixReport = _reported(
                "fix",
                asked,
                line_of,
                emit,
                state,
                run,
                ask,
                cancel,
                lambda job: fix_host(job, run),
            )
            return made
        finally:
            _drop_if_empty(run)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def resume(
    asked: FixOptions,
    line_of: LineOf,
    emit: Emit,
    *,
    run_id: str | None = None,
    after_reboot: bool = False,
    ask: Ask | None = None,
    cancel: CancelToken | None = None,
) -> FixReport:
    """The run that was left half way, with what was asked for then; what is allowed may grow."""
    state = open_state(create=False)
    run = state.run(run_id) if run_id is not None else newest(state)
    then = approved(run).options
    joined = msgspec.structs.replace(
        then,
        allow=sorted({*then.allow, *asked.allow}),
        lock_wait=asked.lock_wait,
        package_wait=asked.package_wait,
        pip=(pip_settings() if then.wants else {}) or then.pip,
        smoke=asked.smoke or then.smoke,
    )
    _trusted(joined)
    made: FixReport = _reported(
        "fix",
        joined,
        line_of,
        emit,
        state,
        run,
        ask,
        cancel,
        lambda job: resume_run(job, run, after_reboot=after_reboot),
    )
    return made


def undo(
    run_id: str,
    asked: FixOptions,
    line_of: LineOf,
    emit: Emit,
    *,
    ask: Ask | None = None,
    cancel: CancelToken | None = None,
) -> UndoReport:
    """An earlier run of this host."""
    state = open_state(create=False)
    run = state.run(run_id)
    _trusted(asked)
    found: UndoReport = _reported(
        "undo", asked, line_of, emit, state, run, ask, cancel, lambda job: undo_run(job, run)
    )
    return found


def _trusted(asked: FixOptions) -> None:
    extra = [Path(asked.offline)] if asked.offline else []
    trust.require([Path(item) for item in asked.overlays], extra)


def _reported(
    verb: str,
    options: FixOptions,
    line_of: LineOf,
    emit: Emit,
    state: State,
    run: Run,
    ask: Ask | None,
    cancel: CancelToken | None,
    act: Callable[[Job], Any],
) -> Any:
    record = EventFile(run.events)
    tell = Stamp(run.id, emit, record)
    line = line_of(options, tell)
    job = Job(
        line=line,
        remedies=remedies(),
        state=state,
        do=hands(),
        run_playbook=run_playbook,
        playbooks=playbooks_dir(),
        options=options,
        tell=tell,
        ask=ask,
        cancel=cancel or CancelToken(),
        root=os.geteuid() == 0,
        doctor=own_command(),
        session=own_session(),
    )
    tell(RunStarted(verb=verb, source="live"))
    try:
        report = act(job)
        tell(RunFinished(verdict=report.report.verdict, exit_code=report.exit_code))
        return report
    finally:
        record.close()


def _drop_if_empty(run: Run) -> None:
    """A run that never planned leaves nothing behind."""
    if not run.journal.exists():
        shutil.rmtree(run.folder, ignore_errors=True)


def own_command() -> str:
    """The installed command, if nobody but root can write any part of its path."""
    found = Path(sys.prefix) / "bin" / "doctor"
    return str(found) if found.is_file() and trust.not_own(found) is None else ""
