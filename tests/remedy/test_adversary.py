"""What somebody with an account on the host could try against a run of root's: links, names, folders, variables, the moment between."""

from __future__ import annotations

import json
import os
import pty
import shutil
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from doctor.errors import DoctorError
from doctor.remedy import hands, trust
from doctor.remedy.host import boot, files, packages, workload
from doctor.remedy.state import open_state
from tests.remedy.bench import Bench, statuses
from tests.remedy.test_runner import play

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="owners are changed")
SOMEBODY = 12345
EVIL = "from pathlib import Path\nPath({path!r}).write_text('ran')\n"


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder that only root can write, with all above it."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & stat.S_ISVTX:
            folder.chmod(folder.stat().st_mode & ~0o022)
    return tmp_path


# variables -----------------------------------------------------------------------------------------------------------


def test_no_variable_of_the_callers_brings_code_or_silence_into_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil, ran = tmp_path / "evil", tmp_path / "ran"
    evil.mkdir()
    for name in ("awx_display.py", "minimal.py", "free.py", "json.py", "sitecustomize.py"):
        (evil / name).write_text(EVIL.format(path=str(ran)))
    for name in (
        "AWX_LIB_DIRECTORY ANSIBLE_CALLBACK_PLUGINS ANSIBLE_STRATEGY_PLUGINS ANSIBLE_ACTION_PLUGINS ANSIBLE_VARS_PLUGINS "
        "ANSIBLE_LIBRARY ANSIBLE_MODULE_UTILS PYTHONPATH ANSIBLE_CONNECTION_PLUGINS ANSIBLE_FILTER_PLUGINS ANSIBLE_HOME"
    ).split():
        monkeypatch.setenv(name, str(evil))
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    monkeypatch.setenv("ANSIBLE_BECOME_EXE", str(evil / "sudo"))
    monkeypatch.setenv("RUNNER_OMIT_EVENTS", "True")
    monkeypatch.setenv("RUNNER_ONLY_FAILED_EVENTS", "True")
    done = play(tmp_path, "note_env", values={"note_env_path": str(tmp_path / "env")})
    assert (done.status, done.changed) == ("ok", 1), done.failures
    assert done.tasks > 0
    assert not ran.exists()
    assert str(evil) not in (tmp_path / "env").read_text()


def test_a_module_beside_the_doctor_is_not_taken_for_one_of_pythons(tmp_path: Path) -> None:
    """Root's interpreter finds `doctor` in the installation's folder, and nothing there in the place of its own modules."""
    (tmp_path / "doctor").symlink_to(Path(trust.__file__).parents[1])
    for name in ("json", "errno", "typing", "glob", "os"):
        (tmp_path / f"{name}.py").write_text(EVIL.format(path=str(tmp_path / "ran")))
    said = subprocess.run(
        [hands.PYTHON, "-I", "-S", "-B", "-c", hands._BOOT, str(tmp_path)],
        input=b'{"do": "nothing"}',
        capture_output=True,
        check=True,
    )
    assert json.loads(said.stdout) == {"ok": {}}
    assert not (tmp_path / "ran").exists()


# what root runs ------------------------------------------------------------------------------------------------------


@root_only
def test_a_link_inside_to_what_somebody_owns_is_seen(closed: Path) -> None:
    own, theirs = closed / "own", closed / "theirs"
    own.mkdir()
    theirs.mkdir()
    (theirs / "plugin.py").write_text("")
    (own / "plugin.py").symlink_to(theirs / "plugin.py")
    (own / "up").symlink_to(own)
    assert trust.not_own(own) is None
    os.chown(theirs / "plugin.py", SOMEBODY, SOMEBODY)
    assert "plugin.py belongs to user 12345" in str(trust.not_own(own))
    os.chown(theirs / "plugin.py", 0, 0)
    os.chown(theirs, SOMEBODY, 0)
    assert "theirs belongs to user 12345" in str(trust.not_own(own))


@root_only
def test_a_place_where_somebody_could_put_something_is_seen(closed: Path) -> None:
    place = closed / "site" / "later"
    assert trust.not_own(place) is None
    place.parent.mkdir()
    place.parent.chmod(0o1777)
    assert "site can be written by others" in str(trust.not_own(place))


