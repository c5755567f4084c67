"""The closed set of operators that YAML rules may use. No expression language: a typo is a load error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doctor.facts import versions

Compare = Callable[[Any, Any], bool]

COMPARE: dict[str, Compare] = {
    "eq": lambda have, want: have == want,
    "ne": lambda have, want: have != want,
    "ge": lambda have, want: have >= want,
    "gt": lambda have, want: have > want,
    "le": lambda have, want: have <= want,
    "lt": lambda have, want: have < want,
    "one_of": lambda have, want: have in want,
    "none_of": lambda have, want: have not in want,
    "contains": lambda have, want: want in have,
    "lacks": lambda have, want: want not in have,
}
"""Operator name -> (observed, wanted) -> whether the claim holds."""

STATES = ("present", "absent")
"""Operators over a fact's state: no value is compared."""

TYPES: dict[str, Callable[[str], Any]] = {
    "driver": versions.DriverVersion.parse,
    "cuda": versions.CudaVersion.parse,
    "kernel": versions.KernelRelease.parse,
    "deb": versions.DebVersion.parse,
    "rpm": versions.RpmVersion.parse,
    "pep440": versions.Pep440Version.parse,
    "glibc": versions.GlibcVersion.parse,
    "text": str,
    "number": int,
}
"""What `as:` may say: how both sides are read before they are compared."""


def parse(kind: str | None, value: Any) -> Any:
    """A value as the named type; lists element by element; ValueError when it is none."""
    if kind is None:
        return value
    if isinstance(value, list):
        return [parse(kind, item) for item in value]
    return TYPES[kind](value)
