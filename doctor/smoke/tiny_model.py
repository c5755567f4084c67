"""A decoder of a few million parameters, written on the spot: seeded weights, its own tokenizer, Hugging Face layout."""

from __future__ import annotations

from pathlib import Path

import msgspec


class TinyModel(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    folder: Path
    model_class: str
    dtype: str
    vocabulary: int
    prompts: tuple[tuple[int, ...], ...]
    """Token ids to complete."""
    tokens: int
    """Tokens to generate per prompt."""
