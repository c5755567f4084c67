"""Shows a smoke run while it goes on, on stderr: a bar in a terminal; elsewhere one line a rung."""

from __future__ import annotations

from typing import Any

from doctor.cli import console
from doctor.cli.progress import Lines
from doctor.events import Note, SmokeStageFinished, SmokeStageProgress, SmokeStageStarted
from doctor.redact import redact
from doctor.report.plain import escape


class Bar:
    """A bar for the rung that is being tried: its own measure where it has one, else a spinner."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = console.bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
        )
        self._task: Any = None

    def __call__(self, event: Any) -> None:
        """Take an event."""
        if isinstance(event, SmokeStageStarted):
            self._progress.start()
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(event.stage, total=None)
        elif isinstance(event, SmokeStageProgress) and self._task is not None:
            self._progress.update(
                self._task,
                description=f"{event.stage}: {escape(redact(event.text))[:60]}",
                total=event.total,
                completed=event.done or 0,
            )
        elif isinstance(event, SmokeStageFinished):
            self._progress.console.print(line(event), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


def line(event: Any) -> str | None:
    """An event in one line; None for those that are not shown."""
    if isinstance(event, SmokeStageFinished):
        ms = event.result.get("ms", 0)
        took = f" ({ms / 1000:.1f} s)" if ms >= 100 else ""
        return f"{event.stage}: {event.result.get('outcome')}{took}"
    if isinstance(event, Note):
        return escape(redact(event.text))
    return None


def shown() -> Lines | Bar:
    """A bar where stderr is a terminal that can draw one."""
    return Bar() if console.can_draw() else Lines(line)
