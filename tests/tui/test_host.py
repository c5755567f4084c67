"""The host's screen: walk from the verdict to the evidence, filter, copy, export."""

from __future__ import annotations

from pathlib import Path

from textual.events import Key
from textual.pilot import Pilot

from doctor.tui import exporting
from doctor.tui.app import DoctorApp
from doctor.tui.screens.host import HostScreen
from doctor.tui.widgets.filter_box import FilterBox
from doctor.tui.widgets.row_list import RowList
from tests.tui.play import (
    cursor,
    host,
    line,
    play,
    recorded,
    text,
    until,
)


def test_the_cursor_starts_on_the_root_cause_and_the_pane_explains_it() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        assert cursor(app) == "driver.gpu-held-by-other-module"
        assert "BROKEN" in line(app, "1 error")
        assert "Next: blacklist nouveau" in text(app)
        assert "0000:17:00.0 is held by nouveau" in text(app)

    play(app, then)


def test_the_host_screen_is_the_first() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        assert isinstance(app.screen, HostScreen)

    play(app, then)


def test_unfold_filter_and_drill_down() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("space", "down")
        await pilot.pause(0.1)
        assert cursor(app) == "cuda.init-failed"
        assert "explained by" in text(app)
        await pilot.press("slash", *"nccl")
        await pilot.pause(0.1)
        keys = [row.key for row in app.screen.query_one("#rows", RowList).rows if row.selectable]
        assert keys
        assert all("nccl" in key for key in keys)
        await pilot.press("enter", "down", "enter")
        await pilot.pause(0.1)
        assert app.focused is app.screen.query_one("#detail")
        await pilot.press("escape", "escape")
        await pilot.pause(0.1)
        assert not app.screen.query_one("#filter").display
        assert len(app.screen.query_one("#rows", RowList).rows) > len(keys)

    play(app, then)


def test_letters_typed_right_after_the_slash_are_the_filters() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        for key, letter in (("slash", "/"), ("n", "n"), ("c", "c"), ("c", "c"), ("l", "l")):
            app.post_message(
                Key(key, letter)
            )  # at once, as a fast typist or a loaded host delivers them
        await pilot.pause(0.2)
        assert app.screen.query_one("#filter", FilterBox).value == "nccl"

    play(app, then)


def test_shows_facts_and_back() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("o", "o")
        assert "not seen" in line(app, "Findings")
        await pilot.press("f")
        assert "Facts" in text(app)
        await pilot.press("home", "space", "down")
        assert cursor(app).startswith("driver.")
        await pilot.press("f", "n")
        assert cursor(app) == "driver.gpu-held-by-other-module"

    play(app, then)


def test_copies_go_to_the_terminals_clipboard_as_shown() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("c")
        assert app.clipboard.startswith("printf 'blacklist nouveau")

    play(app, then)


def test_a_finding_is_copied_and_a_report_exported(tmp_path: Path) -> None:
    app = DoctorApp(recorded("h200x2-stub"))

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("y")
        assert app.clipboard.startswith("✗ FAIL cuda.libcuda-stub")
        for name in ("a.txt", "a.json", "a.html", "a.md", "a.txt", "a.pdf"):
            exporting.bring(app, str(tmp_path / name))
        await until(app, pilot, "a.pdf: the suffix says the format")

    play(app, then)
    assert (tmp_path / "a.txt").read_text().startswith("✗ BROKEN")
    assert '"doctor.report/1"' in (tmp_path / "a.json").read_text()
    assert "cuda.libcuda-stub" in (tmp_path / "a.html").read_text()
    assert "cuda.libcuda-stub" in (tmp_path / "a.md").read_text()
    assert not (tmp_path / "a.pdf").exists()