@root_only
def test_a_place_of_which_not_even_the_folder_is_there_is_seen(closed: Path) -> None:
    (closed / "site").mkdir()
    (closed / "site").chmod(0o1777)
    assert "site can be written by others" in str(trust.not_own(closed / "site" / "not" / "yet"))


@root_only
@pytest.mark.parametrize("end", ["inside", "outside", "nothing"])
def test_a_link_on_the_way_that_somebody_can_turn_is_seen(closed: Path, end: str) -> None:
    own, theirs, other = closed / "own", closed / "theirs", closed / "other"
    for folder in (own, theirs, other):
        folder.mkdir()
        (folder / "role.yml").write_text("")
    last = {"inside": own / "role.yml", "outside": other / "role.yml", "nothing": other / "later"}
    (theirs / "link").symlink_to(last[end])
    (own / "link").symlink_to("../theirs/link")
    assert trust.not_own(own) is None
    assert trust.not_own(own / "link") is None
    os.chown(theirs / "link", SOMEBODY, SOMEBODY, follow_symlinks=False)
    assert "theirs/link belongs to user 12345" in str(trust.not_own(own))
    assert "theirs/link belongs to user 12345" in str(trust.not_own(own / "link"))


@root_only
def test_links_in_a_circle_are_no_place(closed: Path) -> None:
    (closed / "one").symlink_to("two")
    (closed / "two").symlink_to("one")
    assert "too many links" in str(trust.not_own(closed / "one"))


@root_only
def test_an_access_list_is_seen(closed: Path) -> None:
    file = closed / "role.yml"
    file.write_text("x")
    file.chmod(0o664)
    assert trust.not_own(file) is None
    entries = [(1, 6, -1), (2, 6, SOMEBODY), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *item) for item in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"no access lists here: {error}")
    assert "can be written by others" in str(trust.not_own(file))


@root_only
@pytest.mark.parametrize("kind", ["cwd", "later"])
def test_a_folder_of_somebody_elses_from_which_python_imports_is_refused(
    closed: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = closed / "theirs"
    folder.mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path, "" if kind == "cwd" else str(folder / "none")])
    with pytest.raises(trust.TrustError, match="theirs belongs to user 12345"):
        trust.require()


def test_everything_that_root_runs_is_looked_at() -> None:
    looked = {str(path) for path in trust._everything([], [])}
    assert {sys.executable, f"{sys.prefix}/bin", f"{sys.prefix}/pyvenv.cfg"} <= looked
    assert {entry for entry in sys.path if entry} <= looked


# the record ----------------------------------------------------------------------------------------------------------


def test_a_state_folder_that_others_could_replace_is_refused(closed: Path) -> None:
    above = closed / "shared"
    above.mkdir()
    above.chmod(0o777)
    with pytest.raises(DoctorError, match="shared"):
        open_state(above / "state")
    above.chmod(0o1777)
    assert open_state(above / "state").root == above / "state"


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    from doctor.remedy.host.dispatch import before_step

    victim = tmp_path / "victim"
    victim.write_text("theirs")
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "before-one.json.part").symlink_to(victim)
    with pytest.raises(OSError):
        before_step(folder=str(saved), step="one", paths=[], manager="", base=False)
    (saved / "pack").unlink(missing_ok=True)
    (saved / "pack").symlink_to(victim)
    with pytest.raises(OSError):
        before_step(folder=str(saved), step="two", paths=[], manager="", base=False)
    assert victim.read_text() == "theirs"


