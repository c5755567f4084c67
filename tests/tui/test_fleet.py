"""The fleet's screen: an audit while it runs and after it, from a fault to its hosts, from a host into its report and back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from doctor import engine
from doctor.demos.fleets import audit as demo_audit
from doctor.events import AnyEvent, FleetReady, FleetStarted, HostFinished, RunStarted
from doctor.fleet.aggregate import Gathering
from doctor.fleet.folder import write_summary
from doctor.fleet.line import line_of
from doctor.fleet.model import HostLine, file_name
from doctor.tui import auditing
from doctor.tui.app import DoctorApp
from doctor.tui.bridge import Cancel
from doctor.tui.origin import AUDIT, Origin
from doctor.tui.screens.fleet import FleetScreen
from doctor.tui.screens.stored_host import StoredHostScreen
from doctor.tui.widgets.row_list import RowList
from tests.tui.play import DAY, cursor, idle, line, play, recorded, shown, text, told, until

EVIL = "\x1b]0;x\x07[bold red]x[/] [@click=app.quit]q[/] \u202e \x9b2J"


def fleet() -> DoctorApp:
    return DoctorApp(shown("fleet"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An audit of two recorded hosts and one that did not answer, as files."""
    gathering = Gathering()
    for host in ("h200x2", "h200x2-stub"):
        report = engine.check(_source(host), engine.Options(as_of=DAY, label=host))
        gathering.add(line_of(report, host, ["gpu"]), report)
        (tmp_path / file_name(host)).write_bytes(msgspec.json.encode(report))
    gathering.add(HostLine(name="gone", state="unreachable", reason="no route to host"))
    made = gathering.finish(
        audit="20261130T120000Z-1",
        inventory="hosts.yml",
        started="2026-11-30T12:00:00+00:00",
        finished="2026-11-30T12:00:09+00:00",
        judged_as_of=DAY.isoformat(),
    )
    write_summary(tmp_path, made)
    return tmp_path


def _source(host: str) -> Any:
    from doctor.probes.recordings.recorded import RecordedSource
    from tests.tui.play import HOSTS

    return RecordedSource(str(HOSTS / host))


def test_an_audit_opens_on_its_worst_host_and_counts_those_without_a_verdict() -> None:
    app = fleet()

    async def then(pilot: Pilot[int]) -> None:
        assert isinstance(app.screen, FleetScreen)
        assert "48 hosts" in line(app, "BROKEN")
        assert "3 not audited" in line(app, "4 broken")
        assert cursor(app) == "h100-11"
        assert "Next:" in text(app)

    play(app, then)


def test_from_a_fault_to_its_hosts_and_back() -> None:
    app = fleet()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("o")
        rows = app.screen.query_one("#rows", RowList)
        assert rows.move_to("driver.library-mismatch")
        await until(app, pilot, "h100-12")
        await pilot.press("enter")
        await until(app, pilot, "with driver.library-mismatch")
        assert {row.key for row in rows.rows if row.selectable} >= {"h100-11", "h100-12"}
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert cursor(app) == "driver.library-mismatch"

    play(app, then)


def test_filter_by_group_trait_and_state() -> None:
    app = fleet()

    async def then(pilot: Pilot[int]) -> None:
        rows = app.screen.query_one("#rows", RowList)
        for words, expected in (
            ("l40s unreachable", set()),
            ("h100 unreachable", {"h100-23"}),
            ("580.95.05", {"h100-05", "h100-11", "h100-12", "h100-17"}),
            ("late", {"l40s-12"}),
        ):
            await pilot.press("slash", *words)
            await pilot.pause(0.1)
            assert {row.key for row in rows.rows if row.selectable} == expected, words
            await pilot.press("escape")
        assert sum(row.selectable for row in rows.rows) == 48

    play(app, then)


def test_outliers_rules_and_changes_are_each_shown_or_said_to_be_none() -> None:
    app = fleet()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("o", "o")
        await until(app, pilot, "usual: 580.159.04")
        await pilot.press("o")
        await until(app, pilot, "Across hosts")
        await pilot.press("o")
        await until(app, pilot, "Nothing changed since the audit before")

    play(app, then)


