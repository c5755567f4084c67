"""A host that is changed from elsewhere is locked as if the run were on it."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from doctor.remedy import lock
from doctor.remedy.host import claim, parcel

RUN = "20260101T000000-abcdef"
OTHER = "20260101T000001-abcdef"


@pytest.fixture
def root(tmp_path: Path) -> Any:
    yield str(tmp_path / "state")
    for run in (RUN, OTHER):
        claim.release(run, str(tmp_path / "state"))


def keeper(root: str) -> int:
    text = Path(root, "lock").read_text()
    return int(text.partition("(pid ")[2].partition(",")[0])


def test_lock_is_held_after_who_took_it_has_ended(root: str) -> None:
    code = f"from doctor.remedy.host.claim import claim; claim({RUN!r}, 'control', {root!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    place = Path(root, "lock")
    assert lock.is_held(place)
    with (
        pytest.raises(lock.LockedError, match=f"run {RUN} .* for control"),
        lock.hold(place, OTHER, wait=0.1),
    ):
        pass
    with pytest.raises(claim.ClaimedError, match=RUN):
        claim.claim(OTHER, "control", root)
    claim.claim(RUN, "control", root)  # its own
    assert claim.release(OTHER, root) == {"released": False}
    assert lock.is_held(place)
    assert claim.release(RUN, root) == {"released": True}
    until = time.monotonic() + 5
    while lock.is_held(place) and time.monotonic() < until:
        time.sleep(0.05)
    claim.claim(OTHER, "control", root)


def test_run_on_the_host_keeps_others_out(root: str) -> None:
    Path(root).mkdir(mode=0o700)
    with (
        lock.hold(Path(root, "lock"), RUN),
        pytest.raises(claim.ClaimedError, match=RUN),
    ):
        claim.claim(OTHER, "control", root)
    claim.claim(OTHER, "control", root)


def test_lock_ends_with_its_lease_and_is_taken_again_when_its_keeper_was_killed(root: str) -> None:
    claim.claim(RUN, "control", root, lease=1)
    until = time.monotonic() + 15
    while lock.is_held(Path(root, "lock")) and time.monotonic() < until:
        time.sleep(0.1)
    claim.claim(OTHER, "control", root)
    os.kill(keeper(root), signal.SIGKILL)
    time.sleep(0.2)
    assert not lock.is_held(Path(root, "lock"))
    claim.claim(OTHER, "control", root)
    assert lock.is_held(Path(root, "lock"))


def test_release_kills_nothing_but_the_keeper(root: str) -> None:
    Path(root).mkdir(mode=0o700)
    other = subprocess.Popen(["/bin/sleep", "30"])
    Path(root, "lock").write_text(f"{RUN} (pid {other.pid}, for control)")
    assert claim.release(RUN, root) == {"released": False}
    assert other.poll() is None
    other.kill()
    other.wait()


def test_lock_that_is_a_link_is_not_followed(root: str, tmp_path: Path) -> None:
    Path(root).mkdir(mode=0o700)
    (tmp_path / "target").write_text("")
    Path(root, "lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic"):
        claim.claim(RUN, "control", root)


def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **request: Any) -> dict[str, Any]:
    """A request as it is sent: in an archive; the answer as it comes back."""
    from doctor.fleet.envelope import marked, unpack

    monkeypatch.setattr(claim.claim, "__defaults__", (str(tmp_path / "state"), claim.LEASE))
    monkeypatch.setattr(claim.release, "__defaults__", (str(tmp_path / "state"),))
    archive = tmp_path / "parcel"
    with zipfile.ZipFile(archive, "w") as file:
        import json

        whole = {"run": RUN, "by": "control", "word": "w", "asked": request}
        file.writestr(parcel.REQUEST, json.dumps(whole))
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    assert parcel.main(str(archive)) == 0
    monkeypatch.undo()
    said = marked(out.getvalue(), "w")
    assert said is not None
    found: dict[str, Any] = unpack(said)
    return found


def test_parcel_answers_what_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert asked(tmp_path, monkeypatch, do="boot_id") == {"ok": {"id": boot}}
    assert lock.is_held(tmp_path / "state" / "lock")
    said = asked(
        tmp_path, monkeypatch, do="before_step", folder="/proc/none", step="x", paths=[], manager=""
    )
    assert "/proc/none" in said["error"]
    assert "KeyError" in asked(tmp_path, monkeypatch, do="no such thing")["error"]
    assert asked(tmp_path, monkeypatch, do="release") == {"ok": {"released": True}}
    time.sleep(0.3)
    with lock.hold(tmp_path / "state" / "lock", OTHER):
        assert OTHER in asked(tmp_path, monkeypatch, do="boot_id")["claimed"]
