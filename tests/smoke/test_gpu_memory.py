"""What a run took of a GPU it gives back: judged by NVML's recorded answers before it and after it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doctor.events import SmokeStageFinished
from doctor.facts.model import Known
from doctor.probes.recordings.recorded import RecordedSource
from doctor.smoke import gpu_memory
from doctor.smoke.context import Context
from doctor.smoke.model import StageResult, passed
from doctor.smoke.pipeline import climb
from doctor.smoke.processes import MARK
from tests.smoke.recorded_context import HOSTS, context, with_facts

MIB = 1 << 20
FIRST, SECOND = "[0]", "[1]"
GONE = 2**22 + 1
"""A process id above what Linux gives."""


def host(folder: Path, **changes: Any) -> RecordedSource:
    """The recording of two H200 with other answers: memory=(GPU, bytes more), process=(GPU, pid, bytes), error=(call, GPU)."""
    shutil.copytree(HOSTS / "h200x2", folder)
    answers = json.loads((folder / "nvml.json").read_text())
    calls = answers["calls"]
    if "memory" in changes:
        gpu, more = changes["memory"]
        calls["nvmlDeviceGetMemoryInfo"][gpu]["value"]["used"] += more
    if "process" in changes:
        gpu, pid, size = changes["process"]
        entry = {"pid": pid, "usedGpuMemory": size}
        calls["nvmlDeviceGetComputeRunningProcesses"][gpu]["value"].append(entry)
    if "error" in changes:
        call, gpu = changes["error"]
        calls[call][gpu] = {"error": "NVML_ERROR_GPU_IS_LOST"}
    if "devices" in changes:
        answers["devices"] = changes["devices"]
    (folder / "nvml.json").write_text(json.dumps(answers))
    return RecordedSource(folder)


def run(ctx: Context, *seen: RecordedSource) -> tuple[list[str], float]:
    """(what is left, seconds waited) when NVML says one thing after the other, the last for good."""
    answers = list(seen)
    ctx.look_again = lambda: answers.pop(0) if len(answers) > 1 else answers[0]  # type: ignore[method-assign]
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    held = gpu_memory.before(ctx)
    _, left = gpu_memory.given_back(ctx, held, clock=lambda: time[0], sleep=sleep)
    return left, time[0]


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[Context]:
    made = context(tmp_path)
    yield made
    made.resources.release(made.user)


@pytest.fixture
def idle() -> RecordedSource:
    return RecordedSource(HOSTS / "h200x2")


def test_memory_that_is_back_is_back(ctx: Context, idle: RecordedSource, tmp_path: Path) -> None:
    assert run(ctx, idle, idle) == ([], 0.0)
    little = host(tmp_path / "r", memory=(FIRST, 10 * MIB))
    assert run(ctx, idle, little) == ([], 0.0)


def test_the_driver_is_given_time(ctx: Context, idle: RecordedSource, tmp_path: Path) -> None:
    full = host(tmp_path / "r", memory=(SECOND, 11_000 * MIB))
    left, waited = run(ctx, idle, full, full, full, idle)
    assert left == []
    assert waited == 3 * gpu_memory.POLL_S


def test_memory_that_stays_is_named(ctx: Context, idle: RecordedSource, tmp_path: Path) -> None:
    left, waited = run(ctx, idle, host(tmp_path / "r", memory=(SECOND, 500 * MIB)))
    assert left == ["GPU 1: 1115 MiB in use, 615 MiB before the run"]
    assert gpu_memory.WAIT_S <= waited <= gpu_memory.WAIT_S + gpu_memory.POLL_S


def test_a_process_that_is_gone_and_still_holds_memory_is_the_runs(
    ctx: Context, idle: RecordedSource, tmp_path: Path
) -> None:
    left, _ = run(ctx, idle, host(tmp_path / "r", process=(FIRST, GONE, 700 * MIB)))
    assert left == [f"GPU 0: process {GONE} of the run holds 700 MiB"]
    inside = context(tmp_path)
    with_facts(inside, "host", container=Known("docker", "/.dockerenv"))
    theirs = host(
        tmp_path / "c", process=(FIRST, GONE, 700 * MIB), memory=(FIRST, 700 * MIB)
    )  # of the host or of another container
    assert run(inside, idle, theirs)[0] == []


def test_a_living_process_is_the_runs_by_its_mark(
    ctx: Context, idle: RecordedSource, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"]
    for mark, expected in ((ctx.run, True), ("another", False)):
        env = {**os.environ, MARK: mark}
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            seen = host(
                tmp_path / mark, process=(FIRST, child.pid, 700 * MIB), memory=(FIRST, 700 * MIB)
            )
            left, _ = run(ctx, idle, seen)
            child.kill()
        assert bool(left) is expected, left


def test_others_who_take_more_meanwhile_take_nothing_of_the_runs(
    ctx: Context, idle: RecordedSource, tmp_path: Path
) -> None:
    me = os.getpid()
    before = host(tmp_path / "b", process=(FIRST, me, 100 * MIB), memory=(FIRST, 100 * MIB))
    after = host(tmp_path / "a", process=(FIRST, me, 900 * MIB), memory=(FIRST, 900 * MIB))
    both = host(tmp_path / "x", process=(FIRST, me, 900 * MIB), memory=(FIRST, 1900 * MIB))
    silent = host(tmp_path / "s", process=(FIRST, me, None), memory=(FIRST, 900 * MIB))
    assert run(ctx, before, after)[0] == []
    assert run(ctx, before, both)[0] == ["GPU 0: 2516 MiB in use, 716 MiB before the run"]
    assert run(ctx, before, silent)[0] == []


def test_a_gpu_that_no_longer_answers_is_no_pass(
    ctx: Context, idle: RecordedSource, tmp_path: Path
) -> None:
    devices = {"0": "GPU-00000002-0000-4000-8000-000000000000"}
    lost = host(tmp_path / "r", devices=devices)
    assert (
        "GPU 1 (GPU-00000003-0000-4000-8000-000000000000) no longer" in run(ctx, idle, lost)[0][0]
    )
    mute = host(tmp_path / "m", error=("nvmlDeviceGetMemoryInfo", FIRST))
    assert run(ctx, idle, mute)[0] == ["GPU 0: the memory in use is no longer told"]


def test_what_was_not_told_before_is_not_judged(
    ctx: Context, idle: RecordedSource, tmp_path: Path
) -> None:
    mute = host(tmp_path / "m", error=("nvmlDeviceGetMemoryInfo", FIRST))
    assert run(ctx, mute, idle)[0] == []


def test_a_host_without_a_gpu_is_not_asked(tmp_path: Path) -> None:
    made = context(tmp_path, "no-gpu")
    assert gpu_memory.before(made) is None
    assert gpu_memory.given_back(made, None) == ([], [])


class Rung:
    name, needs, timeout = "cuda", (), 10.0

    def __init__(self, result: StageResult) -> None:
        self.result = result

    def run(self, ctx: Context) -> StageResult:
        return self.result

    def cleanup(self, ctx: Context) -> None:
        pass


def test_a_run_that_leaves_memory_does_not_pass(
    ctx: Context, idle: RecordedSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_memory, "WAIT_S", 0.0)
    answers = [idle, host(tmp_path / "r", memory=(FIRST, 500 * MIB))]
    ctx.look_again = lambda: answers.pop(0)  # type: ignore[method-assign]
    events: list[Any] = []
    ctx.emit = events.append
    climbed = climb([Rung(passed("cuda", "2 of 2 GPUs"))], ctx)
    (result,) = climbed.results
    assert result.outcome == "fail"
    assert result.finding is not None
    assert result.finding.id == "smoke.cuda-left-behind"
    assert "GPU 0: 1116 MiB in use, 616 MiB before the run" in result.message
    assert "before that: 2 of 2 GPUs" in result.message
    assert climbed.left_behind == ["GPU 0: 1116 MiB in use, 616 MiB before the run"]
    values = [item.value for item in climbed.cleaned]
    assert values[1] - values[0] == 500 * MIB
    said = [event.result["outcome"] for event in events if isinstance(event, SmokeStageFinished)]
    assert said == ["pass", "fail"]
