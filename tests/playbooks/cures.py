"""Which tests cure which findings on which stand-ins: `@pytest.mark.cures(IDS)` says it, and the test's own runs must have verified each.

A mark on a test holds for all of its parameters, a mark on a parameter for that one alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

VERIFIED: set[str] = set()
"""Findings that runs of the test that is at work have verified."""
FAMILIES = {
    "ubuntu2204": "ubuntu",
    "ubuntu2404": "ubuntu",
    "wsl2": "ubuntu",
    "rocky9": "rocky",
    "rocky10": "rocky",
}


def claimed(marks: Iterable[Any]) -> set[str]:
    """What marks say."""
    return {name for mark in marks if mark.name == "cures" for name in mark.args}


def cures(modules: Iterable[ModuleType]) -> dict[str, dict[str, list[str]]]:
    """{finding: {family: [test]}} as the marks of the modules' tests say."""
    found: dict[str, dict[str, list[str]]] = {}
    for module in modules:
        for name, test in inspect.getmembers(module, inspect.isfunction):
            for finding, flavor in _of(getattr(test, "pytestmark", ())):
                tests = found.setdefault(finding, {}).setdefault(FAMILIES[flavor], [])
                tests.append(f"{module.__name__.rpartition('.')[2]}::{name}[{flavor}]")
    return found


def _of(marks: Iterable[Any]) -> Iterator[tuple[str, str]]:
    marks = list(marks)
    everywhere = claimed(marks)
    flavors: dict[str, set[str]] = {}
    for mark in marks:
        if mark.name != "parametrize":
            continue
        for value in mark.args[1]:
            own = claimed(getattr(value, "marks", ()))
            if mark.args[0] == "flavor":
                (flavor,) = getattr(value, "values", (value,))
                flavors[flavor] = own
            else:
                everywhere |= own
    for flavor, own in flavors.items():
        for finding in sorted(everywhere | own):
            yield finding, flavor
