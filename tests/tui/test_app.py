"""What every screen has: it draws first, stands every size and terminal, takes no text for markup, ends at once."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from textual.pilot import Pilot

from doctor.events import CheckFinished, FactsReady, ProbeStarted, RunFinished, RunStarted
from doctor.facts.tree import AREAS
from doctor.tui.app import DoctorApp
from doctor.tui.bridge import Cancel
from doctor.tui.origin import Origin
from tests.tui.play import (
    DAY,
    cursor,
    host,
    idle,
    line,
    play,
    shown,
    text,
    told,
    with_plan,
)


def test_it_draws_before_any_probe_ends_and_says_what_it_waits_for() -> None:
    go_on = threading.Event()

    def start(emit: Any, cancel: Cancel) -> None:
        emit(RunStarted(verb="check", source="live", at=1.0))
        emit(ProbeStarted(area="nvml", at=1.0))
        go_on.wait(20)
        emit(FactsReady(facts={}))
        emit(RunFinished(verdict="unknown", exit_code=3))

    app = DoctorApp(Origin(kind="live", label="live", as_of=DAY, start=start))

    async def whole() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            for _ in range(200):
                await pilot.pause(0.02)
                if "LOOKING" in text(app) and "nvml" in text(app):
                    break
            assert f"0 of {len(AREAS)} areas" in line(app, "LOOKING")
            go_on.set()
            await idle(app, pilot)

    asyncio.run(whole())


def test_quitting_does_not_wait_for_a_probe_that_hangs() -> None:
    hang = threading.Event()

    def start(emit: Any, cancel: Cancel) -> None:
        emit(RunStarted(verb="check", source="live"))
        hang.wait(60)

    app = DoctorApp(Origin(kind="live", label="live", as_of=DAY, start=start))

    async def whole() -> None:
        async with app.run_test() as pilot:
            await pilot.pause(0.1)
            await pilot.press("q")

    began = time.monotonic()
    asyncio.run(whole())
    assert time.monotonic() - began < 10
    assert app.return_code == 0
    hang.set()


def test_hostile_text_stays_text() -> None:
    evil = "\x1b]0;x\x07[bold red]x[/] [@click=app.quit]q[/] \u202e \x9b2J"
    finding = {
        "id": "gpu.evil",
        "title": evil,
        "outcome": "fail",
        "severity": "error",
        "message": evil,
        "want": evil,
        "evidence": [{"fact": evil, "value": evil, "via": evil}],
        "fix": {"class": "manual", "say": evil, "command": evil, "disturbs": "none"},
    }
    facts = {evil: {evil: {"state": "known", "value": {evil: [evil]}, "via": evil}}}
    events = [FactsReady(facts=facts), CheckFinished(finding=finding)]
    app = DoctorApp(told(events, label=evil))

    async def then(pilot: Pilot[int]) -> None:
        for keys in ((), ("z",), ("f", "space", "down", "space"), ("c",)):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            seen = text(app).replace("\n", "")
            assert "[bold red]" in seen
            assert all(letter.isprintable() for letter in seen)
        assert "\x1b" not in app.clipboard

    play(app, then)


def test_what_fails_is_said_and_the_app_goes_on() -> None:
    app = host()

    def broken(emit: Any, cancel: Cancel) -> None:
        raise ZeroDivisionError("1/0")

    async def then(pilot: Pilot[int]) -> None:
        app.set_to_work("smoke", broken)
        await idle(app, pilot)
        await pilot.press("4")
        await pilot.pause(0.1)
        assert "a defect of the doctor itself: ZeroDivisionError" in text(app)
        await pilot.press("1")
        assert "BROKEN" in text(app)

    play(app, then)


def test_the_palette_has_every_verb() -> None:
    from doctor.tui.commands import entries, verbs

    app = host()

    async def then(pilot: Pilot[int]) -> None:
        names = [name for name, _, _ in entries(app)]
        for verb, said in verbs():
            assert said
            assert any(name.startswith(f"{verb}: ") for name in names), verb
        await pilot.press("ctrl+p")
        await pilot.pause(0.3)
        await pilot.press(*"matrix", "enter")
        await pilot.pause(0.5)
        assert app.current_mode == "matrix"

    play(app, then)


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (40, 10), (200, 60)])
def test_every_screen_stands_every_size(size: tuple[int, int]) -> None:
    app = with_plan("replay")

    async def then(pilot: Pilot[int]) -> None:
        for key in "12345":
            await pilot.press(key)
            await pilot.pause(0.05)
            assert text(app).strip()
        await pilot.resize_terminal(120, 40)
        await pilot.press("1")
        await pilot.pause(0.1)
        assert "nouveau" in text(app)

    play(app, then, size)


def test_a_mouse_does_what_keys_do() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.click("#rows", offset=(20, 3))
        await pilot.pause(0.1)
        assert cursor(app) == "fabric.manager-missing"
        tabs = list(app.screen.query("Tab"))
        await pilot.click(tabs[3])
        await pilot.pause(0.2)
        assert app.current_mode == "smoke"

    play(app, then)


def test_ascii_only() -> None:
    app = DoctorApp(shown("smoke"), plain=True)

    async def then(pilot: Pilot[int]) -> None:
        for key in "12345":
            await pilot.press(key)
            await pilot.pause(0.1)
            assert text(app).isascii()

    play(app, then)


def test_themes() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        first = app.current_theme.dark
        await pilot.press("t")
        assert app.current_theme.dark is not first

    play(app, then)
