"""What a load showed on this host before: learned with --learn, compared with later. Never a number of another host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from doctor.smoke.load import Measured

Colour = Literal["green", "yellow", "red", "not judged"]
YELLOW_SHARE = 0.9
"""Of the slowest part of the learned run: what the host's own unsteadiness does not explain."""
RED_SHARE = 0.5
"""Of the learned mean."""
LEAK_SHARE = 0.05
"""Growth of the server's memory from the first third of a load to its last, beyond which it is called a leak."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """A learned load. `host` and `what` must be the same for a comparison."""

    host: str
    """GPUs or CPU, and how many."""
    what: str
    """Engine, version, model, dtype and clients."""
    learned: str
    """Day."""
    tokens_per_s: float
    slowest_part: float
    """Tokens per second of the slowest part of the run."""
    first_token_p95_ms: float
    request_p95_ms: float


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Colour, and why."""

    colour: Colour
    reasons: list[str]


def learn(measured: Measured, host: str, what: str, day: str) -> Baseline:
    """The measured load as a baseline."""
    return Baseline(
        host=host,
        what=what,
        learned=day,
        tokens_per_s=measured.tokens_per_s,
        slowest_part=min(measured.windows_tokens_per_s, default=measured.tokens_per_s),
        first_token_p95_ms=measured.first_token_ms.p95,
        request_p95_ms=measured.request_ms.p95,
    )


def judge(measured: Measured, baseline: Baseline | None, growth: float | None) -> Judgement:
    """red: requests failed, or less than half of the baseline; yellow: below it, or memory grows; green: as learned."""
    red: list[str] = []
    yellow: list[str] = []
    if measured.errors:
        red.append(
            f"{len(measured.errors)} of {measured.requests} requests failed: {measured.errors[0]}"
        )
    elif not measured.requests:
        red.append("no request was answered")
    if growth is not None and growth > LEAK_SHARE:
        yellow.append(f"the server's memory grew by {growth:.0%} over the run")
    if baseline is not None and not red:
        _against(measured, baseline, red, yellow)
    if red:
        return Judgement(colour="red", reasons=red + yellow)
    if yellow:
        return Judgement(colour="yellow", reasons=yellow)
    return Judgement(colour="green" if baseline else "not judged", reasons=[])


def _against(measured: Measured, baseline: Baseline, red: list[str], yellow: list[str]) -> None:
    rate, learned = measured.tokens_per_s, baseline.tokens_per_s
    said = f"{rate:.1f} tokens/s, learned {learned:.1f} on {baseline.learned}"
    if rate < learned * RED_SHARE:
        red.append(f"{said}: less than {RED_SHARE:.0%}")
    elif rate < min(baseline.slowest_part, learned) * YELLOW_SHARE:
        yellow.append(f"{said} (slowest part {baseline.slowest_part:.1f})")
    late, before = measured.first_token_ms.p95, baseline.first_token_p95_ms
    if before and late > before / RED_SHARE:
        yellow.append(f"P95 to the first token {late:.0f} ms, learned {before:.0f} ms")


def file_of(folder: Path, what: str) -> Path:
    """Where the baseline of a load is."""
    return folder / (re.sub(r"[^A-Za-z0-9.+_-]+", "-", what) + ".json")


def load(folder: Path, host: str, what: str) -> Baseline | None:
    """The baseline learned for this load on this host; None when there is none, or it is of another host."""
    try:
        found = msgspec.json.decode(file_of(folder, what).read_bytes(), type=Baseline)
    except (OSError, msgspec.DecodeError):
        return None
    return found if (found.host, found.what) == (host, what) else None


def save(folder: Path, baseline: Baseline) -> Path:
    """Keep it, by an atomic rename."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = file_of(folder, baseline.what)
    part = target.with_name(target.name + ".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(baseline), indent=2) + b"\n")
    part.replace(target)
    return target
