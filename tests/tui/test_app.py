"""What keys do: walk from the verdict to the evidence, filter, copy, plan, ask before acting, refuse what may not be."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Button

from doctor.events import CheckFinished, FactsReady, ProbeStarted, RunFinished, RunStarted
from doctor.tui import exporting
from doctor.tui.app import DoctorApp
from doctor.tui.bridge import Cancel
from doctor.tui.origin import Origin
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.host import HostScreen
from doctor.tui.widgets.filter_box import FilterBox
from doctor.tui.widgets.row_list import RowList
from tests.tui.play import DAY, idle, line, play, recorded, text, told
from tests.tui.snapshots import shown


def host() -> DoctorApp:
    return DoctorApp(shown("host"))


def with_plan(kind: str = "live", **more: Any) -> DoctorApp:
    made = shown("fix")
    return DoctorApp(Origin(kind=kind, label="live", as_of=DAY, start=made.start), **more)  # type: ignore[arg-type]


def cursor(app: DoctorApp) -> str:
    row = app.screen.query_one("#rows", RowList).row
    return row.key if row is not None else ""


def test_the_cursor_starts_on_the_root_cause_and_the_pane_explains_it() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        assert cursor(app) == "driver.gpu-held-by-other-module"
        assert "BROKEN" in line(app, "1 error")
        assert "Next: blacklist nouveau" in text(app)
        assert "0000:17:00.0 is held by nouveau" in text(app)

    play(app, then)


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
            assert "0 of 1 areas" in line(app, "LOOKING")
            go_on.set()
            await idle(app, pilot)

    import asyncio

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

    import asyncio
    import time

    began = time.monotonic()
    asyncio.run(whole())
    assert time.monotonic() - began < 10
    assert app.return_code == 0
    hang.set()


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
        await pilot.pause(0.1)
        assert "no such" not in text(app)

    play(app, then)
    assert (tmp_path / "a.txt").read_text().startswith("✗ BROKEN")
    assert '"doctor.report/1"' in (tmp_path / "a.json").read_text()
    assert "cuda.libcuda-stub" in (tmp_path / "a.html").read_text()
    assert "cuda.libcuda-stub" in (tmp_path / "a.md").read_text()
    assert not (tmp_path / "a.pdf").exists()


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


@pytest.mark.parametrize("kind", ["recording", "replay", "demo"])
def test_nothing_is_done_to_what_is_not_live(kind: str) -> None:
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


def test_the_matrix_is_browsed_with_its_sources() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("5")
        for _ in range(200):
            await pilot.pause(0.05)
            if app.screen.query_one("#rows", RowList).rows:
                break
        await pilot.press("slash", *"vllm 0.27.1", "enter")
        await pilot.pause(0.2)
        assert "Sources" in text(app)
        assert "retrieved" in text(app)
        await pilot.press("w")
        await pilot.pause(0.2)
        assert "What would this host need for" in text(app)
        assert "vllm==" in text(app)

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


def test_the_host_screen_is_the_first() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        assert isinstance(app.screen, HostScreen)

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


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("enter", False), ("escape", False)])
def test_what_a_step_disturbs_now_is_asked_from_the_engines_thread(key: str, answer: bool) -> None:
    app = with_plan()
    heard: list[bool] = []

    def work(emit: Any, cancel: Cancel) -> None:
        heard.append(app.ask_person("nvidia_driver", "it disturbs gpu. Now: 2 processes use a GPU"))

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


def test_only_approved_steps_are_done_and_busy_ones_are_asked_for() -> None:
    from doctor.plan.model import Step
    from doctor.tui import acts

    asked: list[str] = []
    given: dict[str, Any] = {}

    def step(id: str, disturbs: str) -> Step:
        return Step(id=id, remedy=id, disturbs=disturbs, undo="", changes=[])  # type: ignore[arg-type]

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
        work([].append, Cancel())
    answer = given["ask"]
    assert answer(step("a", "none"), "2 processes") == "yes"
    assert answer(step("b", "gpu"), "") == "yes"
    assert answer(step("c", "gpu"), "2 processes") == "no"
    assert answer(step("d", "none"), "") == "no"
    assert asked == ["c"]
