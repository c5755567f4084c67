"""Engine against reference: tokens and log-probabilities at every position, within the tolerance of the dtype. Pure but for `ask`.

Where two candidates are nearer than the tolerance either may come; the comparison then goes on from the reference's token,
so that one tie costs one position and not the rest of the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from doctor.smoke.engines.base import TokenAnswer, Tolerance
from doctor.smoke.reference import ReferenceAnswer

Ask = Callable[[tuple[int, ...], int], TokenAnswer]
"""Prompt and number of tokens -> the engine's greedy answer."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One position at which the engine is not where it should be."""

    prompt: int
    position: int
    engine: str
    reference: str


class Comparison(msgspec.Struct, kw_only=True):
    """How near the engine came. In nats."""

    positions: int = 0
    compared: int = 0
    """Log-probabilities."""
    worst: float = 0.0
    total: float = 0.0
    ties: int = 0
    wrong: list[Difference] = []
    """Tokens that no tie explains."""
    far: list[Difference] = []
    """Log-probabilities beyond the tolerance."""
    missing: int = 0
    """Positions without a usable log-probability."""

    @property
    def mean(self) -> float:
        """Mean difference."""
        return self.total / self.compared if self.compared else math.inf

    def verdict(self, tolerance: Tolerance) -> str | None:
        """Why it does not match; None when it does."""
        if self.wrong:
            first = self.wrong[0]
            return (
                f"{len(self.wrong)} of {self.positions} tokens differ, the first in prompt {first.prompt + 1}"
                f" at token {first.position + 1}: {first.engine}, reference {first.reference}"
            )
        if self.missing:
            return f"{self.missing} of {self.positions} positions have no log-probability"
        if self.far:
            first = self.far[0]
            return (
                f"{len(self.far)} of {self.compared} log-probabilities are beyond {tolerance.each:g} nats, the first in"
                f" prompt {first.prompt + 1} at token {first.position + 1}: {first.engine}, reference {first.reference}"
            )
        if not self.compared or self.mean > tolerance.mean:
            return (
                f"{self.compared} log-probabilities differ by {self.mean:.2g} nats on average,"
                f" more than {tolerance.mean:g}"
            )
        return None


def compare(
    prompts: Sequence[tuple[int, ...]],
    reference: Sequence[ReferenceAnswer],
    ask: Ask,
    tolerance: Tolerance,
) -> Comparison:
    """Every position of every prompt. An answer that ends early leaves missing positions."""
    found = Comparison()
    for number, (prompt, wanted) in enumerate(zip(prompts, reference, strict=True)):
        done = 0
        while done < len(wanted.ids):
            prefix = (*prompt, *wanted.ids[:done])
            answer = ask(prefix, len(wanted.ids) - done)
            if not answer.ids:
                found.missing += len(wanted.ids) - done
                found.positions += len(wanted.ids) - done
                break
            done = _one_answer(found, number, wanted, answer, done, tolerance)
    return found


def _one_answer(
    found: Comparison,
    number: int,
    wanted: ReferenceAnswer,
    answer: TokenAnswer,
    start: int,
    tolerance: Tolerance,
) -> int:
    """Compare one answer up to the first token that differs; the position to go on from."""
    for offset, token in enumerate(answer.ids):
        position = start + offset
        if position >= len(wanted.ids):
            break
        found.positions += 1
        _logprobs(found, number, position, wanted, answer, offset, tolerance)
        if token != wanted.ids[position]:
            lead = wanted.logprobs[position] - _score(wanted, position, token)
            if lead <= tolerance.tie:
                found.ties += 1
            else:
                found.wrong.append(
                    Difference(
                        prompt=number,
                        position=position,
                        engine=f"token {token}",
                        reference=f"token {wanted.ids[position]} by {lead:.2f} nats",
                    )
                )
            return position + 1
    return start + len(answer.ids)


def _score(wanted: ReferenceAnswer, position: int, token: int) -> float:
    """The reference's log-probability of a token; one outside its best candidates is at most the last of them."""
    top = wanted.top[position]
    return top.get(str(token), min(top.values()))


def _logprobs(
    found: Comparison,
    number: int,
    position: int,
    wanted: ReferenceAnswer,
    answer: TokenAnswer,
    offset: int,
    tolerance: Tolerance,
) -> None:
    scores = dict(answer.top[offset]) if offset < len(answer.top) else {}
    if offset < len(answer.logprobs):
        scores.setdefault(answer.ids[offset], answer.logprobs[offset])
    shared = {token: value for token, value in scores.items() if str(token) in wanted.top[position]}
    if not shared:
        found.missing += 1
    for token, value in shared.items():
        expected = wanted.top[position][str(token)]
        distance = abs(value - expected) if math.isfinite(value) else math.inf
        found.compared += 1
        found.total += distance
        found.worst = max(found.worst, distance)
        if distance > tolerance.each:
            found.far.append(
                Difference(
                    prompt=number,
                    position=position,
                    engine=f"{value:.3f} for token {token}",
                    reference=f"{expected:.3f}",
                )
            )


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """How alike two vectors are; 0 where one has no length or they differ in size."""
    if len(left) != len(right):
        return 0.0
    size = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return sum(a * b for a, b in zip(left, right, strict=True)) / size if size else 0.0
