"""Hosts that hang, lie, flood, die or have no Python: one real audit through Ansible names each, passes none, and nothing of theirs runs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from doctor import engine
from doctor.errors import UsageError
from doctor.events import FleetReady, HostFinished
from doctor.fleet.audit import Audited, AuditOptions
from doctor.fleet.model import HostLine
from doctor.fleet.store import open_store
from doctor.report.formats import FORMATS, of_fleet
from doctor.report.text import Look
from tests.fleet import hosts
from tests.fleet.liar import CHANGED, RAW

DEADLINE = 20
PWNED = Path("/tmp/pwned")
HONEST = {"is-honest", "has/../slash", "escapes-elsewhere", "sees-nothing"}
EXPECTED = {
    "hangs": ("late", "no answer within 20 s"),
    "floods": ("refused", "104857600 characters"),
    "floods-lines": ("refused", "9500000 characters"),
    "dies": ("refused", "cut off"),
    "answers-twice": ("refused", "2 times"),
    "denies": ("failed", "exit status 126"),
    "says-nothing": ("refused", "no answer of the probe"),
    "no-base64": ("refused", "not base64"),
    "no-zlib": ("refused", "cannot be unpacked"),
    "bomb": ("refused", "unpacks to more than"),
    "no-json": ("refused", "not valid JSON"),
    "deep": ("refused", "not readable JSON"),
    "deep-facts": ("refused", "nested more than"),
    "nan": ("refused", "not valid JSON"),
    "huge-number": ("refused", "not valid JSON"),
    "another-word": ("refused", "no answer of the probe"),
    "other-version": ("refused", "of doctor 99.0"),
    "wrong-types": ("refused", "facts of host are malformed"),
    "other-areas": ("refused", "areas of a probe"),
    "no-areas": ("refused", "areas of a probe"),
    "calls-itself-honest": ("refused", "calls itself is-honest"),
    "claims-a-recording": ("refused", "looked at a recording"),
    "escapes": ("refused", "control characters"),
    "old-python": ("failed", "this is 3.6"),
    "no-python": ("failed", "needs Python 3.9"),
    "no-shell": ("failed", "the probe did not run"),
    "nowhere": ("unreachable", "Connection refused"),
    "switches-checking-off": ("failed", "ssh_common_args switches host-key checking off"),
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One audit of all of them, with its events and how long it took."""
    folder = tmp_path_factory.mktemp("hostile")
    PWNED.unlink(missing_ok=True)
    recording = hosts.recording(folder, "a-recording")
    listed: dict[str, dict[str, Any]] = {
        kind: {"ansible_shell_executable": str(hosts.shell(folder, kind, recording))}
        for kind in [*RAW, *CHANGED]
    }
    listed["no-python"] = {"ansible_shell_executable": str(hosts.bare_shell(folder))}
    listed["no-shell"] = {"ansible_shell_executable": "/nonexistent/sh"}
    listed["nowhere"] = {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
    }
    listed["switches-checking-off"] = {"ansible_ssh_common_args": "-o StrictHostKeyChecking=no"}
    listed["has/../slash"] = {"doctor_recording": str(recording)}
    asked = AuditOptions(
        inventory=(str(hosts.inventory(folder / "hosts.json", listed, gpu=["is-honest", "bomb"])),),
        folder=folder / "out",
        deadline=DEADLINE,
        forks=8,
        database=folder / "history.db",
    )
    events: list[Any] = []
    started = time.monotonic()
    ended = engine.audit(asked, events.append)
    return {
        "ended": ended,
        "events": events,
        "seconds": time.monotonic() - started,
        "folder": folder,
        "lines": {line.name: line for line in ended.fleet.hosts},
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("host", sorted(EXPECTED))
def test_each_is_named_and_passes_not(fleet: dict[str, Any], host: str) -> None:
    state, reason = EXPECTED[host]
    line: HostLine = fleet["lines"][host]
    assert line.state == state
    assert reason in line.reason
    assert (line.verdict, line.exit_code, line.findings, line.passed) == ("unknown", 3, [], 0)
    assert not (fleet["folder"] / "out" / f"{host}.json").exists()


def test_every_host_is_there_once_and_honest_ones_are_judged(fleet: dict[str, Any]) -> None:
    lines: dict[str, HostLine] = fleet["lines"]
    assert set(lines) == set(EXPECTED) | HONEST
    assert {name for name, line in lines.items() if line.state == "audited"} == HONEST
    assert lines["is-honest"].verdict == "healthy"
    assert lines["is-honest"].groups == ["gpu"]
    assert lines["sees-nothing"].verdict == "unknown"
    said = [event.line["name"] for event in fleet["events"] if isinstance(event, HostFinished)]
    assert sorted(said) == sorted(lines)


def test_a_hanging_host_costs_itself_only(fleet: dict[str, Any]) -> None:
    ended: Audited = fleet["ended"]
    assert fleet["lines"]["escapes-elsewhere"].verdict == "broken"
    assert (ended.fleet.verdict, ended.fleet.exit_code) == ("broken", 1)
    assert ended.fleet.counts["hosts"] == len(EXPECTED) + len(HONEST)
    assert ended.fleet.counts["audited"] == len(HONEST)
    last = {
        event.line["name"]: event.at for event in fleet["events"] if isinstance(event, HostFinished)
    }
    ready = next(event for event in fleet["events"] if isinstance(event, FleetReady))
    assert ready.at - last["hangs"] < 10
    assert fleet["seconds"] < DEADLINE + 60


def test_identity_is_the_inventorys_name(fleet: dict[str, Any]) -> None:
    written = {path.name for path in (fleet["folder"] / "out").glob("*.json")}
    assert "has%2F..%2Fslash.json" in written
    report = json.loads((fleet["folder"] / "out" / "has%2F..%2Fslash.json").read_text())
    assert report["host"]["name"] == "has/../slash"
    assert fleet["lines"]["has/../slash"].said_name != "has/../slash"


@pytest.mark.parametrize("format_", FORMATS)
def test_no_report_carries_their_escapes_markup_or_secrets(
    fleet: dict[str, Any], format_: str
) -> None:
    from doctor.fleet.folder import Folder

    look = Look(color=False, unicode=True, width=100, verbose=True)
    shown = "".join(of_fleet(Folder(fleet["folder"] / "out"), format_, look))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert "hunter2swordfish" not in shown
    if format_ == "markdown":  # what stands in a fence is text
        shown = re.sub(r"(?ms)^( *)```.*?^ *```$", "", shown)
    if format_ in ("html", "markdown"):
        assert "<script>alert" not in shown


def test_nothing_of_theirs_ran_or_was_left(fleet: dict[str, Any]) -> None:
    assert not PWNED.exists()
    assert list((fleet["folder"] / "work").iterdir()) == []
    run = fleet["ended"].fleet.audit
    left = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"GPU_HOST_DOCTOR_RUN={run}".encode() in (place / "environ").read_bytes():
                    left.append((place / "cmdline").read_bytes())
    assert left == []


def test_the_command_line_shows_their_words_as_text(fleet: dict[str, Any]) -> None:
    from doctor.cli.fleet_progress import Bar, host_line

    spoken = [host_line(line) for line in fleet["lines"].values()]
    assert all(text.isprintable() for text in spoken)
    denied = next(text for text in spoken if text.startswith("denies"))
    assert "[bold]you[/bold]" in denied and "\\x1b" in denied
    with contextlib.redirect_stderr(io.StringIO()) as written:
        bar = Bar()
        for event in fleet["events"]:
            bar(event)
        bar.close()
    assert "[bold]you[/bold]" in written.getvalue()


def test_history_has_what_became_of_each(fleet: dict[str, Any]) -> None:
    with open_store(fleet["folder"] / "history.db") as store:
        kept = store.audit("last")
        assert kept.hosts == len(EXPECTED) + len(HONEST)
        assert list(store.lines(kept.id)) == fleet["ended"].fleet.hosts
        assert {line.name for line, report in store.reports(kept.id) if report} == HONEST


def test_a_name_of_another_is_seen_through_domains() -> None:
    from doctor.fleet.judging import another

    names = frozenset({"gpu1.dc.example", "gpu2.dc.example", "10.0.0.1", "10.0.0.2"})
    short = frozenset({"gpu1", "gpu2", "10.0.0.1", "10.0.0.2"})
    assert another("gpu2", "gpu1.dc.example", names, short)
    assert another("gpu2.dc.example", "gpu1.dc.example", names, short)
    assert another("gpu2.elsewhere", "10.0.0.1", names, short)
    assert not another("gpu1", "gpu1.dc.example", names, short)
    assert not another("gpu1.elsewhere", "gpu1.dc.example", names, short)
    assert not another("storage7", "10.0.0.1", names, short)
    assert not another("", "10.0.0.1", names, short)


def test_an_inventory_without_hosts_is_a_usage_error(tmp_path: Path) -> None:
    empty = hosts.inventory(tmp_path / "hosts.json", {})
    asked = AuditOptions(inventory=(str(empty),), database=tmp_path / "h.db", folder=tmp_path / "o")
    with pytest.raises(UsageError, match="has no hosts"):
        engine.audit(asked)
