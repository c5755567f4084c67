"""Which other drivers of NVIDIA GPUs this host has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    found = ["nouveau"]
    bound = (
        [gpu.driver for gpu in facts.pci.gpus.value] if isinstance(facts.pci.gpus, Known) else []
    )
    holds = any(isinstance(item, Known) and item.value == "nova_core" for item in bound)
    if holds or isinstance(facts.kernel.nova_file, Known):
        found.append("nova_core")
    return {"nouveau_off_modules": found}
