"""What each role is told: versions, package names and the like, from the facts, the target and the matrix; never a role's default.

`doctor/plan/vars/<role>.py` holds `values(facts, target, matrix) -> dict`: a file for each role that has variables, found by
name. Asking a fact that was not seen raises FactUnknown, and then the role is not planned.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from doctor.facts.model import FactUnknown

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


class UndecidedError(Exception):
    """A role cannot be told what it needs; the reason is for people."""


class ByHandError(UndecidedError):
    """Decided, and a person's: what would be changed is somebody's own, or was not wanted."""


def values(
    role: str,
    required: list[str],
    facts: Facts,
    target: Mapping[str, Target],
    matrix: Matrix,
) -> dict[str, Any]:
    """The variables of a role. UndecidedError when one that it requires cannot be told."""
    found: dict[str, Any] = {}
    if find_spec(f"doctor.plan.vars.{role}") is not None:
        module = importlib.import_module(f"doctor.plan.vars.{role}")
        try:
            found = module.values(facts, target, matrix)
        except FactUnknown as missing:
            raise UndecidedError(f"not seen: {missing}") from None
    missing_names = [name for name in required if found.get(name) is None]
    if missing_names:
        raise UndecidedError(f"nothing says what {', '.join(missing_names)} should be")
    return found
