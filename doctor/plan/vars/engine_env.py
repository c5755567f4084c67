"""One environment for one engine, pinned as the target says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doctor.plan.pick import PYTHON, TORCH, TRTLLM, VLLM, VLLM_CPU
from doctor.plan.role_vars import UndecidedError

TORCH_INDEX = "https://download.pytorch.org/whl"

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
    name = "vllm" if thing == VLLM_CPU else thing
    requirements = [f"{name}=={target[thing].want if variant else release}"]
    indexes = ["https://pypi.org/simple"]
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
    python = target.get(PYTHON)
    if python is not None:
        minor = ".".join(python.want.split(".")[:2])
        found["engine_env_python"] = f"/usr/bin/python{minor}"
        found["engine_env_python_packages"] = _python(facts, minor)
    return found


def _python(facts: Facts, minor: str) -> list[str]:
    debian = facts.packages.manager.value == "apt"
    return [f"python{minor}", f"python{minor}-venv"] if debian else [f"python{minor}"]
