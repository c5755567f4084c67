"""Folders of the loader's configuration that hold stubs or unfit copies of libcuda."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import known_or

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    bad = {
        library.path.rpartition("/")[0]
        for library in facts.driver.libraries.value
        if "libcuda.so" in library.path and library.kind in ("stub", "compat")
    }
    return {
        "ld_path_folders": [item for item in known_or(facts.driver.ld_config, []) if item in bad]
    }
