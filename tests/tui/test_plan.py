"""The plan's screen: approve, ask before acting, refuse what may not be."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button

from doctor.tui.app import DoctorApp
from doctor.tui.bridge import Cancel
from doctor.tui.origin import Kind
from doctor.tui.screens.confirm import ConfirmScreen
from tests.tui.play import (
    cursor,
    idle,
    play,
    recorded,
    text,
    with_plan,
)


@pytest.mark.parametrize("kind", ["recording", "replay", "demo"])
def test_nothing_is_done_to_what_is_not_live(kind: Kind) -> None:
    app = with_plan(kind)

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("2", "space", "F")
        assert not isinstance(app.screen, ConfirmScreen)
        await pilot.press("d")
        await pilot.press("4", "S")
        await pilot.pause(0.1)
        assert not isinstance(app.screen, ConfirmScreen)
        assert app.bridge.job is not None
        assert app.bridge.job.name == "check"

    play(app, then)


def test_a_served_app_refuses_too() -> None:
    app = with_plan("live", read_only=True)

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("2", "space", "F", "d", "4", "S")
        await pilot.pause(0.1)
        assert not isinstance(app.screen, ConfirmScreen)
        assert app.bridge.job is not None
        assert app.bridge.job.name == "check"

    play(app, then)


def test_approved_steps_are_asked_for_once_more_with_cancel_in_focus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = with_plan()
    started: list[tuple[str, bool]] = []

    def set_to_work(name: str, work: Any, *, acts: bool = False) -> bool:
        started.append((name, acts))
        return True

    async def then(pilot: Pilot[int]) -> None:
        monkeypatch.setattr(app, "set_to_work", set_to_work)
        await pilot.press("2")
        await pilot.press("F")
        await pilot.pause(0.1)
        assert not isinstance(app.screen, ConfirmScreen), "nothing is approved yet"
        await pilot.press("space")
        assert "[x] 1 nouveau_off" in text(app)
        await pilot.press("F")
        await pilot.pause(0.2)
        assert isinstance(app.screen, ConfirmScreen)
        assert "Do 1 step on node-p4?" in text(app)
        assert "disturbs reboot" in text(app)
        assert isinstance(app.focused, Button)
        assert app.focused.id == "no"
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert started == []
        await pilot.press("F")
        await pilot.pause(0.2)
        await pilot.press("y")
        await pilot.pause(0.2)
        assert started == [("fix", True)]

    play(app, then)


def test_harmless_steps_are_approved_together_and_manual_ones_never() -> None:
    app = with_plan()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("2", "a")
        assert "[x] 2 driver_lock" in text(app)
        assert text(app).count("[x]") == 1
        await pilot.press("down", "down", "down", "space")
        assert cursor(app) == "step:secure_boot"
        assert text(app).count("[x]") == 1
        await pilot.press("c")
        assert app.clipboard == "sudo mokutil --list-new"

    play(app, then)


def test_the_plan_is_made_for_what_is_wanted() -> None:
    app = DoctorApp(recorded("h200x2"))

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("2")
        await idle(app, pilot)
        assert app.state.plan is not None
        assert app.state.plan.want == []
        assert app.want(("vllm==0.27.1",))
        await idle(app, pilot)
        assert app.state.plan.want == ["vllm==0.27.1"]
        assert "torch" in text(app)
        assert not app.want(("no-such-thing==1",))

    play(app, then)


def test_only_approved_steps_are_done_and_busy_ones_are_asked_for() -> None:
    from doctor.plan.model import Disturbs, Step
    from doctor.tui import acts

    asked: list[str] = []
    given: dict[str, Any] = {}

    def step(id: str, disturbs: Disturbs) -> Step:
        return Step(id=id, remedy=id, disturbs=disturbs, undo="", changes=[])

    def ask(id: str, question: str) -> bool:
        asked.append(id)
        return False

    made = with_plan().origin
    work = acts.fixing(made, frozenset({"a", "b", "c"}), (), ask)

    def fix(options: Any, emit: Any, **people: Any) -> None:
        given.update(people)

    from doctor import engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "fix", fix)
        work(lambda event: None, Cancel())
    answer = given["ask"]
    assert answer(step("a", "none"), "2 processes") == "yes"
    assert answer(step("b", "gpu"), "") == "yes"
    assert answer(step("c", "gpu"), "2 processes") == "no"
    assert answer(step("d", "none"), "") == "no"
    assert asked == ["c"]
