"""Rung driver: recorded hosts with and without GPUs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doctor.facts.model import Absent, Known, Unknown
from doctor.smoke.context import Context, StageFailed, StageUnseen
from doctor.smoke.pipeline import climb
from doctor.smoke.stages.driver import STAGE
from tests.smoke.recorded_context import context, with_facts


def test_two_gpus_are_named_and_counted(tmp_path: Path) -> None:
    result = STAGE.run(context(tmp_path))
    assert result.outcome == "pass"
    assert result.message == "driver 580.159.04 opens 2x NVIDIA H200, as many as on the bus (2)"
    assert len(result.evidence) == 2


def failure(ctx: Context) -> StageFailed:
    with pytest.raises(StageFailed) as raised:
        STAGE.run(ctx)
    return raised.value


def test_a_host_without_a_gpu_stops_here_and_says_so(tmp_path: Path) -> None:
    finding = failure(context(tmp_path, "no-gpu")).finding
    assert finding.id == "smoke.driver-no-gpu"
    assert finding.blocked_by == "gpu.not-on-bus"
    assert "no GPU" in finding.message
    assert finding.fix is not None and finding.fix.command
    climbed = climb([STAGE], context(tmp_path, "no-gpu"))
    assert climbed.results[-1].outcome == "fail"
    assert climbed.left_behind == []


def test_an_nvml_error_is_named(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    with_facts(ctx, "nvml", init=Known("NVML_ERROR_LIB_RM_VERSION_MISMATCH", via="nvmlInit"))
    finding = failure(ctx).finding
    assert finding.id == "smoke.driver-nvml-failed"
    assert "NVML_ERROR_LIB_RM_VERSION_MISMATCH" in finding.message


def test_a_missing_library_is_a_failure(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    with_facts(ctx, "nvml", init=Absent(via="libnvidia-ml.so.1"))
    assert failure(ctx).finding.id == "smoke.driver-nvml-failed"


def test_what_was_not_seen_is_no_verdict(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    with_facts(ctx, "nvml", init=Unknown("no answer in time", "nvmlInit"))
    with pytest.raises(StageUnseen, match="no answer in time"):
        STAGE.run(ctx)
    ctx = context(tmp_path)
    with_facts(ctx, "nvml", gpus=Unknown("no answer in time", "nvml"))
    with pytest.raises(StageUnseen):
        STAGE.run(ctx)


def test_a_gpu_that_fell_off_is_missed_by_address(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    gpus = dict(ctx.facts.nvml.gpus.value)
    gpus.popitem()
    with_facts(ctx, "nvml", gpus=Known(gpus, "nvml"))
    finding = failure(ctx).finding
    assert finding.id == "smoke.driver-gpu-missing"
    assert "1 of 2" in finding.message and "0000:00:07.0" in finding.message


def test_in_a_container_fewer_gpus_than_on_the_bus_are_fine(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    gpus = dict(ctx.facts.nvml.gpus.value)
    gpus.popitem()
    with_facts(ctx, "nvml", gpus=Known(gpus, "nvml"))
    with_facts(ctx, "host", container=Known("docker", "/.dockerenv"))
    assert STAGE.run(ctx).outcome == "pass"


def test_a_gpu_that_does_not_open_is_named(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    gpus = dict(ctx.facts.nvml.gpus.value)
    uuid = next(iter(gpus))
    gpus[uuid] = msgspec.structs.replace(gpus[uuid], opened=Known("NVML_ERROR_GPU_IS_LOST", "nvml"))
    with_facts(ctx, "nvml", gpus=Known(gpus, "nvml"))
    finding = failure(ctx).finding
    assert finding.id == "smoke.driver-gpu-not-opened"
    assert uuid in finding.message and "NVML_ERROR_GPU_IS_LOST" in finding.message
