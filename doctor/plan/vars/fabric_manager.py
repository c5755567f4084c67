"""Fabric manager in exactly the driver's version, and what NVLink 5 switches need beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known
from doctor.plan.driver_choice import choose

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
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
    if _fifth_generation(facts):
        found["fabric_manager_modules"] = ["ib_umad", "mlx5_ib"]
        found["fabric_manager_subnet_packages"] = ["nvlsm"]
    return found


def _fifth_generation(facts: Facts) -> bool:
    """Switches of NVLink 5 are reached by InfiniBand devices: GPUs of compute capability 10 beside such a device."""
    gpus = facts.nvml.gpus
    blackwell = isinstance(gpus, Known) and any(
        isinstance(gpu.compute_capability, Known) and gpu.compute_capability.value.startswith("10.")
        for gpu in gpus.value.values()
    )
    devices = facts.pci.infiniband
    return blackwell and isinstance(devices, Known) and bool(devices.value)