def test_a_key_before_the_next_drawing_means_the_rows_that_are_shown() -> None:
    app = fleet()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("o", "o")
        await until(app, pilot, "usual: 580.159.04")
        came = app.state.fleet
        assert came is not None
        assert came.report is not None
        shorter = msgspec.structs.replace(came.report, outliers=[])
        app.state = msgspec.structs.replace(
            app.state, fleet=msgspec.structs.replace(came, report=shorter)
        )
        await pilot.press("down", "enter")
        await until(app, pilot, "the report of ")
        assert app.crashed is None

    play(app, then)


def test_a_host_without_a_report_says_why_it_has_none() -> None:
    app = fleet()

    async def then(pilot: Pilot[int]) -> None:
        rows = app.screen.query_one("#rows", RowList)
        rows.move_to("h100-23")
        await pilot.press("enter")
        await until(app, pilot, "h100-23: ssh: connect to host")
        rows.move_to("h100-01")
        await pilot.press("enter")
        await until(app, pilot, "the report of h100-01 is not here")
        assert isinstance(app.screen, FleetScreen)

    play(app, then)


def test_a_folder_is_opened_and_its_hosts_walked_into(folder: Path) -> None:
    app = DoctorApp(auditing.from_folder(folder))

    async def then(pilot: Pilot[int]) -> None:
        assert "3 hosts" in line(app, "BROKEN")
        assert cursor(app) == "h200x2-stub"
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert isinstance(app.screen, StoredHostScreen)
        assert "fleet: h200x2-stub" in text(app)
        assert cursor(app) == "cuda.libcuda-stub"
        await pilot.press("y")
        assert app.clipboard.startswith("✗ FAIL cuda.libcuda-stub")
        await pilot.press("f", "escape")
        await pilot.pause(0.2)
        assert isinstance(app.screen, FleetScreen)
        (folder / file_name("h200x2-stub")).unlink()
        await pilot.press("enter")
        await until(app, pilot, "No such file")
        assert isinstance(app.screen, FleetScreen)

    play(app, then)


def test_an_exported_host_of_a_fleet_is_that_host(folder: Path, tmp_path: Path) -> None:
    from doctor.tui import exporting

    app = DoctorApp(auditing.from_folder(folder))
    out = tmp_path / "out.json"

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("e")
        await until(app, pilot, "there is no report of a host here")
        await pilot.press("enter")
        await pilot.pause(0.2)
        exporting.bring(app, str(out))

    play(app, then)
    assert out.read_bytes().strip() != b""
    assert msgspec.json.decode(out.read_bytes())["verdict"] == "broken"


def test_what_a_killed_audit_left_is_opened_and_never_called_finished(folder: Path) -> None:
    assert auditing.is_audit(folder)
    assert auditing.is_audit(folder / "fleet.json")
    (folder / "fleet.json").unlink()
    assert not auditing.is_audit(folder)
    (folder / "events.jsonl").write_text("")
    assert auditing.is_audit(folder)
    app = DoctorApp(auditing.from_folder(folder))

    async def then(pilot: Pilot[int]) -> None:
        await until(app, pilot, "2 hosts")
        await until(app, pilot, "2 hosts of an audit that did not finish")

    play(app, then)


