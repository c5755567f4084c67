"""Shared memory and limits of running GPU containers."""

from __future__ import annotations

from doctor.checks.areas.container_running import NONE_RUN, RUNNING, gpus_of, judged, start_anew
from doctor.checks.areas.container_toolkit import statement, version_of
from doctor.checks.areas.presence import MANY_GPUS, gpu_containers, rdma_active
from doctor.checks.base import WARN, Result, check, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.container import Running
from doctor.facts.model import NotApplicable, known_or
from doctor.facts.tree import Facts
from doctor.matrix.engines import NcclBehaviour


@check(
    "container.running-shm",
    title="Containers with several GPUs have enough shared memory",
    severity=WARN,
    reads=(*RUNNING, "nvml.gpus"),
    sources=("nccl-runtime_and_mpi_issues", "production-stack#276"),
    fix=start_anew("start it with --shm-size 16g or --ipc=host"),
)
def running_shm(f: Facts, k: Knowledge) -> Result:
    """Under Docker's own seccomp profile NCCL falls back to /dev/shm, whatever its version."""
    if isinstance(f.container.running, NotApplicable):
        return skipped(f.container.running.reason)
    row = k.matrix.find(NcclBehaviour, "container-advice/>=2.0")
    wanted = int(row.values["shm_bytes"]) if row else 0
    order = {uuid: str(gpu.index) for uuid, gpu in known_or(f.nvml.gpus, {}).items()}

    def violates(item: Running) -> str:
        if item.ipc == "host" or item.shm is None or item.shm >= wanted:
            return ""
        several = len(gpus_of(item, order))
        size = f"{item.shm >> 20} MiB"
        return f"has {several} GPUs and {size} of /dev/shm" if several > 1 else ""

    return judged(
        f,
        violates,
        want=f"--shm-size {wanted >> 30}g or more",
        clean="each has one GPU or enough /dev/shm",
        rows=[row] if row else [],
    )


@check(
    "container.running-ulimits",
    title="GPU containers have the limits that NCCL needs",
    severity=WARN,
    reads=(
        *RUNNING,
        "network.rdma_ports",
        "container.docker_version",
        "limits.docker_defaults",
        "limits.dockerd",
        "nvml.gpus",
    ),
    sources=("nccl-networking_troubleshooting", "docs-29"),
    fix=start_anew("start it with --ulimit memlock=-1 --ulimit nofile=1048576:1048576"),
)
def running_ulimits(f: Facts, k: Knowledge) -> Result:
    """RDMA needs memlock unlimited; from Docker 29 on containers get 1024 open files."""
    if isinstance(f.container.running, NotApplicable):
        return skipped(f.container.running.reason)
    if not gpu_containers(f):
        return skipped(NONE_RUN)
    rdma = rdma_active(f)
    defaults = known_or(f.limits.docker_defaults, None)
    memlock = (defaults.memlock if defaults else None) or _daemon_memlock(f)
    nofile = defaults.nofile if defaults else None
    rule = statement(k, "container.docker-nofile")
    version = version_of(f.container.docker_version.value)
    low = version.satisfies(rule.versions or "") and nofile is None
    few = int(rule.values["now"])
    order = {uuid: str(gpu.index) for uuid, gpu in known_or(f.nvml.gpus, {}).items()}

    def violates(item: Running) -> str:
        locked = item.ulimits.get("memlock") or memlock
        if rdma and (not locked or locked[0] >= 0):
            return "has a limit on locked memory on a host with RDMA"
        files = item.ulimits.get("nofile")
        soft = files[0] if files else few if low else None
        if soft is not None and 0 <= soft <= few and len(gpus_of(item, order)) >= MANY_GPUS:
            return f"has {MANY_GPUS} or more GPUs and {soft} open files"
        return ""

    return judged(
        f,
        violates,
        want="memlock unlimited with RDMA; more than 1024 open files with many GPUs",
        clean="limits suffice",
        rows=[rule],
    )


def _daemon_memlock(f: Facts) -> list[int] | None:
    limits = known_or(f.limits.dockerd, None)
    return limits.memlock if limits else None
