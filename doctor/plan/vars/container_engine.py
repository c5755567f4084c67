"""The engine that is here or wanted, its packages and its unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known, known_or
from doctor.plan.pick import ENGINE
from doctor.plan.role_vars import ByHandError

DOCKERS = (
    ("docker-ce", ["docker-ce", "docker-ce-cli", "containerd.io"]),
    ("moby-engine", ["moby-engine"]),
    ("docker.io", ["docker.io"]),
)
"""Who packages Docker: its sign among the installed packages, and what belongs to it."""

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    installed = known_or(facts.packages.installed, {})
    origin = facts.container.docker_from
    if isinstance(origin, Known) and origin.value not in ("apt", "dnf"):
        raise ByHandError(f"this Docker comes from {origin.value}: it is its owner's")
    row = target.get(ENGINE)
    wanted = row.want.partition(" ")[0].lower() if row is not None else "docker"
    for sign, packages in DOCKERS:
        if sign in installed:
            return _told(
                "docker", [name for name in packages if name in installed], "docker.service"
            )
    if wanted == "podman" or (row is None and facts.packages.manager.value == "dnf"):
        return _told("podman", ["podman"], "")
    return _told("docker", ["docker.io"], "docker.service")


def _told(name: str, packages: list[str], service: str) -> dict[str, Any]:
    return {
        "container_engine_name": name,
        "container_engine_packages": packages,
        "container_engine_service": service,
    }
