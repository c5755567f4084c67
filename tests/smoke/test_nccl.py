"""Rung nccl: the real child against a libnccl that adds in host memory; floors, formulas, logs and reasons."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from doctor.facts.model import Absent, Known
from doctor.smoke.bus_bandwidth import board_of, bytes_of, expected, factor
from doctor.smoke.context import Context, StageFailed
from doctor.smoke.nccl_copy import SONAME, copy_to_load
from doctor.smoke.nccl_log import parse_log
from doctor.smoke.stages import nccl
from doctor.smoke.stages.nccl import STAGE
from tests.smoke.gpu_standin import build
from tests.smoke.recorded_context import context, with_facts


@pytest.fixture(scope="module")
def libraries() -> Iterator[Path]:
    folder = build()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def ctx(tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.setenv("CUDA_STANDIN", "gpus=2 free=67108864")
    made = context(tmp_path)
    environments = [
        msgspec.structs.replace(item, libraries={SONAME: str(libraries / SONAME)})
        for item in made.facts.python_env.environments.value
    ]
    with_facts(made, "python_env", environments=Known(environments, "metadata"))
    made.begin("nccl", 60)
    yield made
    assert made.resources.release(made.user) == []


def failure(ctx: Context) -> StageFailed:
    with pytest.raises(StageFailed) as raised:
        STAGE.run(ctx)
    return raised.value


def test_sums_are_right_and_speed_is_told(ctx: Context) -> None:
    result = STAGE.run(ctx)
    assert result.outcome == "pass", result
    assert result.message.startswith("NCCL 2.28.9 over 2 GPUs: sums right, ")
    assert result.numbers["ranks"] == 2
    assert result.numbers["message_bytes"] == 16 << 20
    assert result.numbers["floor_gb_s"] == pytest.approx(262.4)
    assert (ctx.folder / "nccl-debug.log").exists()
    shown = {item.fact: item.value for item in result.evidence}
    assert shown["smoke.nccl.transports"] == "P2P/direct pointer"


def test_low_bandwidth_warns_with_the_reason(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    with_facts(ctx, "nccl", environment=Known({"NCCL_P2P_DISABLE": "1"}, "$NCCL_*"))
    result = STAGE.run(ctx)
    assert result.outcome == "pass"
    (warning,) = result.warnings
    assert warning.id == "smoke.nccl-slow"
    assert warning.outcome.value == "warn"
    assert "NCCL_P2P_DISABLE=1" in warning.message
    assert "via SHM/direct/direct" in warning.message
    assert warning.fix is not None and warning.fix.command is not None
    assert "unset NCCL_P2P_DISABLE" in warning.fix.command
    assert [item.id for item in warning.sources] == ["measured-h200x2"]


@pytest.mark.parametrize(
    ("fault", "id", "words"),
    [
        ("wrong", "smoke.nccl-wrong-sums", "rank 1 has a wrong sum at number"),
        (
            "init",
            "smoke.nccl-failed",
            "ncclCommInitAll: unhandled system error (2): Call to ibv_modify_qp failed",
        ),
    ],
)
def test_faults_are_named(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, fault: str, id: str, words: str
) -> None:
    monkeypatch.setenv("NCCL_STANDIN", fault)
    finding = failure(ctx).finding
    assert finding.id == id
    assert words in finding.message
    assert finding.fix is not None and finding.fix.command


def test_a_hang_is_stopped(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_STANDIN", "hang")
    monkeypatch.setattr(nccl, "CHILD_S", 3.0)
    finding = failure(ctx).finding
    assert finding.id == "smoke.nccl-hang"
    assert ", sums: no answer in time" in finding.message


def test_one_gpu_adds_and_has_no_bandwidth(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_STANDIN", "gpus=1 free=67108864")
    result = STAGE.run(ctx)
    assert result.outcome == "pass"
    assert result.message == "NCCL 2.28.9 over 1 GPU: sums right; bandwidth needs two GPUs"


def test_a_library_that_does_not_load(ctx: Context, tmp_path: Path) -> None:
    with_facts(ctx, "python_env", environments=Known([], "metadata"))
    loader = ctx.facts.nccl.loader.value
    broken = msgspec.structs.replace(loader, path="/nowhere/libnccl.so.2")
    with_facts(ctx, "nccl", loader=Known(broken, "ld.so.cache"))
    assert failure(ctx).finding.id == "smoke.nccl-library"


def test_without_a_copy_it_does_not_apply(ctx: Context) -> None:
    with_facts(ctx, "python_env", environments=Known([], "metadata"))
    with_facts(ctx, "nccl", loader=Absent("ld.so.cache"))
    assert STAGE.run(ctx).outcome == "skip"


def test_the_copy_is_the_one_the_engine_would_load(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    copy = copy_to_load(ctx)
    assert copy is not None
    assert copy.path.endswith("site-packages/nvidia/nccl/lib/libnccl.so.2")
    assert "torch" in copy.why
    named = context(tmp_path, python=Path("/opt/torch/.venv/bin/python"))
    chosen = copy_to_load(named)
    assert chosen is not None and chosen.path == copy.path
    with_facts(ctx, "python_env", environments=Known([], "metadata"))
    system = copy_to_load(ctx)
    assert system is not None and system.path == "/lib/x86_64-linux-gnu/libnccl.so.2"
    for made in (ctx, named):
        made.resources.release(made.user)


def gpus_named(ctx: Context, name: str, count: int, links: int = 18) -> None:
    one = next(iter(ctx.facts.nvml.gpus.value.values()))
    some = {
        f"GPU-{place}": msgspec.structs.replace(
            one,
            index=place,
            name=Known(name, "nvml"),
            nvlink_up=Known(links, "nvml"),
            nvlink_total=Known(links, "nvml"),
        )
        for place in range(count)
    }
    with_facts(ctx, "nvml", gpus=Known(some, "nvml"))


@pytest.mark.parametrize(
    ("name", "count", "links", "gb_s"),
    [
        ("NVIDIA H200", 2, 18, 0.8 * 328),
        ("NVIDIA H200", 8, 18, 0.8 * 431),
        ("NVIDIA H100 80GB HBM3", 8, 18, 0.8 * 460),
        ("NVIDIA A100-SXM4-80GB", 8, 12, 0.8 * 228),
        ("NVIDIA H200", 4, 18, 48.0),
        ("NVIDIA B200", 8, 18, 48.0),
        ("NVIDIA L40S", 8, 0, None),
    ],
)
def test_floors_by_topology(
    ctx: Context, name: str, count: int, links: int, gb_s: float | None
) -> None:
    gpus_named(ctx, name, count, links)
    want = expected(ctx, count, 1 << 30)
    assert (want.gb_s if want else None) == (pytest.approx(gb_s) if gb_s else None)
    assert want is None or want.rows


def test_an_operators_floor_is_whole_at_its_size(ctx: Context) -> None:
    gpus_named(ctx, "NVIDIA H200", 8)
    want = expected(ctx, 8, bytes_of("16G"))
    assert want is not None and want.gb_s == 431


def test_every_floors_board_has_a_name(ctx: Context) -> None:
    from doctor.matrix.engines import NcclFloor
    from doctor.smoke.bus_bandwidth import BOARDS

    assert {row.gpu for row in ctx.knowledge.matrix.rows(NcclFloor)} == {
        board for _, board in BOARDS
    }
    assert board_of("NVIDIA H200 NVL") is None
    assert board_of("NVIDIA A100 80GB PCIe") == board_of("NVIDIA A100-PCIE-40GB") == "A100 PCIe"


def test_formulas() -> None:
    assert factor("2*(n-1)/n", 8) == pytest.approx(1.75)
    assert factor("1", 8) == 1
    with pytest.raises(ValueError, match="not a formula"):
        factor("__import__('os')", 2)


LOG = """
h:1:1 [0] NCCL INFO cudaDriverVersion 13000
h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
h:1:1 [1] NCCL INFO Channel 01 : 1[bd000] -> 0[a1000] via SHM/direct/direct
h:1:1 [1] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels
h:1:1 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-aBc to 9637892 bytes
h:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0
"""


def test_logs() -> None:
    found = parse_log(LOG)
    assert found.ways == ("P2P/CUMEM/read", "SHM/direct/direct", "NET/IB/0")
    assert found.kinds == {"P2P": 1, "SHM": 1, "NET": 1}
    assert found.nvls
    assert found.warning.startswith("Error: failed to extend /dev/shm/nccl-aBc")
    assert parse_log("").kinds == {}
