"""The small parts: journal, lock, consent, trust, outcome, packages, sessions."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from doctor.plan.model import Step
from doctor.remedy import journal, lock, trust
from doctor.remedy.consent import consent
from doctor.remedy.host import boot, locks, packages, workload
from doctor.remedy.host.run_id import new_id
from doctor.remedy.outcome import StepOutcome, Stopped, exit_code
from doctor.remedy.state import open_state


def test_a_torn_record_was_not_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal.Journal(path).add("one", step="a")
    with path.open("ab") as file:
        file.write(b'{"what": "two", "st')
    again = journal.Journal(path)
    again.add("three", step="a")
    assert [item["what"] for item in again.records()] == ["one", "three"]
    assert again.last("one", "a") is not None
    assert again.last("one", "b") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _hold(path: Path, ready: Any) -> None:
    with lock.hold(path, "20261130T120000-aaaaaa"):
        ready.set()
        time.sleep(60)


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    child = context.Process(target=_hold, args=(path, ready))
    child.start()
    assert ready.wait(10)
    said: list[str] = []
    with (
        pytest.raises(lock.LockedError, match="aaaaaa"),
        lock.hold(path, "b", 0.1, said.append, 0.05),
    ):
        pass
    assert lock.is_held(path)
    assert "waiting up to" in said[0]
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    with lock.hold(path, "b", 0.1):
        pass
    assert not lock.is_held(path)


def step(**more: Any) -> Step:
    return Step(
        **{"id": "s", "remedy": "s", "disturbs": "none", "undo": "u", "changes": ["c"], **more}
    )


NOTHING = {"gpu": [], "containers": [], "live_restore": False, "unknown": []}
GPU = {**NOTHING, "gpu": ["python3 (pid 7)"]}
CONTAINER = {**NOTHING, "containers": ["vllm (docker)"]}
LIVE = {**CONTAINER, "live_restore": True}
UNKNOWN = {**NOTHING, "unknown": ["the running Docker daemon cannot be asked"]}


@pytest.mark.parametrize(
    ("disturbs", "workload", "allowed", "flag"),
    [
        ("none", GPU, [], None),
        ("service", NOTHING, [], None),
        ("service", GPU, [], "service"),
        ("service", CONTAINER, [], "service"),
        ("service", LIVE, [], None),
        ("service", UNKNOWN, [], "service"),
        ("service", CONTAINER, ["service"], None),
        ("service", CONTAINER, ["gpu"], "service"),
        ("gpu", NOTHING, [], None),
        ("gpu", GPU, ["service"], "gpu"),
        ("gpu", LIVE, [], "gpu"),
        ("gpu", UNKNOWN, [], "gpu"),
        ("gpu", GPU, ["gpu"], None),
        ("reboot", NOTHING, [], "reboot"),
        ("reboot", GPU, ["reboot"], None),
    ],
)
def test_consent(disturbs: str, workload: Any, allowed: list[str], flag: str | None) -> None:
    refused = consent(step(disturbs=disturbs), allowed, workload)
    assert (refused.flag if refused else None) == flag
    assert consent(step(disturbs=disturbs), [], workload, person=True) is None


def test_what_cannot_be_undone_is_a_consent_of_its_own() -> None:
    refused = consent(step(reversible="none"), ["service", "gpu", "reboot"], NOTHING)
    assert refused is not None
    assert refused.flag == "irreversible"


def outcome(status: Any, **more: Any) -> StepOutcome:
    return StepOutcome(id="s", remedy="s", status=status, say="", **more)


@pytest.mark.parametrize(
    ("report", "steps", "stopped", "more", "code"),
    [
        (0, [outcome("verified", ran=True)], [], {}, 0),
        (1, [outcome("not-applied")], [], {}, 1),
        (1, [outcome("failed", ran=True)], [], {}, 4),
        (0, [outcome("unverified", ran=True)], [], {}, 4),
        (1, [outcome("planned")], [Stopped(why="", allow="service")], {}, 5),
        (1, [outcome("failed", ran=True)], [Stopped(why="", allow="gpu")], {}, 4),
        (
            1,
            [outcome("unverified", ran=True, reboot="r")],
            [Stopped(why="", rebooting=True)],
            {},
            5,
        ),
        (
            1,
            [outcome("unverified", ran=True, reboot="r")],
            [Stopped(why="", allow="reboot")],
            {},
            5,
        ),
        (1, [outcome("unverified", ran=True, reboot="r")], [], {}, 4),
        (3, [], [], {}, 3),
        (1, [outcome("failed", ran=True)], [], {"interrupted": True}, 130),
        (1, [outcome("failed")], [Stopped(why="")], {"dry_run": True}, 1),
    ],
)
def test_exit_code(report: int, steps: Any, stopped: Any, more: Any, code: int) -> None:
    assert exit_code(report, steps, stopped, **more) == code


def test_trust_follows_owners_modes_and_links(tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "deep").mkdir(parents=True)
    (own / "deep" / "role.yml").write_text("x")
    if os.geteuid() != 0:
        assert "belongs to user" in str(trust.not_own(own))
        return
    for parent in (own, *own.parents):
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & stat.S_ISVTX:
            parent.chmod(parent.stat().st_mode & ~0o022)
    assert trust.not_own(own) is None
    (own / "deep" / "role.yml").chmod(0o666)
    assert "deep/role.yml can be written by others" in str(trust.not_own(own))
    (own / "deep" / "role.yml").chmod(0o644)
    os.chown(own / "deep", 12345, 0)
    assert "belongs to user 12345" in str(trust.not_own(own))
    os.chown(own / "deep", 0, 0)
    (tmp_path / "theirs").mkdir(mode=0o777)
    (tmp_path / "theirs").chmod(0o777)
    (own / "link").symlink_to(tmp_path / "theirs")
    assert "theirs" in str(trust.not_own(own / "link"))
    assert "pip install" in trust.line()


def test_state_is_closed_to_others_and_not_a_link(tmp_path: Path) -> None:
    from doctor.errors import DoctorError, UsageError

    state = open_state(tmp_path / "s")
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
    run = state.new_run()
    assert state.run(run.id).folder == run.folder
    for wrong in ("../x", "", "20261130T120000-abcdef", run.id + "/.."):
        with pytest.raises(UsageError):
            state.run(wrong)
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with pytest.raises(DoctorError):
        open_state(tmp_path / "link")


def test_package_sets() -> None:
    text = "installed\tfoo:amd64\t1:2.0-1\nconfig-files\tbar:amd64\t3\ninstalled\tk.x86_64\t0:6\ninstalled\tk.x86_64\t0:5\nbad\n"
    assert packages.parse(text, "installed") == {
        "foo:amd64": ["1:2.0-1"],
        "k.x86_64": ["0:5", "0:6"],
    }
    assert packages.parse(text, "config-files") == {"bar:amd64": ["3"]}
    changed = packages.difference({"a": ["1"], "b": ["1"]}, {"b": ["2"], "c": ["1"]})
    assert changed == {
        "added": {"c": ["1"]},
        "removed": {"a": ["1"]},
        "changed": {"b": [["1"], ["2"]]},
    }


def test_other_peoples_sessions() -> None:
    text = (
        "  3 1000 ann  seat0 1234 user tty2 no -\n"
        "  5    0 root -     1300 user pts/0 no -\n"
        "  c1 120 gdm  seat0 900 greeter tty1 no -\n"
        "  9 1001 bob  -     1400 manager - no -\n"
    )
    assert boot.others(text, "5") == ["ann (session 3)"]
    assert boot.others(text, "") == ["ann (session 3)", "root (session 5)"]
    assert boot.others("", "5") == []


@pytest.mark.parametrize(
    ("cgroup", "number", "session"),
    [
        ("0::/user.slice/user-0.slice/session-c3.scope", boot.NO_SESSION, "c3"),
        ("0::/user.slice/user-0.slice/session-3.scope", "3", "3"),
        ("0::/user.slice/user-0.slice/user@0.service/tmux.scope", "5", "5"),
        ("0::/system.slice/cron.service", boot.NO_SESSION, ""),
        ("", "", ""),
    ],
)
def test_the_askers_own_session(
    monkeypatch: pytest.MonkeyPatch, cgroup: str, number: str, session: str
) -> None:
    read = {"/proc/self/cgroup": cgroup, "/proc/self/sessionid": number}
    monkeypatch.setattr(boot, "_text", read.__getitem__)
    assert boot.own_session() == session


def test_a_unit_holds_only_the_run_id() -> None:
    assert boot.schedule("x; reboot", "/opt/x/bin/doctor")["ok"] is False
    assert boot.schedule("20261130T120000-abcdef", "doctor")["ok"] is False
    assert boot.schedule("20261130T120000-abcdef", "/opt/a b/doctor")["ok"] is False
    assert "ExecStart={doctor} fix --after-reboot {run}\n" in boot.TEXT


def test_the_marked_children_of_a_run_are_found() -> None:
    import subprocess

    run = new_id()
    child = subprocess.Popen(["/bin/sleep", "30"], env={locks.MARK: run})
    try:
        time.sleep(0.1)
        found = locks.leftovers(run)
        assert found == [f"sleep (pid {child.pid})"]
    finally:
        child.kill()
        child.wait()
    assert locks.leftovers(run) == []


def test_a_daemon_that_cannot_be_asked_is_a_workload(tmp_path: Path) -> None:
    said: dict[str, Any] = dict(NOTHING, containers=[], gpu=[], unknown=[])
    assert set(workload.look(str(tmp_path / "no.sock"))) == set(said)


def test_the_host_side_runs_on_the_oldest_python_without_packages() -> None:
    import ast

    for file in Path(packages.__file__).parent.glob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("doctor")
            ):
                assert node.module.startswith(("doctor.remedy.host", "doctor.probes.answer")), file


def test_only_the_runner_imports_ansible_runner() -> None:
    root = Path(trust.__file__).parents[1]
    users = [
        file.name
        for file in root.rglob("*.py")
        if ("ansible_runner" in file.read_text() and "import ansible_runner" in file.read_text())
        or "from ansible_runner" in file.read_text()
    ]
    assert users == ["runner.py"]


def test_packages_that_a_transaction_replaces_are_read_from_its_words() -> None:
    from doctor.remedy.task_event import replaced

    text = "Inst new (1.0 x [all])\nInst libc6:i386 [2.35] (2.36 x [i386])\nRemv old [1]\nConf new (1.0)\n"
    assert replaced({"stdout": text}) == {"libc6", "old"}
    lines = ["Installed: gcc-11.5.0-2.el9.x86_64", "Removed: gcc-11.4.1-3.el9.x86_64"]
    assert replaced({"results": lines}) == {"gcc"}
    assert replaced({"results": [{"x": 1}], "stdout": None, "diff": []}) == set()
