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
    found: dict[str, Any] = {"persistence_modules": [] if _whole(facts) else ["nvidia_uvm"]}
    if not isinstance(facts.fabric.persistenced, Absent):
        return found
    try:
        chosen = choose(facts, target, matrix)
    except UndecidedError:
        return found
    packages = _packages(chosen.origin, chosen.branch, _manager(facts))
    return {**found, "persistence_packages": packages, "persistence_version": chosen.version}


def _whole(facts: Facts) -> bool:
    """Whether what lies under /dev are devices, and nvidia-uvm's leads to the module that is loaded."""
    nodes, major = facts.driver.nodes, facts.driver.uvm_major
    if not isinstance(nodes, Known) or any(node.type != "char" for node in nodes.value.values()):
        return False
    uvm = nodes.value.get("/dev/nvidia-uvm")
    if uvm is None:
        return False
    same = uvm.rdev is not None and isinstance(major, Known)
    return not same or str(uvm.rdev).partition(":")[0] == str(major.value)


def _manager(facts: Facts) -> str:
    return facts.packages.manager.value if isinstance(facts.packages.manager, Known) else ""


def _packages(origin: str, branch: str, manager: str) -> list[str]:
    if manager == "apt" and origin == "distribution":
        return [f"nvidia-compute-utils-{branch}-server"]
    return ["nvidia-persistenced"]
