"""A run on a real H200 host (vLLM 0.24.0, bf16, one GPU), kept as it came, replays with no GPU."""

from __future__ import annotations

from pathlib import Path

import msgspec

from doctor.events import AnyEvent
from doctor.report.smoke_text import render
from doctor.report.text import Look
from doctor.smoke.model import SmokeReport

HERE = Path(__file__).parent / "recorded" / "h200-vllm-0.24.0"
LADDER = ["driver", "cuda", "nccl", "container", "engine-build", "serve", "tokens", "load"]


def test_the_report_replays() -> None:
    report = msgspec.json.decode((HERE / "report.json").read_bytes(), type=SmokeReport)
    outcomes = {stage.name: stage.outcome for stage in report.stages}
    assert list(outcomes) == LADDER
    assert [name for name, outcome in outcomes.items() if outcome != "pass"] == ["container"]
    text = render(report, Look())
    for part in ("SMOKE PASSED", "64 tokens as the reference's", "sums right", "first token P50"):
        assert part in text
    assert not report.left_behind


def test_the_events_replay_in_order() -> None:
    lines = (HERE / "events.jsonl").read_bytes().splitlines()
    events = [msgspec.json.decode(line, type=AnyEvent) for line in lines]
    finished = [event.stage for event in events if type(event).__name__ == "SmokeStageFinished"]
    assert finished == LADDER
    assert [event.seq for event in events] == sorted(event.seq for event in events)


def test_log_probabilities_were_compared_within_the_stated_tolerance() -> None:
    report = msgspec.json.decode((HERE / "report.json").read_bytes(), type=SmokeReport)
    tokens = next(stage for stage in report.stages if stage.name == "tokens")
    assert "319 log-probabilities within 0.17 nats" in tokens.message
