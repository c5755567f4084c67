"""Limits of new sessions and containers, where they are lower than NVIDIA or the engines ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.areas.limits import Limits
from doctor.facts.model import Known

NOFILE = 131072
"""What NVIDIA's guide sets for sessions (nccl-runtime_and_mpi_issues)."""
CONTAINER_NOFILE = 1048576
"""What Docker gave before 29 (docs-29)."""
STACK_KIB = 8192
"""The stack of threads that NCCL needs (nccl-runtime_and_mpi_issues)."""
UNLIMITED = {"soft": "unlimited", "hard": "unlimited"}

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    found: dict[str, Any] = {}
    scope = facts.limits.scope
    sessions = _sessions(scope.value) if isinstance(scope, Known) else {}
    if sessions:
        found["limits_sessions"] = sessions
    containers = _containers(facts)
    if containers:
        found["limits_containers"] = containers
    return found


def _sessions(now: Limits) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if now.memlock and now.memlock[0] >= 0:
        found["memlock"] = UNLIMITED
    if now.nofile and 0 <= now.nofile[0] < NOFILE:
        high = now.nofile[1] < 0 or now.nofile[1] >= NOFILE
        found["nofile"] = {"soft": NOFILE} if high else {"soft": NOFILE, "hard": NOFILE}
    if now.stack and now.stack[0] != STACK_KIB * 1024:
        found["stack"] = {"soft": STACK_KIB}
    if now.nproc and now.nproc[0] >= 0:
        found["nproc"] = UNLIMITED
    return found


def _containers(facts: Facts) -> dict[str, Any]:
    """Docker's own defaults, only where a daemon answers."""
    own = facts.limits.dockerd
    if not isinstance(own, Known) or not isinstance(facts.container.docker_version, Known):
        return {}
    said = facts.limits.docker_defaults
    defaults = said.value if isinstance(said, Known) else Limits()
    found: dict[str, Any] = {}
    memlock = defaults.memlock or own.value.memlock
    if memlock and memlock[0] >= 0:
        found["memlock"] = {"Name": "memlock", "Soft": -1, "Hard": -1}
    if not defaults.nofile or 0 <= defaults.nofile[0] < CONTAINER_NOFILE:
        found["nofile"] = {"Name": "nofile", "Soft": CONTAINER_NOFILE, "Hard": CONTAINER_NOFILE}
    return found
