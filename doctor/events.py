"""What happens during a run, as frozen records. The CLI prints them, the TUI posts them, tests append them; events.jsonl replays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Common keys. `at`: seconds since the epoch; `seq` counts within a run."""

    run: str = ""
    seq: int = 0
    at: float = 0.0
    host: str = ""


class RunStarted(Event, frozen=True, kw_only=True, tag="run-started"):
    """A verb begins."""

    verb: str
    source: str
    """live, or the path of a recording."""


class ProbeStarted(Event, frozen=True, kw_only=True, tag="probe-started"):
    """One area is being looked at."""

    area: str


class ProbeFinished(Event, frozen=True, kw_only=True, tag="probe-finished"):
    """One area was looked at."""

    area: str
    ms: int


class FactsReady(Event, frozen=True, kw_only=True, tag="facts-ready"):
    """All probes ended; facts as in the report."""

    facts: dict[str, Any]


class CheckFinished(Event, frozen=True, kw_only=True, tag="check-finished"):
    """One finding, as in the report."""

    finding: dict[str, Any]


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """A sentence for the person who waits."""

    text: str


class RunFinished(Event, frozen=True, kw_only=True, tag="run-finished"):
    """The verb ended."""

    verdict: str
    exit_code: int


AnyEvent: TypeAlias = (
    RunStarted | ProbeStarted | ProbeFinished | FactsReady | CheckFinished | Note | RunFinished
)
Emit: TypeAlias = Callable[[AnyEvent], None]


def ignore(event: AnyEvent) -> None:
    """An emit for callers who do not listen."""
