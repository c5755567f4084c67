"""An audit from the TUI: asked for as on the command line, watched, kept, opened again; never from a page or a log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from doctor.errors import UsageError
from doctor.remedy import state
from doctor.tui import auditing
from doctor.tui.app import DoctorApp
from doctor.tui.origin import Origin
from doctor.tui.screens.prompt import PromptScreen
from doctor.tui.screens.stored_host import StoredHostScreen
from tests.fleet.hosts import recording
from tests.tui.play import DAY, idle, play, recorded, shown, text, until

OLDER = {
    "package": "580.95.05",
    "disk": "580.95.05",
    "library": "580.95.05",
    "loaded": "580.65.06",
}


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tests' own state folder, for root and for users."""
    monkeypatch.setattr(state, "ROOT", tmp_path / "state" / "gpu-host-doctor")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "gpu-host-doctor"


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A folder of recordings, as an inventory."""
    folder = tmp_path / "hosts"
    folder.mkdir()
    recording(folder, "gpu-1")
    recording(folder, "gpu-2", driver=OLDER)
    return folder


def live() -> DoctorApp:
    """As if the host of the tests were looked at."""
    made = recorded("h200x2")
    return DoctorApp(Origin(kind="live", label="live", as_of=DAY, start=made.start))


async def audit(app: DoctorApp, pilot: Pilot[int], words: str) -> None:
    await pilot.press("6", "A")
    await until(app, pilot, "Audit which inventory?")
    app.screen.query_one(Input).value = words
    await pilot.press("enter")


def test_looking_for_earlier_audits_makes_nothing(own_state: Path) -> None:
    app = live()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("6")
        await until(app, pilot, "No earlier audit is kept here")

    play(app, then)
    assert not own_state.exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a process that forks beside threads
def test_an_inventory_is_audited_watched_and_opened_again(fleet: Path, own_state: Path) -> None:
    app = live()

    async def then(pilot: Pilot[int]) -> None:
        await audit(app, pilot, str(fleet))
        await until(app, pilot, "2 hosts", 60)
        await idle(app, pilot, 60)
        await until(app, pilot, "✗ 1 broken ✓ 1 healthy")
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert isinstance(app.screen, StoredHostScreen)
        assert "fleet: gpu-2" in text(app)

    play(app, then)
    [kept] = auditing.history()
    assert kept.verdict == "broken"
    assert (Path(kept.folder) / "events.jsonl").is_file()

    again = live()

    async def reopened(pilot: Pilot[int]) -> None:
        await pilot.press("6")
        await until(again, pilot, "Earlier audits")
        await pilot.press("enter")
        await until(again, pilot, "✗ 1 broken ✓ 1 healthy")
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert isinstance(again.screen, StoredHostScreen)

    play(again, reopened)

    replayed = DoctorApp(auditing.replayed(Path(kept.folder) / "events.jsonl"))

    async def watched(pilot: Pilot[int]) -> None:
        await until(replayed, pilot, "✗ 1 broken ✓ 1 healthy")
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert isinstance(replayed.screen, StoredHostScreen)

    play(replayed, watched)


def test_what_cannot_be_audited_is_said() -> None:
    app = live()

    async def then(pilot: Pilot[int]) -> None:
        await audit(app, pilot, "hosts.yml --nope")
        await until(app, pilot, "No such option")
        await audit(app, pilot, "/no/such/inventory")
        await until(app, pilot, "NO VERDICT", 60)

    play(app, then)


@pytest.mark.parametrize("kind", ["replay", "demo", "served"])
def test_no_audit_begins_from_a_page_a_log_or_a_demo(kind: str) -> None:
    if kind == "served":
        made = recorded("h200x2")
        app = DoctorApp(
            Origin(kind="live", label="live", as_of=DAY, start=made.start), read_only=True
        )
    else:
        app = DoctorApp(msgspec.structs.replace(shown("fleet"), kind=kind))

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("6", "A")
        await until(app, pilot, "an audit is started from a live doctor")
        assert not isinstance(app.screen, PromptScreen)

    play(app, then)


def test_words_are_those_of_the_command_line() -> None:
    asked = auditing.options("'a,b,' -l gpu* --become --forks 7 --want cuda>=13.0")
    assert asked.inventory == ("a,b,",)
    assert (asked.limit, asked.become, asked.forks) == ("gpu*", True, 7)
    assert asked.wants == ("cuda>=13.0",)
    for wrong in ("", "--nope", "hosts --nope", "hosts --forks x", "hosts --help", "'open"):
        with pytest.raises(UsageError):
            auditing.options(wrong)
