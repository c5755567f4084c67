"""Where events come from: this host, a recording, facts, an event log, a demo. The app cannot tell them apart but for whether it may act."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from doctor.errors import SourceError
from doctor.events import AnyEvent, Emit, FleetReady, FleetStarted, HostFinished
from doctor.tui.bridge import Cancel, Start

if TYPE_CHECKING:
    from doctor.fleet.model import HostLine
    from doctor.probes.source import Source
    from doctor.report.model import Report

Mode = Literal["host", "fleet"]
Kind = Literal["live", "recording", "replay", "demo"]
AUDIT = "audit"
"""The app's name for an audit at work."""
MAX_LOG = 64 * 1024 * 1024
"""Bytes of an event log: as much as one file of a recording."""
LONGEST_REPLAY = 60.0
"""Seconds that all pauses of a replay take together."""
LONGEST_PAUSE = 0.25
"""Seconds between two events of a replay, whatever lay between them."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What the app shows."""

    kind: Kind
    label: str
    as_of: date
    start: Start
    wants: tuple[str, ...] = ()
    overlays: tuple[Path, ...] = ()
    scope: str = "shell"
    work: str = "check"
    """What the app calls the work that `start` is."""
    report_of: Callable[[HostLine], Report] | None = None
    """How the report of an audit's host is read."""

    @property
    def mode(self) -> Mode:
        """The screen that it opens on."""
        return "fleet" if self.work == AUDIT else "host"

    @property
    def is_live(self) -> bool:
        """Whether it is this host, now: only then may anything be changed."""
        return self.kind == "live"

    @property
    def again(self) -> str:
        """The options that name this origin on a command line."""
        import shlex

        return f" --from {shlex.quote(self.label)}" if self.kind == "recording" else ""


def judged(
    kind: Kind,
    label: str,
    as_of: date,
    source: Source | None,
    facts: dict[str, Any] | None = None,
    *,
    wants: tuple[str, ...] = (),
    overlays: tuple[Path, ...] = (),
    scope: str = "shell",
) -> Origin:
    """A host that is looked at: this one, a recorded one or a simulated one."""

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor import engine
        from doctor.plan.want import parse_all

        parsed = tuple(parse_all(wants, None, overlays)) if wants else ()
        options = engine.Options(as_of=as_of, label=label, overlays=overlays, wants=parsed)
        if facts is not None:
            return engine.check_facts(facts, options, emit)
        looked = source
        if looked is None:
            from doctor.probes.live import LiveSource

            looked = LiveSource(scope)  # afresh each time: a source remembers what it saw
        return engine.check(looked, options, emit)

    return Origin(
        kind=kind,
        label=label,
        as_of=as_of,
        start=start,
        wants=wants,
        overlays=overlays,
        scope=scope,
    )


def replay(path: Path, longest_pause: float = LONGEST_PAUSE) -> Origin:
    """An event log, read whole before the first event so that a wrong line is said at once."""
    events = list(read_events(path))
    quicker = _quicker(events, longest_pause)

    def start(emit: Emit, cancel: Cancel) -> object:
        before = events[0].at if events else 0.0
        for event in events:
            pause = min(max(0.0, event.at - before), longest_pause) * quicker
            before = event.at
            if pause > 0.001 and cancel.wait(pause):
                return None
            emit(event)
        return None

    first = events[0].at if events else 0.0
    day = datetime.fromtimestamp(first, timezone.utc).date()
    is_audit = any(isinstance(event, (FleetStarted, HostFinished, FleetReady)) for event in events)
    return Origin(
        kind="replay",
        label=str(path),
        as_of=day,
        start=start,
        work=AUDIT if is_audit else "check",
    )


def _quicker(events: Sequence[AnyEvent], longest_pause: float) -> float:
    """What pauses are multiplied with, so that a log of thousands of events ends while somebody looks."""
    pauses = (min(max(0.0, b.at - a.at), longest_pause) for a, b in pairwise(events))
    return min(1.0, LONGEST_REPLAY / (sum(pauses) or 1.0))


def read_events(path: Path) -> Iterator[AnyEvent]:
    """The events of a log. SourceError names the first line that is none."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise SourceError(f"{path}: not a file", "name the events.jsonl of a run")
        if info.st_size > MAX_LOG:
            raise SourceError(f"{path}: larger than {MAX_LOG >> 20} MiB")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}", "name the events.jsonl of a run") from None
    decoder = msgspec.json.Decoder(AnyEvent)
    lines.pop()  # what a run that was killed did not finish writing
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise SourceError(
                    f"{path}: line {number} is not an event ({error})",
                    "it was cut short, or comes from a newer doctor",
                ) from None
