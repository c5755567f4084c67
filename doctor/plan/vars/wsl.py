"""What of a Linux driver lies in this WSL2 system."""

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
    packages, libraries = facts.wsl.linux_driver_packages, facts.wsl.linux_driver_libraries
    installed = facts.packages.installed
    docker = isinstance(installed, Known) and bool(
        {"docker.io", "docker-ce", "moby-engine"} & set(installed.value)
    )
    systemd = facts.wsl.systemd
    off = isinstance(systemd, Known) and not systemd.value
    return {
        "wsl_purge": packages.value if isinstance(packages, Known) else [],
        "wsl_leftovers": libraries.value if isinstance(libraries, Known) else [],
        "wsl_systemd": off and docker,
    }