def test_a_summary_that_is_none_is_said_in_the_head(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text('{"schema": "doctor.fleet/9", "hosts": 3}')
    app = DoctorApp(auditing.from_folder(tmp_path))

    async def then(pilot: Pilot[int]) -> None:
        assert "fleet.json" in line(app, "NO VERDICT")

    play(app, then)


def test_a_running_audit_shows_who_answered_and_who_is_waited_for() -> None:
    go_on = threading.Event()

    def start(emit: Any, cancel: Cancel) -> None:
        emit(RunStarted(verb="fleet audit", source="hosts", at=1.0))
        emit(FleetStarted(audit="a", hosts={"b": ["g"], "a": [], "c": []}, at=1.0))
        answer = msgspec.to_builtins(HostLine(name="b", state="audited", verdict="degraded"))
        emit(HostFinished(line=answer, done=1, of=3, at=2.0))
        go_on.wait(20)

    app = DoctorApp(Origin(kind="live", label="x", as_of=DAY, start=start, work=AUDIT))

    async def whole() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            for _ in range(200):
                await pilot.pause(0.02)
                if "1 of 3 hosts" in text(app):
                    break
            assert "! 1 degraded  · 2 waiting" in text(app)
            await pilot.press("o", "o")
            await pilot.pause(0.1)
            assert "This is said when every host has answered" in text(app)
            go_on.set()
            await idle(app, pilot)
            assert "INTERRUPTED" in text(app)
            assert "DEGRADED" not in text(app)

    import asyncio

    asyncio.run(whole())


def test_hostile_text_of_hosts_stays_text() -> None:
    bad = HostLine(
        name=EVIL,
        state="refused",
        reason=EVIL,
        groups=[EVIL],
        said_name=EVIL + "x",
        traits={EVIL: EVIL},
    )
    ready = {
        "audit": EVIL,
        "doctor": "1",
        "inventory": EVIL,
        "started": "",
        "finished": "",
        "judged_as_of": "2026-11-30",
        "verdict": "partial",
        "exit_code": 3,
        "counts": {},
        "by_finding": [],
        "outliers": [
            {
                "host": EVIL,
                "group": EVIL,
                "trait": EVIL,
                "value": EVIL,
                "usual": EVIL,
                "share": 0.9,
                "severity": "warn",
            }
        ],
        "across": [
            {
                "id": EVIL,
                "title": EVIL,
                "outcome": "warn",
                "severity": "warn",
                "message": EVIL,
                "group": EVIL,
                "values": {EVIL: [EVIL]},
            }
        ],
    }
    events: list[AnyEvent] = [
        FleetStarted(audit=EVIL, hosts={EVIL: [EVIL]}),
        HostFinished(line=msgspec.to_builtins(bad), done=1, of=1),
        FleetReady(fleet=ready),
    ]
    app = DoctorApp(told(events, label=EVIL, work=AUDIT))

    async def then(pilot: Pilot[int]) -> None:
        for keys in ((), ("enter",), ("o",), ("o",), ("z",), ("z", "o"), ("z",)):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            seen = text(app).replace("\n", "")
            assert "[bold red]" in seen
            assert all(letter.isprintable() for letter in seen)

    play(app, then)


def test_without_an_audit_the_screen_says_how_to_get_one() -> None:
    app = DoctorApp(recorded("h200x2"))

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("6")
        await until(app, pilot, "NO AUDIT")
        assert "A audits an inventory" in text(app)
        for key in ("o", "enter", "x", "z", "z", "escape", "slash", "a", "escape"):
            await pilot.press(key)
        assert isinstance(app.screen, FleetScreen)

    play(app, then)


def test_the_demo_is_a_real_audit_of_simulated_hosts() -> None:
    app = DoctorApp(auditing.demo("fleet"))
    names = [member.name for member in demo_audit.members("fleet")]

    async def whole() -> None:
        async with app.run_test(size=(120, 36)) as pilot:
            await idle(app, pilot, 100)
            assert app.state.fleet is not None
            assert sorted(app.state.fleet.lines) == sorted(names)
            lines = app.state.fleet.lines
            assert lines["h100-28"].next == "driver.gpu-held-by-other-module"
            assert lines["h100-11"].next == "driver.library-mismatch"
            assert lines["l40s-12"].state == "late"
            assert lines["h100-01"].verdict == "healthy"
            report = app.state.fleet.report
            assert report is not None
            assert {"h100-05"} <= {item.host for item in report.outliers}
            await pilot.press("enter")
            await pilot.pause(0.3)
            assert isinstance(app.screen, StoredHostScreen)
            assert "h100-11" in text(app)

    import asyncio

    asyncio.run(whole())
