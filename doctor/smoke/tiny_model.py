"""A decoder of a few million parameters, written on the spot: seeded weights, its own tokenizer, Hugging Face layout.

The writing runs under the engine's interpreter, which has numpy; ours needs none. Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from doctor.smoke.guest import Guest, how_it_ended, script

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Place

TOKENS = 16
"""Generated per prompt; four prompts make 64 positions."""
MIN_DISTINCT = 8
"""Distinct tokens that the reference must have: an engine that repeats one token is then seen."""
WRITE_TIMEOUT_S = 120.0


class ModelClass(msgspec.Struct, frozen=True, kw_only=True):
    """A shape of the smoke model."""

    architecture: str
    """As config.json names it."""
    seed: int
    """Chosen so that the reference has many distinct tokens with clear margins."""
    embeds: bool = False
    """Whether it is served for embeddings instead of completions."""


MODEL_CLASSES: dict[str, ModelClass] = {
    "llama": ModelClass(architecture="LlamaForCausalLM", seed=2),
    "qwen3": ModelClass(architecture="Qwen3ForCausalLM", seed=3),
    "llama-embedding": ModelClass(architecture="LlamaForCausalLM", seed=2, embeds=True),
}
"""Values of --model-class. llama is known to every engine of every version."""


class TinyModel(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    folder: Path
    model_class: str
    dtype: str
    vocabulary: int
    parameters: int
    prompts: tuple[tuple[int, ...], ...]
    """Token ids to complete."""
    tokens: int = TOKENS
    """Tokens to generate per prompt."""
    versions: dict[str, str] = {}
    """Package -> version of the interpreter that wrote it."""

    @property
    def embeds(self) -> bool:
        """Whether it is served for embeddings."""
        return MODEL_CLASSES[self.model_class].embeds


def write(ctx: Context, place: Place, dtype: str) -> TinyModel:
    """Write it into the scratch folder under the engine's interpreter. StageFailed with the log when that breaks."""
    kind = MODEL_CLASSES[ctx.options.model_class]
    folder = ctx.scratch / "model"
    guest = Guest(ctx, place)
    spec = {
        "folder": guest.path(folder),
        "architecture": kind.architecture,
        "dtype": dtype,
        "seed": kind.seed,
    }
    child = guest.start_script(script("write_tiny_model"), spec, "write-model")
    rc = ctx.wait(child, WRITE_TIMEOUT_S)
    said = _answer(child.tail())
    if rc != 0 or said is None:
        child.end()
        from doctor.smoke import engine_log

        raise engine_log.broken(
            ctx,
            "engine-build",
            "model-not-written",
            "The smoke model can be written under the engine's interpreter",
            f"{place.where} could not write the smoke model"
            f" ({'no end in time' if rc is None else how_it_ended(rc)})",
            child.tail(),
            child.log.name,
            want="an interpreter that starts and has numpy",
        )
    return TinyModel(
        folder=folder,
        model_class=ctx.options.model_class,
        dtype=dtype,
        vocabulary=said.vocabulary,
        parameters=said.parameters,
        prompts=tuple(tuple(prompt) for prompt in said.prompts),
        versions=said.versions,
    )


class _Said(msgspec.Struct, frozen=True):
    parameters: int
    vocabulary: int
    prompts: list[list[int]]
    versions: dict[str, str]


def _answer(text: str) -> _Said | None:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return msgspec.json.decode(line, type=_Said)
            except (msgspec.DecodeError, msgspec.ValidationError):
                return None
    return None
