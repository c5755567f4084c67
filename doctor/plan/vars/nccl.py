"""The system's NCCL in the version that the engines bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known, known_or
from doctor.facts.versions import Pep440Version
from doctor.plan.role_vars import UndecidedError

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    installed = known_or(facts.packages.installed, {})
    names = [
        name
        for name in ("libnccl2", "libnccl-dev", "libnccl", "libnccl-devel")
        if name in installed
    ]
    wheels = known_or(facts.nccl.wheels, {})
    parsed = [item for text in wheels.values() if (item := Pep440Version.maybe(text)) is not None]
    if not names or not parsed:
        raise UndecidedError("no engine here says which NCCL it brings")
    newest = max(parsed, key=lambda item: item.key)
    cuda = facts.nvml.cuda_version
    spelt = installed[names[0]].partition("+cuda")[2]
    release = spelt or (cuda.value if isinstance(cuda, Known) else "")
    if not release:
        raise UndecidedError("the CUDA release of the system's NCCL is not known")
    return {"nccl_packages": names, "nccl_version": f"{newest.raw}-1+cuda{release}"}
