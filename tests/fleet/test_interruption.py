"""An audit that is interrupted, killed, resumed, or runs twice at once keeps what it has, and says what it has not."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from doctor.fleet.store import open_store
from tests.fleet import hosts

SLOW = 5
QUICK = 7


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The history's folder, root's too."""
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    return home


def listed(folder: Path, slow: str) -> Path:
    """Hosts that answer at once, and hosts that hang for as long as a file is there."""
    recording = hosts.recording(folder, "a-recording")
    gate = folder / "gate"
    waits = folder / "waits.sh"
    waits.write_text(
        f'#!/bin/sh\ncase "$2" in *--answer*) while [ -e {gate} ]; do sleep 0.2; done;; esac\nexec /bin/sh "$@"\n'
    )
    waits.chmod(0o755)
    if slow:
        gate.write_text("")
    given: dict[str, dict[str, Any]] = {
        f"quick-{n}": {"doctor_recording": str(recording)} for n in range(QUICK)
    }
    for number in range(SLOW):
        given[f"slow-{number}"] = {
            "doctor_recording": str(recording),
            "ansible_shell_executable": str(waits),
        }
    return hosts.inventory(folder / "hosts.json", given)


def start(folder: Path, state: Path, inventory: Path, *more: str) -> subprocess.Popen[str]:
    code = (
        "import sys; from pathlib import Path; from doctor.remedy import state;"
        f"state.ROOT = Path({str(state)!r});"
        "from doctor.cli.main import main; main(sys.argv[1:])"
    )
    command = [
        "fleet",
        "audit",
        "-i",
        str(inventory),
        "-o",
        str(folder / "out"),
        "--format",
        "json",
    ]
    return subprocess.Popen(
        [sys.executable, "-c", code, *command, "--forks", "20", "--deadline", "60", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )


def database(state: Path) -> Path:
    found = [*state.rglob("history.db")]
    assert len(found) == 1
    return found[0]


def until(said: Iterator[str], hosts_done: int) -> None:
    """Read stderr until so many hosts are said."""
    for line in said:
        if line.startswith(f"[{hosts_done}/"):
            return
    raise AssertionError("it ended before")


def test_ctrl_c_keeps_what_arrived_and_resume_asks_the_rest(tmp_path: Path, state: Path) -> None:
    inventory = listed(tmp_path, "slow")
    child = start(tmp_path, state, inventory)
    assert child.stderr is not None
    until(child.stderr, QUICK)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert time.monotonic() - began < 20
    assert "--resume" in err
    fleet = json.loads(out)
    assert fleet["verdict"] == "partial"
    assert fleet["counts"] == {"hosts": 12, "audited": QUICK, "healthy": QUICK, "not-reached": SLOW}
    assert (fleet["finished"], fleet["exit_code"]) == ("", 130)
    written = {path.name for path in (tmp_path / "out").glob("*.json")}
    assert written == {f"quick-{n}.json" for n in range(QUICK)} | {"fleet.json"}

    (tmp_path / "gate").unlink()
    untouched = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("quick-*.json")}
    child = start(tmp_path, state, inventory, "--resume")
    out, err = child.communicate(timeout=100)
    assert child.returncode == 0, err
    again = json.loads(out)
    assert again["audit"] == fleet["audit"]
    assert again["finished"]
    assert again["counts"] == {"hosts": 12, "audited": 12, "healthy": 12}
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    child = start(tmp_path, state, inventory, "--resume")
    _, err = child.communicate(timeout=60)
    assert (child.returncode, "no unfinished audit" in err) == (2, True)


def test_kill_9_keeps_finished_hosts_and_resume_completes(tmp_path: Path, state: Path) -> None:
    inventory = listed(tmp_path, "slow")
    child = start(tmp_path, state, inventory)
    assert child.stderr is not None
    until(child.stderr, QUICK - 2)
    child.kill()
    child.communicate()
    path = database(state)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with open_store(path) as store:
        kept = store.audit("last")
        assert kept.finished == "" and kept.verdict == ""
        assert kept.hosts >= QUICK - 2
        done = {line.name for line in store.lines(kept.id)}
        assert all(name.startswith("quick-") for name in done)
    (tmp_path / "gate").unlink()
    child = start(tmp_path, state, inventory, "--resume")
    out, err = child.communicate(timeout=100)
    assert child.returncode == 0, err
    fleet = json.loads(out)
    assert fleet["audit"] == kept.id
    assert fleet["counts"] == {"hosts": 12, "audited": 12, "healthy": 12}
    assert not [*path.parent.glob("work/*")]
    with open_store(path) as store:
        assert store.audit("last").finished


def test_answers_are_told_before_the_last_host_was_asked(tmp_path: Path, state: Path) -> None:
    inventory = listed(tmp_path, "slow")
    child = start(tmp_path, state, inventory, "--forks", "3")
    assert child.stderr is not None
    until(child.stderr, QUICK - 1)  # the slow hosts have every fork by now, and some wait for one
    (tmp_path / "gate").unlink()
    out, err = child.communicate(timeout=100)
    assert child.returncode == 0, err
    assert json.loads(out)["counts"]["audited"] == QUICK + SLOW


def test_two_audits_at_once_keep_apart(tmp_path: Path, state: Path) -> None:
    inventory = listed(tmp_path, "slow")
    first = start(tmp_path, state, inventory)
    assert first.stderr is not None
    until(first.stderr, 1)
    same = start(tmp_path, state, inventory)
    _, err = same.communicate(timeout=60)
    assert same.returncode == 2
    assert "another audit writes to" in err
    second = start(tmp_path / "b", state, inventory, "--limit", "quick-*")
    out, err = second.communicate(timeout=100)
    assert second.returncode == 0, err
    assert json.loads(out)["counts"]["audited"] == QUICK
    (tmp_path / "gate").unlink()
    out, err = first.communicate(timeout=100)
    assert first.returncode == 0, err
    assert json.loads(out)["counts"]["audited"] == QUICK + SLOW
    with open_store(database(state)) as store:
        assert sorted(item.hosts for item in store.audits()) == [QUICK, QUICK + SLOW]
        assert all(item.finished for item in store.audits())


def test_a_second_audit_says_what_changed(tmp_path: Path, state: Path) -> None:
    inventory = listed(tmp_path, "")
    first = start(tmp_path, state, inventory)
    out, err = first.communicate(timeout=100)
    assert first.returncode == 0, err
    hosts.recording(tmp_path / "more", "a-recording", driver="none")
    document = json.loads(inventory.read_text())
    document["all"]["hosts"]["quick-0"]["doctor_recording"] = str(tmp_path / "more" / "a-recording")
    document["all"]["hosts"]["quick-1"] = {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
    }
    inventory.write_text(json.dumps(document))
    second = start(tmp_path, state, inventory)
    again, err = second.communicate(timeout=100)
    assert second.returncode == 1, err
    fleet = json.loads(again)
    assert fleet["before"] == json.loads(out)["audit"]
    worse = {(item["host"], item["subject"]) for item in fleet["changes"] if item["worse"]}
    assert ("quick-0", "driver.not-installed") in worse
    assert ("quick-1", "") in worse
    assert {item["host"] for item in fleet["changes"]} == {"quick-0", "quick-1"}
