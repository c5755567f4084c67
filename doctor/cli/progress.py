"""Shows a run while it goes on, on stderr: a bar in a terminal, a line for each step elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doctor.cli import console
from doctor.events import (
    ApprovalNeeded,
    Note,
    RebootRequired,
    SmokeStageFinished,
    SmokeStageProgress,
    SmokeStageStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from doctor.redact import redact
from doctor.report.plain import escape

WORDS = {
    "planned": "planned",
    "not-applied": "not applied",
    "failed": "FAILED",
    "unverified": "unverified",
    "verified": "verified",
}


class Lines:
    """A line for each event that is worth one."""

    def __init__(self, line: Callable[[Any], str | None]) -> None:
        self._line = line

    def __call__(self, event: Any) -> None:
        """Take an event."""
        text = self._line(event)
        if text is not None:
            console.talk(text)

    def close(self) -> None:
        """Nothing to put away."""


class Bar:
    """A bar that fills step by step, with the task that runs now."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = console.bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}", markup=False),
            TimeElapsedColumn(),
        )
        self._task: Any = None

    def __call__(self, event: Any) -> None:
        """Take an event."""
        if isinstance(event, StepStarted):
            if self._task is None:
                self._progress.start()
                self._task = self._progress.add_task("", total=event.of)
            self._progress.update(
                self._task, total=event.of, completed=event.number - 1, description=event.step
            )
        elif isinstance(event, StepProgress) and self._task is not None:
            self._progress.update(
                self._task, description=f"{event.step}: {escape(redact(event.task))[:60]}"
            )
        elif isinstance(event, SmokeStageStarted):
            self._smoke(event.stage)
        elif isinstance(event, SmokeStageProgress) and self._task is not None:
            said = f"smoke {event.stage}: {escape(redact(event.text))[:60]}"
            self._progress.update(self._task, description=said)
        text = line(event)
        if text is not None and not isinstance(event, StepStarted):
            self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _smoke(self, stage: str) -> None:
        """The bar of the steps is done; a rung says itself how far it is."""
        if self._task is None:
            self._progress.start()
        else:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(f"smoke {stage}", total=None)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()
        self._task = None


def line(event: Any) -> str | None:
    """An event in one line; None for those that are not shown."""
    if isinstance(event, StepStarted):
        disturbs = "" if event.disturbs == "none" else f" (disturbs: {event.disturbs})"
        return f"[{event.number}/{event.of}] {event.step}: {escape(redact(event.say))}{disturbs}"
    if isinstance(event, StepFinished):
        return (
            f"  {event.step}: {WORDS.get(event.status, event.status)}: {escape(redact(event.say))}"
        )
    if isinstance(event, ApprovalNeeded):
        return f"  {escape(redact(event.why))}; --allow {event.allow} allows it"
    if isinstance(event, RebootRequired):
        return f"  reboot: {escape(redact(event.why))}"
    if isinstance(event, SmokeStageFinished):
        return f"  smoke {event.stage}: {event.result.get('outcome')}"
    if isinstance(event, Note):
        return f"  {escape(redact(event.text))}"
    return None


def shown() -> Lines | Bar:
    """A bar where stderr is a terminal that can draw one."""
    return Bar() if console.can_draw() else Lines(line)
