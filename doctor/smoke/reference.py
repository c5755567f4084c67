"""The independent reference: transformers on the CPU in float32, computed in the same run while the engine starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from doctor.smoke import engine_log
from doctor.smoke.context import StageFailed
from doctor.smoke.guest import Guest, Running, how_it_ended, script
from doctor.smoke.model import fault
from doctor.smoke.tiny_model import MIN_DISTINCT, TinyModel

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Place

TOP = 5
"""Candidates per position whose log-probabilities are compared; what the completions API gives."""
TIMEOUT_S = 300.0


class ReferenceAnswer(msgspec.Struct, frozen=True):
    """One prompt: tokens, the log-probability of each, of the best candidates, and the lead of the best."""

    ids: list[int]
    logprobs: list[float]
    top: list[dict[str, float]]
    margins: list[float]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine is compared with."""

    answers: list[ReferenceAnswer] = []
    embeddings: list[list[float]] = []
    versions: dict[str, str] = {}
    seconds: dict[str, float] = {}

    @property
    def distinct(self) -> int:
        """Distinct tokens over all answers."""
        return len({token for answer in self.answers for token in answer.ids})

    @property
    def made_by(self) -> str:
        """Which versions computed it."""
        return ", ".join(f"{name} {version}" for name, version in sorted(self.versions.items()))


class Pending(msgspec.Struct, frozen=True):
    """A reference that is being computed."""

    running: Running
    out: Path


def start(ctx: Context, place: Place, model: TinyModel) -> Pending:
    """Begin, with low priority: the engine starts meanwhile."""
    guest = Guest(ctx, place)
    out = ctx.scratch / "reference-out.json"
    spec = {
        "folder": guest.path(model.folder),
        "prompts": [list(prompt) for prompt in model.prompts],
        "tokens": model.tokens,
        "top": TOP,
        "embed": model.embeds,
        "out": guest.path(out),
    }
    running = guest.start_script(script("run_reference"), spec, "reference", nice=5)
    return Pending(running, out)


def result(ctx: Context, pending: Pending) -> Reference:
    """Wait for it. StageFailed when it breaks or is too poor to compare with."""
    rc = ctx.wait(pending.running, TIMEOUT_S)
    if rc != 0:
        text = pending.running.tail()
        pending.running.end()
        raise engine_log.broken(
            ctx,
            "tokens",
            "no-reference",
            "A reference can be computed with transformers on the CPU",
            "the reference did not end in time"
            if rc is None
            else f"the reference broke ({how_it_ended(rc)})",
            text,
            pending.running.log.name,
            want="an interpreter with torch and transformers that can read the smoke model",
        )
    try:
        found = msgspec.json.decode(pending.out.read_bytes(), type=Reference)
    except (OSError, msgspec.DecodeError) as error:
        raise _poor(f"the reference's answer cannot be read: {error}") from None
    if not found.embeddings and found.distinct < MIN_DISTINCT:
        raise _poor(f"the reference has {found.distinct} distinct tokens")
    return found


def _poor(message: str) -> StageFailed:
    return StageFailed(
        fault(
            "tokens",
            "no-reference",
            "A reference can be computed with transformers on the CPU",
            f"{message}: nothing to compare with",
            want=f"at least {MIN_DISTINCT} distinct tokens",
            say="report this with the run folder; the smoke model's seed does not do with these versions",
            command=None,
        )
    )
