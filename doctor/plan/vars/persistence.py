"""Modules to load beside nvidia, and the packages of nvidia-persistenced where it is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Absent, Known
from doctor.plan.driver_choice import choose
from doctor.plan.role_vars import UndecidedError

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    nodes = facts.driver.nodes
    uvm = isinstance(nodes, Known) and "/dev/nvidia-uvm" in nodes.value
    found: dict[str, Any] = {"persistence_modules": [] if uvm else ["nvidia_uvm"]}
    if not isinstance(facts.fabric.persistenced, Absent):
        return found
    try:
        chosen = choose(facts, target, matrix)
    except UndecidedError:
        return found
    packages = _packages(chosen.origin, chosen.branch, _manager(facts))
    return {**found, "persistence_packages": packages, "persistence_version": chosen.version}


def _manager(facts: Facts) -> str:
    return facts.packages.manager.value if isinstance(facts.packages.manager, Known) else ""


def _packages(origin: str, branch: str, manager: str) -> list[str]:
    if manager == "apt" and origin == "distribution":
        return [f"nvidia-compute-utils-{branch}-server"]
    return ["nvidia-persistenced"]
