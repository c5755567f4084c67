"""The smoke ladder's screen: a recorded run of a real H200 climbs it again, with times, numbers as bars and the log."""

from __future__ import annotations

import asyncio

from textual.pilot import Pilot

from doctor.events import SmokeStageFinished
from doctor.smoke.model import LADDER
from doctor.tui import origin
from doctor.tui.app import DoctorApp
from tests.tui.play import RECORDED_SMOKE, cursor, idle, line, play, shown, text, told, until


def test_every_rung_of_the_recorded_run_has_its_time_and_word() -> None:
    app = DoctorApp(shown("h200"))

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("4")
        await until(app, pilot, "7 passed, 1 n/a of 8 rungs")
        for name in LADDER:
            word = "n/a" if name == "container" else "pass"
            assert word in line(app, f" {name:<14}"), name
        assert "91.6 s" in line(app, "serve ")
        assert "no Docker" in line(app, "container ")

    play(app, then, (160, 50))


def test_latency_and_throughput_are_bars_with_their_numbers() -> None:
    app = DoctorApp(shown("h200"))

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("4")
        await until(app, pilot, "first token")
        assert cursor(app) == "load", "it follows the rung at work"
        for words in ("29.04 ms", "125.13 ms", "throughput in each part of the run"):
            await until(app, pilot, words)
        longest, shorter = (line(app, part).count("█") for part in ("p99", "p50"))
        assert longest > shorter > 0
        await pilot.press("l")
        assert app.focused is app.screen.query_one("#log")
        assert "ended: passed" in text(app)

    play(app, then, (160, 60))


def test_a_rung_at_work_shows_how_long_by_the_logs_own_clock() -> None:
    events = list(origin.read_events(RECORDED_SMOKE))
    last = max(n for n, event in enumerate(events) if isinstance(event, SmokeStageFinished))
    app = DoctorApp(told(events[:last], label="events.jsonl"))

    async def whole() -> None:
        async with app.run_test(size=(120, 36)) as pilot:
            await idle(app, pilot)
            await pilot.press("4")
            await until(app, pilot, "climbing")
            assert "20 s" in line(app, "climbing"), "not the hours since it was recorded"
            assert "7 of 8 rungs" in line(app, "CLIMBING")

    asyncio.run(whole())
