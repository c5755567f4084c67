"""Which CDI specifications are written anew, and which go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Absent, Known, known_or
from doctor.facts.versions import Pep440Version
from doctor.matrix import query

PLACE = "/etc/cdi/nvidia.yaml"

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    specs = known_or(facts.container.cdi_specs, [])
    paths = sorted(spec.path for spec in specs)
    keep = PLACE if PLACE in paths or not paths else paths[0]
    gone = isinstance(facts.driver.loaded, Absent) and isinstance(facts.driver.package, Absent)
    return {
        "cdi_spec_write": [] if gone else [keep],
        "cdi_spec_remove": paths if gone else [path for path in paths if path != keep],
        "cdi_spec_old_readers": _old_reader(facts, matrix),
        "cdi_spec_refresh": not isinstance(facts.container.cdi_refresh, Absent),
    }


def _old_reader(facts: Facts, matrix: Matrix) -> bool:
    """Whether an engine here is older than the release that reads CDI 0.7.0."""
    seen = {
        "podman": facts.container.podman_version,
        "docker": facts.container.docker_version,
        "containerd": facts.container.containerd_version,
    }
    for name, fact in seen.items():
        row = query.container_engine(matrix, name)
        version = Pep440Version.maybe(fact.value) if isinstance(fact, Known) else None
        since = row.cdi_spec_0_7_since if row is not None else None
        if version is not None and since is not None and version < since:
            return True
    return False
