"""The links by which a reload of systemd leaves GPUs to running containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    return {"cgroup_links": True}
