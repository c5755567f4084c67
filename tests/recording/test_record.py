"""Recording this host: nothing of it changes, nothing names it, and the recording is judged as the host is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from doctor.probes import registry
from doctor.probes.live import LiveSource
from doctor.probes.recordings import record as recorder
from doctor.probes.recordings.identity import of_this_host
from doctor.probes.recordings.pseudonym import is_distinct
from doctor.probes.recordings.recorded import RecordedSource

ROOT = Path(__file__).resolve().parents[2]
MOVING = {
    "host": {"time", "memory_available", "uptime"},
    "storage": {"shm_used", "disks", "shm"},
}
"""Facts that change between two looks at a host that stays the same."""
RENAMED = {"host": {"name", "boot_id", "dns"}, "kernel": {"cmdline", "version", "driver_log"}}
"""Facts whose value is identity, or has words that no list allows."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("record") / "host"
    return out, recorder.record(str(out))


def test_it_has_the_fixed_documents(recorded: tuple[Path, dict[str, Any]]) -> None:
    out, _ = recorded
    names = {item.name for item in out.iterdir()}
    assert names >= {
        "manifest.json",
        "paths.json",
        "process.json",
        "nvml.json",
        "cuda.json",
        "http.json",
        "cmds",
        "files",
    }
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["format"], manifest["redacted"], manifest["missing"]) == (1, True, "unknown")


def test_the_recording_answers_as_the_host_did(recorded: tuple[Path, dict[str, Any]]) -> None:
    out, live = recorded
    again = registry.run(RecordedSource(str(out)))
    assert again["errors"] == live["errors"]
    different = [
        (area, name, fact, again["facts"][area].get(name))
        for area, facts in live["facts"].items()
        for name, fact in facts.items()
        if name not in RENAMED.get(area, set())
        and again["facts"][area].get(name, {}).get("state") != fact["state"]
    ]
    assert not different


def test_it_is_judged_as_the_host_is(recorded: tuple[Path, dict[str, Any]]) -> None:
    out, live = recorded
    from datetime import date

    from doctor import engine

    options = engine.Options(as_of=date(2026, 11, 30))
    before = engine.check_facts(live["facts"], options)
    after = engine.check(RecordedSource(str(out)), options)
    assert [(item.id, item.outcome, item.blocked_by) for item in before.findings] == [
        (item.id, item.outcome, item.blocked_by) for item in after.findings
    ]
    assert (before.verdict, before.exit_code) == (after.verdict, after.exit_code)


def test_nothing_of_this_host_is_named(recorded: tuple[Path, dict[str, Any]]) -> None:
    out, _ = recorded
    words = {
        value for kind, value in of_this_host() if is_distinct(value) or kind.startswith("addr")
    }
    words |= {value for kind, value in of_this_host() if kind == "mac" and set(value) - set("0:")}
    words -= {"00:00:00:00:00:00", "0000:0000:0000:0000:0000:0000:0000:0001"}
    for file in [out, *out.rglob("*")]:
        text = str(file.relative_to(out))
        if file.is_file():
            text += file.read_bytes().decode("utf-8", "replace")
        assert not [word for word in words if word in text], file


def test_recording_a_recording_changes_nothing_more(
    recorded: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    from doctor.probes.recordings.recording import RecordingSource
    from doctor.probes.recordings.redact import redact

    out, _ = recorded
    source = RecordingSource(RecordedSource(str(out)))
    source.process()
    registry.run(source)
    documents = dict(source.documents(), manifest={"format": 1, "missing": "unknown"})
    once = redact(documents)
    for name in ("files", "process", "http", "nvml", "cuda"):
        assert once[name] == documents[name], name


def test_a_folder_that_is_occupied_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("full", "file", "link", "no/such/parent"):
        with pytest.raises(recorder.RecordError):
            recorder.record(str(tmp_path / name), areas=["host"])
    assert (tmp_path / "full" / "x").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "full", "link"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    recorder.record(str(tmp_path), areas=["host"])
    assert (tmp_path / "manifest.json").exists()


def test_half_a_recording_never_shows(tmp_path: Path) -> None:
    documents: dict[str, Any] = {
        "manifest": {}, "files": {"/a/../../b": b"x"}, "paths": {}, "process": {}, "cmds": [], "nvml": {}, "cuda": [], "http": {},
    }  # fmt: skip
    with pytest.raises(recorder.RecordError):
        recorder.write(documents, str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_where_and_how_to_judge_it(tmp_path: Path) -> None:
    out = tmp_path / "my host"
    done = subprocess.run(
        [sys.executable, "-m", "doctor", "record", str(out)],
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    assert f"doctor check --from '{out}'" in done.stderr
    again = subprocess.run(
        [sys.executable, "-m", "doctor", "record", str(out)],
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert again.returncode == 2
    assert "not empty" in again.stderr


def _state_of_the_host() -> dict[str, Any]:
    """Sizes, times and modes of what a look could change."""
    found: dict[str, Any] = {}
    for top in (
        "/etc",
        "/var/lib/dpkg",
        "/var/lib/apt",
        "/dev",
        "/boot",
        "/lib/modules",
        "/usr/lib/modules",
    ):
        for folder, _, names in os.walk(top):
            if folder.startswith(("/dev/pts", "/dev/shm", "/dev/fd")):
                continue
            for name in names:
                path = os.path.join(folder, name)
                info = os.lstat(path)
                node = info.st_rdev or (info.st_mtime_ns, info.st_size)
                found[path] = (info.st_mode, info.st_uid, info.st_gid, node)
    for path in ("/proc/modules", "/proc/mounts", "/proc/sys/kernel/tainted"):
        if os.path.exists(path):
            lines = Path(path).read_text().splitlines()
            found[path] = sorted(line.split()[0] for line in lines)
    return found


def test_a_live_look_changes_nothing_on_the_host() -> None:
    """Somebody else may change a host at any moment; a look that changes it does so each time."""
    for _ in range(3):
        before = _state_of_the_host()
        registry.run(LiveSource())
        after = _state_of_the_host()
        changed = {
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        }
        if not changed:
            return
    pytest.fail(f"changed: {sorted(changed)}")


WRITES = "open,openat,openat2,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,mknod,mknodat,chmod,fchmodat,chown,fchownat,lchown,truncate,mount,umount2,init_module,finit_module,delete_module,setxattr,utimensat,sethostname,settimeofday,reboot,swapon"


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_a_live_look_asks_the_kernel_for_no_change(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(log), "-e", "trace=" + WRITES, sys.executable, "-B", "-m", "doctor.probes"],
        capture_output=True, cwd=ROOT, timeout=100, check=False,
    )  # fmt: skip
    if not log.exists() or not log.stat().st_size:
        pytest.skip("strace may not trace here")
    assert json.loads(done.stdout)["errors"] == {}
    harmless = ('"/dev/null"', '"/dev/tty"', "O_RDONLY", "O_PATH", " resumed>", "+++", "---")
    changes = [
        line for line in log.read_text().splitlines() if not any(word in line for word in harmless)
    ]
    assert changes == []