def test_what_is_restored_is_not_swapped_for_a_link_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who can write the folder puts a link in the place of the new file before it gets its mode and owner."""
    victim, path = tmp_path / "victim", tmp_path / "etc" / "file"
    victim.write_text("theirs")
    victim.chmod(0o600)
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o666)
    pack = files.Pack(str(tmp_path / "pack"))
    manifest = files.snapshot([str(path)], pack)
    path.write_text("new")
    changed = files.changes(manifest, [str(path)])
    real = os.fchown

    def swapped(fd: int, *owner: int) -> None:
        part = Path(f"{path}.gpu-host-doctor")
        part.unlink()
        part.symlink_to(victim)
        real(fd, *owner)

    monkeypatch.setattr(os, "fchown", swapped)
    files.restore(changed, manifest, pack)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert victim.read_text() == "theirs"


def test_every_kind_of_thing_comes_back_without_touching_what_a_link_names(tmp_path: Path) -> None:
    place = tmp_path / "etc"
    place.mkdir()
    target = tmp_path / "target"
    target.write_text("x")
    (place / "link").symlink_to(target)
    os.mkfifo(place / "pipe", 0o640)
    (place / "dir").mkdir(mode=0o751)
    before = {item.name: item.lstat() for item in place.iterdir()}
    pack = files.Pack(str(tmp_path / "pack"))
    manifest = files.snapshot([str(place)], pack)
    for item in (place / "link", place / "pipe"):
        item.unlink()
    (place / "dir").rmdir()
    target.chmod(0o604)
    said = files.restore(files.changes(manifest, [str(place)]), manifest, pack)
    assert said["failed"] == said["left"] == []
    after = {item.name: item.lstat() for item in place.iterdir()}
    assert {name: (s.st_mode, s.st_mtime_ns) for name, s in after.items()} == {
        name: (s.st_mode, s.st_mtime_ns) for name, s in before.items()
    }
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


# who is disturbed ----------------------------------------------------------------------------------------------------


def test_a_name_does_not_make_a_workload_a_servant(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-persistenced"
    shutil.copy("/bin/sleep", program)
    child = subprocess.Popen([program, "30"])
    try:
        time.sleep(0.1)
        name = Path(f"/proc/{child.pid}/comm").read_text().strip()
        assert name.startswith(workload.SERVANTS)
        assert not workload._is_servant(str(child.pid), name)
    finally:
        child.kill()
        child.wait()


def test_whoever_begins_to_work_while_copies_are_made_is_not_disturbed(bench: Bench) -> None:
    path = bench.note("one", disturbs="gpu", packages=("nvidia-*",))
    done = bench.do

    def begins(op: str, **arguments: Any) -> dict[str, Any]:
        if op == "keep_packages":
            bench.workload["gpu"] = ["python3 (pid 7)"]
            return {"saved": {}, "missing": []}
        return done(op, **arguments)

    bench.do = begins  # type: ignore[method-assign]
    report = bench.fix()
    assert (report.exit_code, bench.ran, path.read_text()) == (5, [], "wrong\n")
    assert statuses(report) == {"one": "not-applied"}
    assert "python3 (pid 7)" in report.stopped[0].why
    assert bench.undo(report.run).steps == []
    bench.workload["gpu"] = []
    bench.do = done  # type: ignore[method-assign]
    assert bench.resume().exit_code == 0


# the reboot ----------------------------------------------------------------------------------------------------------


def test_a_terminal_that_logind_does_not_know_is_somebody() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", "30"])
    try:
        time.sleep(0.2)
        number = boot._stat(str(pid))[2]
        assert f"somebody (sleep on terminal {number})" in boot.terminals(set(), registered=False)
        if boot._text(f"/proc/{pid}/sessionid") == boot.NO_SESSION:
            said = boot.terminals(set(), registered=True)
            assert f"somebody (sleep on terminal {number})" in said
        assert not [
            item for item in boot.terminals({number}, False) if f"terminal {number})" in item
        ]
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_a_transaction_that_was_cut_off_keeps_the_host_up() -> None:
    found = {
        "bash.x86_64": ["0:5.1-1", "0:5.1-2"],
        "kernel-core.x86_64": ["0:5.14-1", "0:5.14-2"],
        "zlib.x86_64": ["0:1"],
    }
    assert packages.doubled(found) == ["bash.x86_64"]


def test_whoever_changes_packages_now_keeps_the_host_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "people", lambda own: [])
    monkeypatch.setattr(packages, "half_configured", lambda manager: [])
    assert boot.obstacles("", "") == []
    held = {"pid": "7", "name": "apt-get", "lock": "/var/lib/dpkg/lock"}
    monkeypatch.setattr(boot.locks, "holder", lambda manager: held)
    assert boot.obstacles("apt", "") == ["packages are being changed by apt-get (pid 7)"]
