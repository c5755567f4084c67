"""Load: numbers from requests, judged against what this host showed before and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doctor.smoke import baseline
from doctor.smoke.load import Measured, Request, percentiles, summary
from doctor.smoke.watch import gpu_use, growth
from tests.smoke.running import assert_nothing_left, fake_python, smoke


def measured(rate: float, *, errors: int = 0, first_ms: float = 10.0) -> Measured:
    requests = [
        Request(at=(n + 1) * 0.1, first_s=first_ms / 1000, all_s=0.1, tokens=int(rate / 10))
        for n in range(100)
    ]
    requests += [Request(at=1.0, error="status 500")] * errors
    return summary(requests, 4, 10.0)


def test_numbers_of_a_load() -> None:
    found = measured(100)
    assert (found.requests, found.tokens_per_s) == (100, 100.0)
    assert found.first_token_ms == percentiles([10.0])
    assert found.windows_tokens_per_s == pytest.approx([100.0] * 5, rel=0.01)


def test_percentiles_are_by_nearest_rank() -> None:
    found = percentiles([float(n) for n in range(1, 101)])
    assert (found.p50, found.p95, found.p99) == (50.0, 95.0, 99.0)
    assert percentiles([]).p99 == 0.0


LEARNED = baseline.learn(measured(100), "one GPU", "vllm", "2026-11-30")


@pytest.mark.parametrize(
    ("now", "grown", "colour"),
    [
        (measured(100), None, "green"),
        (measured(80), None, "yellow"),
        (measured(40), None, "red"),
        (measured(100, first_ms=50), None, "yellow"),
        (measured(100, errors=1), None, "red"),
        (measured(100), 0.2, "yellow"),
    ],
)
def test_judged_by_the_baseline(now: Measured, grown: float | None, colour: str) -> None:
    assert baseline.judge(now, LEARNED, grown).colour == colour


def test_without_a_baseline_speed_is_not_judged_and_errors_are() -> None:
    assert baseline.judge(measured(1), None, None).colour == "not judged"
    assert baseline.judge(measured(1, errors=2), None, None).colour == "red"


def test_a_baseline_of_another_host_is_none(tmp_path: Path) -> None:
    baseline.save(tmp_path, LEARNED)
    assert baseline.load(tmp_path, "one GPU", "vllm") == LEARNED
    assert baseline.load(tmp_path, "two GPUs", "vllm") is None
    assert baseline.load(tmp_path, "one GPU", "vllm/../x") is None
    baseline.file_of(tmp_path, "vllm").write_text("not JSON")
    assert baseline.load(tmp_path, "one GPU", "vllm") is None


def test_growth_leaves_out_the_warm_up() -> None:
    assert growth([1.0] * 3 + [10.0] * 30) == pytest.approx(0.0)
    assert growth([float(n) for n in range(10, 40)]) == pytest.approx(1.0, abs=0.2)
    assert growth([1.0, 2.0]) is None


def test_gpu_samples() -> None:
    lines = [
        {"gpu": 1, "memory_used": 40 + n, "memory_total": 100, "sm_percent": 90} for n in range(10)
    ] + [{"gpu": 0}, {"error": "nvmlInit: 9"}]
    (found,) = gpu_use(lines)
    assert (found.index, found.memory_share, found.sm_percent_max) == (1, 0.49, 90)


def test_a_run_learns_and_the_next_is_judged_by_it(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "env", token_s=0.002)
    first = smoke(tmp_path, python, level="load", learn=True)
    assert "kept as this host's baseline" in first.stages[-1].message
    (file,) = (tmp_path / "baselines").iterdir()
    known = msgspec.json.decode(file.read_bytes(), type=baseline.Baseline)
    faster = msgspec.structs.replace(
        known, tokens_per_s=known.tokens_per_s * 1000, slowest_part=known.slowest_part * 1000
    )
    baseline.save(file.parent, faster)
    second = smoke(tmp_path, python, level="load")
    assert (second.verdict, second.exit_code) == ("failed", 6)
    assert second.stages[-1].finding is not None
    assert second.stages[-1].finding.id == "smoke.load-too-slow"
    assert "learned" in second.stages[-1].message
    assert_nothing_left(python)
