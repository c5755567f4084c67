"""Runs on real H200 hosts (vLLM 0.24.0, bf16), kept as they came, replay with no GPU."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from doctor.events import AnyEvent
from doctor.report.smoke_text import render
from doctor.report.text import Look
from doctor.smoke.model import SmokeReport, StageResult

HERE = Path(__file__).parent / "recorded"
LADDER = ["driver", "cuda", "nccl", "container", "engine-build", "serve", "tokens", "load"]
ONE, TWO = "h200-vllm-0.24.0", "h200x2-vllm-0.24.0"
BOTH = pytest.mark.parametrize("name", [ONE, TWO])


def report_of(name: str) -> SmokeReport:
    return msgspec.json.decode((HERE / name / "report.json").read_bytes(), type=SmokeReport)


def stage(report: SmokeReport, name: str) -> StageResult:
    return next(item for item in report.stages if item.name == name)


@BOTH
def test_the_report_replays(name: str) -> None:
    report = report_of(name)
    outcomes = {item.name: item.outcome for item in report.stages}
    assert list(outcomes) == LADDER
    assert [name for name, outcome in outcomes.items() if outcome != "pass"] == ["container"]
    text = render(report, Look())
    for part in ("SMOKE PASSED", "64 tokens as the reference's", "sums right", "first token P50"):
        assert part in text
    assert not report.left_behind


@BOTH
def test_the_events_replay_in_order(name: str) -> None:
    lines = (HERE / name / "events.jsonl").read_bytes().splitlines()
    events = [msgspec.json.decode(line, type=AnyEvent) for line in lines]
    finished = [event.stage for event in events if type(event).__name__ == "SmokeStageFinished"]
    assert finished == LADDER
    assert [event.seq for event in events] == sorted(event.seq for event in events)


@BOTH
def test_log_probabilities_were_compared_within_the_stated_tolerance(name: str) -> None:
    message = stage(report_of(name), "tokens").message
    assert "319 log-probabilities within 0.17 nats" in message


def test_two_gpus_were_as_fast_as_their_links_and_gave_all_memory_back() -> None:
    report = report_of(TWO)
    numbers = stage(report, "nccl").numbers
    assert numbers["ranks"] == 2
    assert numbers["busbw_gb_s"] >= numbers["floor_gb_s"]
    assert stage(report, "cuda").numbers["peer_pairs_p2p"] == 2
    values = {item.fact: item.value for item in report.cleaned}
    assert len(values) == 4
    assert len(set(values.values())) == 1
    line = "GPU memory in use, before and after: 615 -> 615 MiB, 615 -> 615 MiB"
    assert line in render(report, Look())
