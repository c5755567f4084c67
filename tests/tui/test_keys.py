"""No key that works on a screen breaks the app, whichever came before, and help names every one."""

from __future__ import annotations

import asyncio

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from doctor.tui.app import DoctorApp
from doctor.tui.screens.help import help_lines
from tests.tui.play import idle, play, shown, text, with_plan

MODES = ("host", "plan", "run", "smoke", "matrix", "fleet")
ENDS = {"q", "ctrl+q", "ctrl+c", "f1"}


def bound(app: DoctorApp) -> dict[str, Binding]:
    """Keys of the app, the screen and what has the focus."""
    return {
        key: active.binding
        for key, active in app.screen.active_bindings.items()
        if key not in ENDS and not key.startswith("super+")
    }


@pytest.mark.parametrize(
    ("mode", "log"), [*((mode, "fix") for mode in MODES), ("fleet", "fleet"), ("smoke", "h200")]
)
def test_every_key_on_every_screen(mode: str, log: str) -> None:
    app = with_plan("replay") if log == "fix" else DoctorApp(shown(log))

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press(str(MODES.index(mode) + 1))
        await idle(app, pilot)
        for key in sorted(bound(app)):
            await app.switch_mode(mode)
            while len(app.screen_stack) > 1:
                await app.pop_screen()
            await pilot.press(key)
            await pilot.pause(0.02)
            assert app.crashed is None, f"{key} on {mode}"
            assert text(app).strip(), f"{key} on {mode}"
        await idle(app, pilot)

    play(app, then)
    assert app.crashed is None


@pytest.mark.parametrize("mode", MODES)
def test_help_names_every_key_of_the_screen(mode: str) -> None:
    app = with_plan("replay")

    async def whole() -> None:
        async with app.run_test(size=(120, 36)) as pilot:
            await idle(app, pilot)
            await pilot.press(str(MODES.index(mode) + 1))
            await pilot.pause(0.1)
            said = "\n".join("".join(part for part, _ in line) for line in help_lines(app.screen))
            for binding in type(app.screen).__dict__["BINDINGS"]:
                if binding.description:
                    assert (binding.tooltip or binding.description) in said
            assert "$ doctor" in said, "the same on the command line"

    asyncio.run(whole())
