"""Kernels that need headers, and the compiler that built them where it is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Known
from doctor.plan.kernels import releases

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    return {
        "kernel_headers_releases": releases(facts),
        "kernel_headers_compiler": _compiler(facts),
    }


def _compiler(facts: Facts) -> list[str]:
    """gcc of the kernel's own major release. RHEL's kernels are built with the release's only gcc."""
    built = facts.kernel.compiler
    match = re.match(r"gcc (\d+)", built.value) if isinstance(built, Known) else None
    if match is None:
        return []
    own = facts.kernel.gcc
    if isinstance(own, Known) and own.value.partition(".")[0] == match[1]:
        return []
    if not isinstance(facts.packages.manager, Known) or facts.packages.manager.value != "apt":
        return ["gcc", "make"]
    here = facts.kernel.compilers
    if isinstance(here, Known) and match[1] in here.value:
        return []
    return [f"gcc-{match[1]}", "make"]
