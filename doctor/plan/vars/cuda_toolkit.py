"""The CUDA toolkit of the target; without one, the compiler alone in the release that the driver has natively."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.versions import DriverVersion
from doctor.matrix import query
from doctor.plan.driver_choice import driver_version
from doctor.plan.pick import CUDA
from doctor.plan.role_vars import UndecidedError

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    row = target.get(CUDA)
    if row is not None:
        return {"cuda_toolkit_packages": [f"cuda-toolkit-{_dashed(row.want)}"]}
    driver: DriverVersion = driver_version(target)
    branch = query.native_cuda(matrix, driver)
    if branch is None or branch.cuda is None:
        raise UndecidedError(f"the matrix names no CUDA release for driver {driver.raw}")
    return {"cuda_toolkit_packages": [f"cuda-nvcc-{_dashed(str(branch.cuda))}"]}


def _dashed(version: str) -> str:
    return "-".join(version.split(".")[:2])
