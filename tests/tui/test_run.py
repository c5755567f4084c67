"""The run's screen: a fix at work is ended in good order, and asks what it must."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from textual.pilot import Pilot

from doctor.tui import asking
from doctor.tui.bridge import Cancel
from doctor.tui.screens.confirm import ConfirmScreen
from tests.tui.play import (
    idle,
    play,
    text,
    with_plan,
)


def test_a_fix_at_work_is_not_left_alone() -> None:
    app = with_plan()
    canceled = threading.Event()

    def work(emit: Any, cancel: Cancel) -> None:
        while not cancel.wait(0.05):
            pass
        canceled.set()

    async def then(pilot: Pilot[int]) -> None:
        assert app.set_to_work("fix", work, acts=True)
        assert not app.set_to_work("check", work)
        await pilot.press("q")
        await pilot.pause(0.2)
        assert isinstance(app.screen, ConfirmScreen)
        assert "Cancel the fix and quit?" in text(app)
        await pilot.press("escape", "3", "x")
        await pilot.pause(0.2)
        await pilot.press("y")
        assert canceled.wait(5)
        await idle(app, pilot)

    play(app, then)


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("enter", False), ("escape", False)])
def test_what_a_step_disturbs_now_is_asked_from_the_engines_thread(key: str, answer: bool) -> None:
    app = with_plan()
    heard: list[bool] = []

    def work(emit: Any, cancel: Cancel) -> None:
        heard.append(
            asking.person(app, "nvidia_driver", "it disturbs gpu. Now: 2 processes use a GPU")
        )

    async def then(pilot: Pilot[int]) -> None:
        app.set_to_work("fix", work, acts=True)
        for _ in range(100):
            await pilot.pause(0.05)
            if isinstance(app.screen, ConfirmScreen) and "Cancel" in text(app):
                break
        assert "Do nvidia_driver on node-p4 now?" in text(app)
        assert "2 processes use a GPU" in text(app)
        await pilot.press(key)
        await idle(app, pilot)
        assert heard == [answer]

    play(app, then)
