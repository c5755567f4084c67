"""NVIDIA's repository of this release, its key's pinned fingerprint, and the places that name it wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.checks.areas.package_names import is_cuda, offers_the_driver_too
from doctor.facts.model import Known
from doctor.matrix import query
from doctor.plan.host_state import read_host
from doctor.plan.role_vars import UndecidedError

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target

OFFERED = ["*nvidia*", "*cuda-drivers*"]
"""What another repository shall not offer beside NVIDIA's own."""


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    state = read_host(facts, matrix)
    if state.distribution is None:
        raise UndecidedError(f"the matrix has no repository for {state.os_name or 'this system'}")
    wsl = isinstance(facts.host.hardware, Known) and facts.host.hardware.value == "wsl2"
    name = "wsl-ubuntu" if wsl and state.package_manager == "apt" else state.distribution.repository
    row = query.repository(matrix, name, "rpm" if state.package_manager == "dnf" else "deb")
    if row is None or row.url is None:
        raise UndecidedError(f"the matrix has no repository {name}")
    found: dict[str, Any] = {
        "nvidia_repo_codename": row.codename,
        "nvidia_repo_url": row.url,
        "nvidia_repo_stale": _stale(facts),
        "nvidia_repo_exclude_in": _others(facts),
    }
    if row.key_url:
        found["nvidia_repo_key"] = row.key_url
    if row.fingerprint:
        found["nvidia_repo_fingerprint"] = row.fingerprint
    return found


def _stale(facts: Facts) -> list[dict[str, str]]:
    """Every enabled place that names it; the role leaves its own out."""
    return [
        {"id": row.id, "file": row.file}
        for row in facts.packages.repositories.value
        if row.enabled and is_cuda(row) and row.file
    ]


def _others(facts: Facts) -> list[dict[str, Any]]:
    return [
        {"id": row.id, "file": row.file, "excludes": " ".join([*row.excludes, *OFFERED])}
        for row in facts.packages.repositories.value
        if row.enabled and offers_the_driver_too(row) and row.file
    ]
