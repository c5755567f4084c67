"""One environment for one engine, pinned as the target says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.matrix.want_query import measured_cpu_build
from doctor.plan.pick import PYTHON, TORCH, TRTLLM, VLLM, VLLM_CPU
from doctor.plan.role_vars import UndecidedError

TORCH_INDEX = "https://download.pytorch.org/whl"
PYPI = "https://pypi.org/simple"

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.plan.model import Target


def values(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> dict[str, Any]:
    """What the role is told."""
    thing = next((item for item in (TRTLLM, VLLM, VLLM_CPU, TORCH) if item in target), None)
    if thing is None:
        raise UndecidedError("no engine is wanted")
    release, _, variant = target[thing].want.partition("+")
    if thing == VLLM_CPU and (measured := _measured(release, matrix)):
        return measured | _python(facts, target)
    name = "vllm" if thing == VLLM_CPU else thing
    requirements = [f"{name}=={target[thing].want if variant else release}"]
    indexes = [PYPI]
    if thing == TRTLLM:
        indexes.insert(0, "https://pypi.nvidia.com")
    if thing == VLLM and variant:
        indexes.insert(0, f"https://wheels.vllm.ai/{release}/{variant}")
    if thing == VLLM_CPU:
        indexes.insert(0, f"https://wheels.vllm.ai/{release}/cpu")
    torch = target.get(TORCH)
    if torch is not None and thing != TORCH:
        requirements.append(f"torch=={torch.want}")
    build = torch.want.partition("+")[2] if torch is not None else variant
    if build:
        indexes.insert(0, f"{TORCH_INDEX}/{build}")
    found: dict[str, Any] = {
        "engine_env_name": f"{name}-{release}",
        "engine_env_requirements": requirements,
        "engine_env_expect": [item.partition("+")[0] for item in requirements],
        "engine_env_indexes": indexes,
    }
    return found | _python(facts, target)


def _measured(release: str, matrix: Matrix) -> dict[str, Any]:
    """The build for the CPU that a row has seen serve, and what has to be taken out of it; empty for another release."""
    measured = measured_cpu_build(matrix)
    if measured is None or measured[0] != release:
        return {}
    row = measured[1]
    package = row.values["package"]
    return {
        "engine_env_name": f"{package}-{release}",
        "engine_env_requirements": [f"{package}=={release}"],
        "engine_env_expect": [f"{package}=={release}"],
        "engine_env_remove": list(row.names),
        "engine_env_indexes": [f"{TORCH_INDEX}/cpu", PYPI],
    }


def _python(facts: Facts, target: Mapping[str, Target]) -> dict[str, Any]:
    """The interpreter that the environment is made with, and the packages that bring it."""
    python = target.get(PYTHON)
    if python is None:
        return {}
    minor = ".".join(python.want.split(".")[:2])
    debian = facts.packages.manager.value == "apt"
    return {
        "engine_env_python": f"/usr/bin/python{minor}",
        "engine_env_python_packages": [f"python{minor}", *([f"python{minor}-venv"] * debian)],
    }
