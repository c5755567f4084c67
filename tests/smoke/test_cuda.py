"""Rung cuda: the real children against a libcuda that computes in host memory, healthy and under one fault at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.smoke import child_answer
from doctor.smoke.context import Context, StageFailed
from doctor.smoke.pipeline import climb
from doctor.smoke.stages import cuda
from doctor.smoke.stages.cuda import STAGE
from tests.smoke.gpu_standin import build
from tests.smoke.recorded_context import context


@pytest.fixture(scope="module")
def libraries() -> Iterator[Path]:
    folder = build()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def ctx(tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    made = context(tmp_path)
    yield made
    assert made.resources.release(made.user) == []


def set_fault(monkeypatch: pytest.MonkeyPatch, ctx: Context, text: str) -> Path:
    ledger = ctx.scratch / "ledger"
    monkeypatch.setenv("CUDA_STANDIN", f"{text} ledger={ledger}")
    return ledger


def failure(ctx: Context) -> StageFailed:
    ctx.begin("cuda", 60)
    with pytest.raises(StageFailed) as raised:
        STAGE.run(ctx)
    return raised.value


def test_two_healthy_gpus(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = set_fault(monkeypatch, ctx, "gpus=2")
    ctx.begin("cuda", 60)
    result = STAGE.run(ctx)
    assert result.outcome == "pass", result
    assert result.message.startswith(
        "2 of 2 GPUs: context, memory, copies and kernel right; 2 pairs copy right, 2 of them by P2P"
    )
    assert result.numbers["peer_pairs"] == 2
    assert result.warnings == []
    shown = [item.fact for item in result.evidence]
    for uuid in ctx.facts.nvml.gpus.value:
        for step in ("context", "memory", "copy", "kernel", "release"):
            assert f"smoke.cuda.gpu[{uuid}].{step}" in shown
    assert "smoke.cuda.peers.peer[from 1][to 0]" in shown
    assert all(line == "0 0 0 0" for line in ledger.read_text().splitlines())


def test_one_gpu_has_no_pairs(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    set_fault(monkeypatch, ctx, "gpus=1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    ctx.begin("cuda", 60)
    from doctor.facts.model import Known
    from tests.smoke.recorded_context import with_facts

    with_facts(ctx, "cuda", visible_devices=Known("0", "$CUDA_VISIBLE_DEVICES"))
    result = STAGE.run(ctx)
    assert result.outcome == "pass"
    assert "pairs" not in result.message


@pytest.mark.parametrize(
    ("fault", "id", "words"),
    [
        ("1:context", "smoke.cuda-context-failed", "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        ("1:memory", "smoke.cuda-memory-failed", "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"),
        ("1:copy", "smoke.cuda-copy-wrong", "1 of 33554432 bytes are wrong, the first at 12345"),
        ("1:kernel", "smoke.cuda-kernel-wrong", "the kernel's sum is"),
        ("1:ptx", "smoke.cuda-kernel-failed", "Unsupported .target"),
        ("1:crash", "smoke.cuda-context-crash", "killed by signal 6"),
    ],
)
def test_a_fault_of_one_gpu_leaves_the_others_answers(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, fault: str, id: str, words: str
) -> None:
    ledger = set_fault(monkeypatch, ctx, f"gpus=2 fault={fault}")
    finding = failure(ctx).finding
    assert finding.id == id
    assert finding.message.startswith("GPU 1 (NVIDIA H200, 0000:00:07.0)")
    assert words in finding.message
    assert finding.fix is not None and finding.fix.command
    first = next(iter(ctx.facts.nvml.gpus.value))
    assert any(
        item.fact == f"smoke.cuda.gpu[{first}].kernel" and str(item.value).startswith("ok")
        for item in finding.evidence
    )
    assert all(line == "0 0 0 0" for line in ledger.read_text().splitlines())


def test_a_gpu_that_hangs_is_stopped_and_named(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_fault(monkeypatch, ctx, "gpus=2 fault=0:hang")
    monkeypatch.setattr(cuda, "GPU_S", 2.0)
    finding = failure(ctx).finding
    assert finding.id == "smoke.cuda-context-hang"
    assert "GPU 0" in finding.message and "no answer in time" in finding.message


def test_bytes_that_change_between_gpus_are_caught(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_fault(monkeypatch, ctx, "gpus=2 fault=1:peer")
    finding = failure(ctx).finding
    assert finding.id == "smoke.cuda-peer-wrong"
    assert finding.message.startswith("GPU 0 -> GPU 1: copy between GPUs: 1 of")


def test_a_pair_that_hangs_is_named(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    set_fault(monkeypatch, ctx, "gpus=2 fault=1:peerhang")
    monkeypatch.setattr(cuda, "PEERS_S", 2.5)
    finding = failure(ctx).finding
    assert finding.id == "smoke.cuda-peer-hang"
    assert finding.message.startswith("GPU 0 -> GPU 1")


def test_no_p2p_over_nvlink_is_a_warning(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    set_fault(monkeypatch, ctx, "gpus=2 p2p=0")
    ctx.begin("cuda", 60)
    result = STAGE.run(ctx)
    assert result.outcome == "pass"
    assert "0 of them by P2P" in result.message
    assert [item.id for item in result.warnings] == ["smoke.cuda-peer-off"]


def test_a_gpu_that_cuda_lacks_is_missed(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    set_fault(monkeypatch, ctx, "gpus=1")
    finding = failure(ctx).finding
    assert finding.id == "smoke.cuda-gpu-missing"
    assert "1 of NVML's 2" in finding.message


@pytest.mark.parametrize(
    ("host", "code", "cause"),
    [
        ("h200x2-stub", 34, "cuda.libcuda-stub"),
        ("h200x2-compat", 803, "cuda.libcuda-compat"),
        ("h200x2-uvm", 999, "driver.device-node-missing"),
        ("h200x2-visible", 100, "cuda.visible-devices-empty"),
    ],
)
def test_the_ladder_stops_at_cuda_and_points_at_the_hosts_finding(
    tmp_path: Path,
    libraries: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    code: int,
    cause: str,
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.setenv("CUDA_STANDIN", f"gpus=2 init={code}")
    from doctor.smoke.stages import driver

    climbed = climb([driver.STAGE, STAGE], context(tmp_path, host))
    assert [result.outcome for result in climbed.results] == ["pass", "fail"]
    finding = climbed.results[-1].finding
    assert finding is not None
    assert finding.id == "smoke.cuda-init-failed"
    assert f"({code})" in finding.message and "CUDA_ERROR_" in finding.message
    assert finding.blocked_by == cause
    assert cause in finding.message
    assert finding.fix is not None and finding.fix.command
    assert climbed.left_behind == []


def test_a_library_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    ctx = context(tmp_path)
    finding = failure(ctx).finding
    ctx.resources.release(ctx.user)
    assert finding.id == "smoke.cuda-library"
    assert "not-found" in finding.message


PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_children_run_under_old_and_new_pythons(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, libraries: Path, version: str
) -> None:
    found = sorted(PYENV.glob(f"{version}.*/bin/python3"))
    if not found:
        pytest.skip(f"no Python {version} here")
    set_fault(monkeypatch, ctx, "gpus=2 free=67108864")
    for arguments in (
        ["cuda_probe", "list"],
        ["cuda_probe", "gpu", "0"],
        ["cuda_probe", "peers"],
        ["nccl_probe", str(libraries / "libnccl.so.2"), "1048576"],
    ):
        argv = [str(found[-1]), "-I", "-S", "-B", "-c", child_answer.BOOT]
        argv += [f"doctor.smoke.children.{arguments[0]}", str(child_answer.bundle(ctx))]
        ran = subprocess.run(argv + arguments[1:], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        lines = child_answer.parsed(ran.stdout)
        assert lines and not [line for line in lines if line.get("state") in ("failed", "wrong")]


def test_lines_of_libraries_between_answers_are_passed_over() -> None:
    text = 'CUDA says hello\n{"step": "init", "state": "ok"}\n{broken\n[1]\n{"done": true}\n'
    assert child_answer.parsed(text) == [{"step": "init", "state": "ok"}, {"done": True}]
