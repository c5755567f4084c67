"""How much shared memory NVIDIA asks for, on the host and in containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known
from doctor.matrix.engines import NcclBehaviour
from doctor.plan.role_vars import UndecidedError

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    advice = next((row for row in matrix.rows(NcclBehaviour) if row.id == "container-advice"), None)
    if advice is None:
        raise UndecidedError("the matrix has no advice about shared memory")
    wanted = int(advice.values["shm_bytes"])
    found: dict[str, Any] = {}
    shm = facts.storage.shm
    if isinstance(shm, Known) and shm.value.size < wanted:
        found["shm_host_bytes"] = wanted
    docker = facts.container.docker_default_shm
    answers = isinstance(facts.container.docker_version, Known)
    if answers and isinstance(docker, Known) and docker.value < wanted:
        found["shm_docker_bytes"] = wanted
    return found
