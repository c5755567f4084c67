"""Version, flavour, origin and packages of the driver, and what has to go first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.plan.driver_choice import choose
from doctor.plan.kernels import releases

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    chosen = choose(facts, target, matrix)
    found: dict[str, Any] = {
        "nvidia_driver_version": chosen.version,
        "nvidia_driver_flavor": chosen.flavor,
        "nvidia_driver_origin": chosen.origin,
        "nvidia_driver_packages": chosen.packages,
        "nvidia_driver_replaces": chosen.replaces,
        "nvidia_driver_before": chosen.before,
        "nvidia_driver_kernels": releases(facts),
    }
    if chosen.stream is not None:
        found["nvidia_driver_stream"] = chosen.stream
    return found
