"""The shipped matrix, loaded once: which CUDA a driver has and which flavour a board needs are the same facts here as in the rules."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix


@cache
def matrix() -> Matrix:
    """The tables without any site overlay."""
    from doctor.matrix.load import load

    return load()
