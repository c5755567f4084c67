"""Shows an audit while it goes on, on stderr: a line for each host, and in a terminal a bar with counts under them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from doctor.cli import console
from doctor.events import FleetStarted, HostFinished, Note
from doctor.fleet.model import HostLine
from doctor.redact import redact
from doctor.remedy.event_file import EventFile
from doctor.report.plain import escape

ORDER = ("broken", "degraded", "unknown", "healthy")
NAME = 60
"""Characters of a host's name, and of what is said of it."""
SAID = 110


class Lines:
    """One line for each host, once it has answered or was given up; all of them are counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, event: Any) -> None:
        """Take an event."""
        if isinstance(event, FleetStarted):
            self.begin(len(event.hosts))
        elif isinstance(event, HostFinished):
            line = msgspec.convert(event.line, HostLine)
            self.counts[line.standing] += 1
            self.show(host_line(line), event.done, event.of)
        elif isinstance(event, Note):
            self.show(f"  {escape(redact(event.text))}", None, None)

    def begin(self, hosts: int) -> None:
        """So many are going to be asked."""
        console.talk(f"asking {hosts} host{'s' * (hosts != 1)}")

    def show(self, text: str, done: int | None, of: int | None) -> None:
        """A line, and how far it is."""
        console.talk(text if done is None else f"[{done}/{of}] {text}")

    def close(self) -> None:
        """Nothing to put away."""


class Bar(Lines):
    """The lines scroll above a bar."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

        super().__init__()
        self._progress = console.bar(
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}", markup=False),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        self._task: Any = None

    def begin(self, hosts: int) -> None:
        """Draw it."""
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", total=hosts)

    def show(self, text: str, done: int | None, of: int | None) -> None:
        """The line goes above."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
        if done is not None and self._task is not None:
            self._progress.update(self._task, completed=done, description=counted(self.counts))

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()
        self._task = None


def counted(counts: Counter[str]) -> str:
    """`3 broken, 1 late, 12 healthy`."""
    rank = {word: place for place, word in enumerate(ORDER)}
    words = sorted(counts, key=lambda word: (rank.get(word, rank["unknown"]), word))
    return ", ".join(f"{counts[word]} {word}" for word in words)


def host_line(line: HostLine) -> str:
    """Name, verdict, and the first thing that is wrong."""
    first = next((item for item in line.findings if item.id == line.next), None)
    said = line.reason or (f"{first.id}: {first.message}" if first else "")
    name, said = escape(redact(line.name)), escape(redact(said))
    shown = f"{name[:NAME]}  {line.standing}"
    return f"{shown}  {said if len(said) <= SAID else said[: SAID - 1] + '…'}".rstrip()


class Kept:
    """An emit that writes events.jsonl into the folder of the reports, once it is known."""

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self._file: EventFile | None = None

    def __call__(self, event: Any) -> None:
        """Take an event."""
        if self._file is None and isinstance(event, FleetStarted):
            self._file = EventFile(Path(event.folder) / "events.jsonl")
            for earlier in self._waiting:
                self._file(earlier)
        if self._file is None:
            self._waiting.append(event)
        else:
            self._file(event)

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._file.close()


def shown() -> Lines:
    """A bar where stderr is a terminal that can draw one."""
    return Bar() if console.can_draw() else Lines()
