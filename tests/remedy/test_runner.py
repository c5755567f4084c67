"""The real runner with a local connection: results, environment, secrets, cancel."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from doctor.remedy import inventory
from doctor.remedy.runner import Asked, CancelToken, RoleResult, run_playbook
from doctor.remedy.workspace import Workspace
from doctor.resources import playbooks_dir
from tests.remedy.bench import ROLES

pytestmark = pytest.mark.skipif(
    not os.path.exists("/usr/bin/python3"), reason="modules run under the system's interpreter"
)


def play(tmp_path: Path, role: str, tell: Any = lambda task, done: None, **more: Any) -> RoleResult:
    workspace = Workspace(tmp_path / "ansible")
    values = {"doctor_remedy": role, **more.pop("values", {})}
    asked = Asked(
        ident=f"{role}-{time.monotonic_ns()}",
        playbooks=playbooks_dir(),
        playbook="remedy.yml",
        inventory=inventory.local("here", workspace.scratch),
        values=values,
        roles=(ROLES,),
        run="20261130T120000-abcdef",
        **{key: more.pop(key) for key in ("check", "timeout", "idle") if key in more},
    )
    return run_playbook(asked, workspace, tell, more.pop("cancel", None))


def note(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"note_file_path": str(tmp_path / "note"), "note_file_text": "right", **more}


def test_check_real_and_again(tmp_path: Path) -> None:
    tasks: list[str] = []
    checked = play(tmp_path, "note_file", values=note(tmp_path), check=True)
    assert (checked.status, checked.changed) == ("ok", 1)
    assert any("+right" in diff for diff in checked.diffs)
    assert not (tmp_path / "note").exists()
    real = play(
        tmp_path,
        "note_file",
        lambda task, done: tasks.append(task),
        values=note(tmp_path, note_file_reboot=True),
    )
    assert (real.status, real.changed, real.reboot) == ("ok", 1, "the note is read at boot")
    assert "note_file : Write the note" in tasks
    assert (tmp_path / "note").read_text() == "right\n"
    again = play(tmp_path, "note_file", values=note(tmp_path))
    assert (again.status, again.changed, again.reboot) == ("ok", 0, None)


def test_a_failure_says_why_and_no_secret_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz012345")
    failed = play(tmp_path, "note_file", values=note(tmp_path, note_file_break=True))
    assert failed.status == "failed"
    assert "broken on purpose" in failed.failures[0]
    kept = [item for item in (tmp_path / "ansible").rglob("*") if item.is_file()]
    text = "".join(item.read_text(errors="replace") for item in kept) + "".join(failed.failures)
    assert "hunter2swordfish" not in text
    assert "hf_abcdefghij" not in text
    assert not [item for item in kept if item.name == "command" or "job_events" in str(item)]


def test_modules_see_a_fixed_environment_and_the_systems_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_PRELOAD_NOT", "x")
    monkeypatch.setenv("ANSIBLE_LIBRARY", str(tmp_path))
    monkeypatch.setenv("EDITOR", "theirs")
    before = dict(os.environ)
    done = play(tmp_path, "note_env", values={"note_env_path": str(tmp_path / "env")})
    assert done.status == "ok", done.failures
    assert dict(os.environ) == before
    executable, *lines = (tmp_path / "env").read_text().splitlines()
    assert os.path.realpath(executable) == os.path.realpath("/usr/bin/python3")
    seen = dict(line.partition("=")[::2] for line in lines)
    assert seen["PATH"] == "/usr/sbin:/usr/bin:/sbin:/bin"
    assert seen["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert str(tmp_path / "ansible") in seen["HOME"]
    assert seen["GPU_HOST_DOCTOR_RUN"] == "20261130T120000-abcdef"
    assert not {"EDITOR", "LD_PRELOAD_NOT"} & set(seen)
    assert seen["ANSIBLE_LIBRARY"].endswith("playbooks/library")


def test_a_listener_that_raises_is_a_crash_not_a_success(tmp_path: Path) -> None:
    def bad(task: str, done: int) -> None:
        raise RuntimeError("the screen is gone")

    crashed = play(tmp_path, "note_file", bad, values=note(tmp_path))
    assert crashed.status == "crash"


def test_a_role_that_is_not_there_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    failed = play(tmp_path, "no_such_role")
    assert failed.status == "failed"
    assert "no_such_role" in failed.failures[0]


def test_cancel_and_timeout_end_it_and_the_callers_signals_stay(tmp_path: Path) -> None:
    import signal

    handler = signal.getsignal(signal.SIGINT)
    token = CancelToken()
    timer = threading.Timer(2.5, token.cancel)
    timer.start()
    started = time.monotonic()
    assert play(tmp_path, "note_slow", cancel=token).status == "canceled"
    assert time.monotonic() - started < 15
    assert signal.getsignal(signal.SIGINT) is handler
    assert play(tmp_path, "note_slow", timeout=2).status == "timeout"


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="the lists are apt's")
def test_a_folder_that_apt_cannot_read_leaves_no_lists_behind(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "Packages").write_text("no index\n")
    place = Path(tempfile.gettempdir())
    before = set(place.glob("gpu-host-doctor-*"))
    values = {"exact_packages_names": ["hello"], "doctor_offline_dir": str(tmp_path)}
    failed = play(tmp_path, "exact_packages", values=values, check=True)
    assert failed.status == "failed"
    assert "Read its lists" in str(failed.failures)
    assert set(place.glob("gpu-host-doctor-*")) == before
