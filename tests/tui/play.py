"""Plays an app without a terminal: hosts that were recorded or made, keys, and what is then on the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from doctor.events import AnyEvent, Emit
from doctor.probes.recordings.recorded import RecordedSource
from doctor.tui import origin
from doctor.tui.app import DoctorApp
from doctor.tui.bridge import Cancel
from doctor.tui.origin import Kind, Origin
from doctor.tui.widgets.row_list import RowList

HOSTS = Path(__file__).parents[1] / "hosts"
LOGS = Path(__file__).parent / "logs"
RECORDED_SMOKE = Path(__file__).parents[1] / "smoke/recorded/h200-vllm-0.24.0/events.jsonl"
"""What a smoke run on a real H200 said."""
DAY = date(2026, 11, 30)


def recorded(name: str, **more: Any) -> Origin:
    """A recorded host of this repository; its label has no path."""
    return origin.judged("recording", name, DAY, RecordedSource(str(HOSTS / name)), **more)


def events_of(made: Origin) -> list[AnyEvent]:
    """All that it says."""
    found: list[AnyEvent] = []
    made.start(found.append, Cancel())
    return found


def told(
    events: Iterable[AnyEvent], kind: Kind = "replay", label: str = "events.jsonl", **more: Any
) -> Origin:
    """Events that are already there."""
    kept = list(events)

    def start(emit: Emit, cancel: Cancel) -> None:
        for event in kept:
            emit(event)

    return Origin(kind=kind, label=label, as_of=DAY, start=start, **more)


def shown(log: str) -> Origin:
    """A log of this folder without pauses. Nothing is planned anew from it: its facts are cut down."""
    file = RECORDED_SMOKE if log == "h200" else LOGS / f"{log}.jsonl"
    made = origin.replay(file)
    events = list(origin.read_events(file))
    return told(events, label=file.name, work=made.work)


def host() -> DoctorApp:
    """A host whose GPU is held by nouveau."""
    return DoctorApp(shown("host"))


def with_plan(kind: Kind = "live", **more: Any) -> DoctorApp:
    """A host with a plan and a fix that ran, as if it were this one."""
    made = shown("fix")
    return DoctorApp(Origin(kind=kind, label="live", as_of=DAY, start=made.start), **more)


def cursor(app: DoctorApp) -> str:
    """Key of the row under the cursor."""
    row = app.screen.query_one("#rows", RowList).row
    return row.key if row is not None else ""


def play(
    app: DoctorApp,
    then: Callable[[Pilot[int]], Awaitable[None]],
    size: tuple[int, int] = (120, 36),
) -> None:
    """Run the app until its first look is over, then the test."""

    async def whole() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            await idle(app, pilot)
            await then(pilot)

    asyncio.run(whole())


async def idle(app: DoctorApp, pilot: Pilot[int], seconds: float = 30.0) -> None:
    """Until nothing is at work and all of it is drawn."""
    for _ in range(int(seconds / 0.02)):
        await pilot.pause(0.02)
        done = app.bridge.job is not None and not app.bridge.at_work and app._due is None
        if done and not app.state.working:
            break
    else:
        raise AssertionError("still at work")
    await pilot.pause(0.1)


def text(app: DoctorApp) -> str:
    """What is on the screen, line by line."""
    return "\n".join(
        "".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()
    )


def line(app: DoctorApp, holding: str) -> str:
    """The first line of the screen that holds a word."""
    for found in text(app).splitlines():
        if holding in found:
            return found
    raise AssertionError(f"{holding!r} is not on the screen:\n{text(app)}")


async def until(app: DoctorApp, pilot: Pilot[int], words: str, seconds: float = 10.0) -> None:
    """Until these words are on the screen, wherever its lines break."""
    for _ in range(int(seconds / 0.05)):
        if words in text(app) or words in " ".join(text(app).split()):
            return
        await pilot.pause(0.05)
    raise AssertionError(f"{words!r} is not on the screen:\n{text(app)}")
