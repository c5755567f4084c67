"""A live run, a recording, an event log and a demo are the same to the app; only a live one may act."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from doctor.errors import SourceError, UsageError
from doctor.events import FleetStarted, Note
from doctor.tui import acts, origin
from doctor.tui.bridge import Cancel
from doctor.tui.origin import Kind, Origin
from doctor.tui.state import ViewState, reduce_all
from tests.tui.play import events_of, recorded


def log_of(made: Origin, path: Path) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events_of(made)))
    return path


def test_a_replayed_log_shows_what_the_recording_showed(tmp_path: Path) -> None:
    made = recorded("h200x2-shm")
    shown = reduce_all(ViewState(), events_of(made))
    again = reduce_all(
        ViewState(), events_of(origin.replay(log_of(made, tmp_path / "e.jsonl"), 0.0))
    )
    assert again.findings == shown.findings
    assert again.facts == shown.facts
    assert again.exit_code == shown.exit_code


def test_a_log_that_was_cut_short_is_read_up_to_there(tmp_path: Path) -> None:
    path = log_of(recorded("no-gpu"), tmp_path / "e.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert len(list(origin.read_events(path))) == len(whole.splitlines()) - 1


@pytest.mark.parametrize(
    "content",
    [b"not json\n", b'{"event":"no-such"}\n', b"[1]\n", b"\xff\xfe\n", b"[" * 90_000 + b"\n"],
)
def test_a_log_that_is_none_is_said_with_its_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b'{"event":"note","text":"x"}\n' + content)
    with pytest.raises(SourceError, match="line 2 is not an event"):
        list(origin.read_events(path))


def test_no_fifo_no_folder_no_missing_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", ".", "missing"):
        with pytest.raises(SourceError):
            list(origin.read_events(tmp_path / name))


@pytest.mark.parametrize("kind", ["recording", "replay", "demo"])
def test_nothing_is_fixed_or_smoked_from_what_is_not_live(kind: Kind) -> None:
    made = recorded("h200x2")
    made = Origin(kind=kind, label="x", as_of=made.as_of, start=made.start)
    with pytest.raises(UsageError, match="only from a live look"):
        acts.fixing(made, frozenset(), (), lambda step, question: True)
    with pytest.raises(UsageError, match="only from a live look"):
        acts.smoking(made, "driver")


def test_a_long_log_ends_while_somebody_looks(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = [Note(at=float(number), text="x") for number in range(2000)]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    slept: list[float] = []

    class Counted(Cancel):
        def wait(self, seconds: float) -> bool:
            slept.append(seconds)
            return False

    origin.replay(path).start(lambda event: None, Counted())
    assert 0.9 * origin.LONGEST_REPLAY < sum(slept) <= origin.LONGEST_REPLAY * 1.001


def test_an_audits_log_opens_on_the_fleet(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(msgspec.json.encode(FleetStarted(audit="a", hosts={"h": []})) + b"\n")
    made = origin.replay(path)
    assert (made.mode, made.work) == ("fleet", "audit")
    assert not made.is_live
