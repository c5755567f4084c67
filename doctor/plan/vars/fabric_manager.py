"""Fabric manager in exactly the driver's version, and what NVLink 5 switches need beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from doctor.checks.areas.fabric_state import NOT_READY, by_subnet_manager
from doctor.facts.model import Known, known_or
from doctor.facts.versions import ComputeCapability
from doctor.plan.driver_choice import choose
from doctor.plan.host_state import read_host

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.matrix.model import Statement
    from doctor.plan.model import Target

PLAIN_SINCE = 580
"""Branch from which NVIDIA's repositories have nvidia-fabricmanager without the branch in its name."""


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    chosen = choose(facts, target, matrix)
    dnf = isinstance(facts.packages.manager, Known) and facts.packages.manager.value == "dnf"
    plain = chosen.origin == "nvidia" and (dnf or int(chosen.branch) >= PLAIN_SINCE)
    name = "nvidia-fabricmanager" if plain else f"nvidia-fabricmanager-{chosen.branch}"
    found: dict[str, Any] = {
        "fabric_manager_version": chosen.version,
        "fabric_manager_packages": [name],
    }
    if _waits_beside_a_manager(facts):
        found["fabric_manager_restart"] = True
    row = matrix.statement("gpu_rules", "gpu.nvlink5-subnet-manager")
    if row is not None and _fifth_generation(facts, matrix, row):
        found["fabric_manager_modules"] = list(row.names)
        found["fabric_manager_subnet_packages"] = [
            *_bringing(facts, row.names, dnf),
            row.values["package"],
        ]
    return found


def _waits_beside_a_manager(facts: Facts) -> bool:
    """Whether CUDA waits for the fabric although its manager runs."""
    look, unit = known_or(facts.cuda.scope, None), known_or(facts.fabric.manager, None)
    return (
        look is not None and look.code == NOT_READY and unit is not None and unit.active == "active"
    )


def _fifth_generation(facts: Facts, matrix: Matrix, row: Statement) -> bool:
    """Whether GPUs of such switches are here, by what they are: before there is a driver nothing else says so."""
    state = read_host(facts, matrix)
    least = ComputeCapability(row.minimum or "")
    of_kind = any(gpu.capability is not None and gpu.capability >= least for gpu in state.gpus)
    return of_kind and (state.nvswitches > 0 or by_subnet_manager(facts, row))


def _bringing(facts: Facts, modules: Sequence[str], dnf: bool) -> list[str]:
    """The package of the running kernel that brings modules which are not loaded."""
    loaded, running = facts.network.rdma_modules, facts.kernel.running
    if not isinstance(loaded, Known) or not isinstance(running, Known):
        return []
    if set(modules) <= set(loaded.value):
        return []
    return [f"{'kernel' if dnf else 'linux'}-modules-extra-{running.value}"]
