"""Engine against reference: what is equal, what is a tie, what is wrong; measured on recorded answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from doctor.smoke.compare import compare, cosine
from doctor.smoke.engines.base import TokenAnswer
from doctor.smoke.engines.vllm import TOLERANCES
from doctor.smoke.reference import Reference, ReferenceAnswer
from doctor.smoke.tiny_model import MIN_DISTINCT

ANSWERS = Path(__file__).parent / "answers"
SHAPES = ("llama", "qwen3")
CAUGHT = {
    "float32": ("lost-weight", "bit-flip", "rope-base", "swapped-layers"),
    # one lost weight of millions is below the rounding of bfloat16: nobody can see it there
    "bfloat16": ("bit-flip", "rope-base", "swapped-layers"),
}


def recorded(shape: str) -> tuple[list[tuple[int, ...]], list[ReferenceAnswer], dict[str, Any]]:
    found = json.loads((ANSWERS / f"{shape}.json").read_text())
    answers = [
        ReferenceAnswer(item["ids"], item["logprobs"], item["top"], item["margins"])
        for item in found["reference"]["answers"]
    ]
    return [tuple(prompt) for prompt in found["said"]["prompts"]], answers, found["along"]


def engine(prompts: list[tuple[int, ...]], along: list[list[dict[str, float]]]) -> Any:
    def ask(prefix: tuple[int, ...], tokens: int) -> TokenAnswer:
        for prompt, rows in zip(prompts, along, strict=True):
            if prefix[: len(prompt)] == prompt:
                top = [
                    {int(key): value for key, value in row.items()}
                    for row in rows[len(prefix) - len(prompt) :][:tokens]
                ]
                ids = tuple(max(row, key=row.__getitem__) for row in top)
                scores = tuple(row[token] for row, token in zip(top, ids, strict=True))
                return TokenAnswer(ids=ids, logprobs=scores, top=tuple(top))
        raise AssertionError(prefix)

    return ask


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_whole_model_is_well_within_the_tolerance_of_its_dtype(shape: str, dtype: str) -> None:
    prompts, answers, along = recorded(shape)
    rows = along["whole" if dtype == "float32" else "whole-bfloat16"]
    tolerance = TOLERANCES[dtype]
    found = compare(prompts, answers, engine(prompts, rows), tolerance)
    assert found.verdict(tolerance) is None
    assert found.positions == 64
    assert found.worst < tolerance.each / 2
    assert found.mean < tolerance.mean / 2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("dtype", "damage"), [(dtype, item) for dtype, items in CAUGHT.items() for item in items]
)
def test_damage_is_beyond_the_tolerance(shape: str, dtype: str, damage: str) -> None:
    prompts, answers, along = recorded(shape)
    rows = along[damage if dtype == "float32" else f"{damage}-bfloat16"]
    tolerance = TOLERANCES[dtype]
    assert compare(prompts, answers, engine(prompts, rows), tolerance).verdict(tolerance)


@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_tokens_alone_would_miss_what_log_probabilities_show(shape: str) -> None:
    prompts, answers, along = recorded(shape)
    found = compare(prompts, answers, engine(prompts, along["lost-weight"]), TOLERANCES["float32"])
    assert len(found.wrong) <= 1
    assert len(found.far) > 50


@pytest.mark.parametrize("shape", SHAPES)
def test_the_reference_is_rich_enough_to_compare_with(shape: str) -> None:
    _, answers, _ = recorded(shape)
    assert Reference(answers=answers).distinct >= 5 * MIN_DISTINCT
    assert all(len(set(answer.ids)) >= MIN_DISTINCT for answer in answers)


def reference(*margins: float) -> list[ReferenceAnswer]:
    """Tokens 10, 11, ... each ahead of token 99 by a margin."""
    top = [{str(10 + n): -0.5, "99": -0.5 - margin} for n, margin in enumerate(margins)]
    ids = [10 + n for n in range(len(margins))]
    return [ReferenceAnswer(ids, [-0.5] * len(ids), top, list(margins))]


def test_a_tie_may_go_either_way_and_the_comparison_goes_on_from_the_reference() -> None:
    asked: list[tuple[int, ...]] = []

    def ask(prefix: tuple[int, ...], tokens: int) -> TokenAnswer:
        asked.append(prefix)
        start = len(prefix) - 1
        ids = [10 + n for n in range(start, 3)]
        top = [{10 + n: -0.5, 99: -0.5 - (0.1 if n == 1 else 3.0)} for n in range(start, 3)]
        if start <= 1:
            ids[1 - start] = 99
        scores = tuple(row[token] for row, token in zip(top, ids, strict=True))
        return TokenAnswer(ids=tuple(ids), logprobs=scores, top=tuple(top))

    tolerance = TOLERANCES["bfloat16"]
    found = compare([(1,)], reference(3.0, 0.1, 3.0), ask, tolerance)
    assert found.verdict(tolerance) is None
    assert (found.ties, found.positions) == (1, 3)
    assert asked == [(1,), (1, 10, 11)]


@pytest.mark.parametrize("scores", [(math.nan,), ()])
def test_an_answer_without_numbers_never_matches(scores: tuple[float, ...]) -> None:
    tolerance = TOLERANCES["bfloat16"]
    answer = TokenAnswer(ids=(10,), logprobs=scores)
    assert compare([(1,)], reference(3.0), lambda p, n: answer, tolerance).verdict(tolerance)


def test_an_empty_answer_never_matches() -> None:
    tolerance = TOLERANCES["bfloat16"]
    answer = TokenAnswer(ids=(), logprobs=())
    assert compare([(1,)], reference(3.0), lambda p, n: answer, tolerance).verdict(tolerance)


def test_cosine() -> None:
    assert cosine([1.0, 0.0], [2.0, 0.0]) == pytest.approx(1.0)
    assert cosine([1.0], [1.0, 2.0]) == 0.0
    assert cosine([0.0], [1.0]) == 0.0
