"""Shared memory: enough of it, free, and nothing left behind."""

from __future__ import annotations

from doctor.checks.areas.limits import amount, behaviours
from doctor.checks.areas.presence import DRIVER_LADDER, docker_answers, gpu_count, in_container
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, Known, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version
from doctor.matrix.engines import NcclBehaviour

SHM = "/dev/shm"
DOCKER_DEFAULT = 64 << 20
"""Docker's default for a container. Two ranks without P2P failed with it (measured-h200x2)."""
REMOUNT = f"sudo mount -o remount,size=50% {SHM}"
RUN = "docker run --ipc=host ...  # on the host, or --shm-size 16g; in Kubernetes an emptyDir of medium Memory"


def advice(k: Knowledge) -> NcclBehaviour:
    """What NVIDIA asks for."""
    return behaviours(k, "container-advice")[0]


def segment(k: Knowledge) -> int:
    """Bytes of one NCCL segment."""
    return int(behaviours(k, "shm-segment")[0].values["bytes"])


def enlarge(f: Facts) -> tuple[str | None, str | None]:
    """What enlarges it: in a container another start, on a host a remount."""
    if in_container(f):
        return "start the container with --ipc=host or a larger --shm-size, on the host", RUN
    return None, None


def forced(f: Facts, k: Knowledge) -> tuple[str, list[NcclBehaviour]]:
    """Why NCCL would use /dev/shm here, or an empty text: settings of the scope, or only copies without cuMem host memory."""
    nothing: dict[str, str] = {}
    conf, scope = known_or(f.nccl.conf, nothing), known_or(f.nccl.environment, nothing)
    environment = {**conf, **scope}
    for name in ("NCCL_CUMEM_HOST_ENABLE", "NCCL_CUMEM_ENABLE"):
        if environment.get(name) == "0":
            return f"{name}=0", behaviours(k, "cumem-host-needs-cumem")
    versions = [known_or(f.nccl.system, ""), *known_or(f.nccl.wheels, {}).values()]
    parsed = [found for text in versions if text and (found := Pep440Version.maybe(text))]
    without = [row for row in behaviours(k, "cumem-host") if row.default != "auto"]
    if parsed and all(any(row.versions.contains(v) for row in without) for v in parsed):
        newest = max(parsed, key=lambda v: v.key)
        return f"NCCL {newest}, which has no cuMem host memory", without
    return "", []


@check(
    "shm.too-small-for-nccl",
    title="Shared memory holds NCCL's segments where NCCL must use it",
    severity=ERROR,
    needs=(*DRIVER_LADDER, "shm.full", "nccl.cumem-host"),
    reads=(
        "storage.shm",
        "nvml.gpus",
        "nccl.environment",
        "nccl.conf",
        "nccl.system",
        "nccl.wheels",
        "host.container",
    ),
    sources=("measured-h200x2", "nccl-runtime_and_mpi_issues", "production-stack#276"),
    fix=Fix(
        "make /dev/shm larger, or let NCCL use cuMem host memory again",
        command=REMOUNT,
        remedy="shm",
    ),
)
def too_small_for_nccl(f: Facts, k: Knowledge) -> Result:
    """Without cuMem host memory each connection and channel takes a segment of about 10 MB in /dev/shm."""
    wanted = int(advice(k).values["shm_bytes"])
    shm = f.storage.shm.value
    if shm.size >= wanted:
        return passed(f"{SHM} has {amount(shm.size)}, NVIDIA asks for {amount(wanted)}")
    gpus = gpu_count(f)
    if gpus < 2:
        return passed(f"{SHM} has {amount(shm.size)}; {gpus} GPU(s) exchange nothing through it")
    why, rows = forced(f, k)
    if not why:
        return passed(f"{SHM} has {amount(shm.size)}, and nothing here forces NCCL to use it")
    if shm.size > DOCKER_DEFAULT:
        return passed(
            f"{SHM} has {amount(shm.size)} with {why}: more than what is known to fail", rows=rows
        )
    say, command = enlarge(f)
    return failed(
        f"{SHM} has {amount(shm.size)}, {gpus} GPUs and {why}: NCCL needs "
        f"{segment(k) / 1e6:.1f} MB for each connection and channel and fails with ENOSPC",
        want=f"{amount(wanted)} or more",
        say=say,
        command=command,
        rows=[advice(k), *behaviours(k, "shm-segment"), *rows],
    )


@check(
    "shm.size",
    title="Shared memory is large enough for several GPUs",
    severity=WARN,
    needs=("shm.too-small-for-nccl", *DRIVER_LADDER),
    reads=("storage.shm", "nvml.gpus", "host.container"),
    sources=("nccl-runtime_and_mpi_issues", "measured-h200x2", "docker-container-run"),
    fix=Fix("make /dev/shm larger", command=REMOUNT, remedy="shm"),
)
def size(f: Facts, k: Knowledge) -> Result:
    """It matters where NCCL falls back to it, and for the queues of engines with several processes."""
    wanted = int(advice(k).values["shm_bytes"])
    shm = f.storage.shm.value
    if shm.size >= wanted:
        return passed(f"{SHM} has {amount(shm.size)}, NVIDIA asks for {amount(wanted)}")
    gpus = gpu_count(f)
    if gpus < 2:
        return passed(f"{SHM} has {amount(shm.size)}, enough for {gpus} GPU(s)")
    say, command = enlarge(f)
    return failed(
        f"{SHM} has {amount(shm.size)} with {gpus} GPUs. It matters when NCCL cannot use cuMem host "
        "memory: in containers without SYS_NICE, with NCCL_CUMEM_HOST_ENABLE=0, before NCCL 2.24 or "
        "a CUDA 12.6 driver; and for the queues of vLLM's workers",
        want=f"{amount(wanted)} or more",
        say=say,
        command=command,
        rows=[advice(k), *behaviours(k, "cumem-host-in-docker")],
    )


@check(
    "shm.full",
    title="Shared memory has room",
    severity=ERROR,
    reads=("storage.shm", "storage.shm_used", "storage.shm_left_behind"),
    sources=("nccl-shm.cc", "nccl-runtime_and_mpi_issues"),
    fix=Fix(
        "see who uses it; files of programs that have ended can be deleted",
        command=f"ls -lS {SHM} | head -20",
        remedy="shm",
    ),
)
def full(f: Facts, k: Knowledge) -> Result:
    """A full /dev/shm fails every program that makes a segment, whatever its size was."""
    shm, used = f.storage.shm.value, f.storage.shm_used.value
    need = segment(k)
    if shm.free >= need or used * 2 < shm.size:
        return passed(f"{SHM} has {amount(shm.free)} free of {amount(shm.size)}")
    found = f.storage.shm_left_behind
    left = found.value if isinstance(found, Known) else []
    dead = sum(item.size for item in left)
    about = f"; {amount(dead)} of it was left by programs that have ended" if dead else ""
    return failed(
        f"{SHM} is full: {amount(shm.free)} free of {amount(shm.size)}{about}",
        want=f"more than {amount(need)} free",
        command=removal([item.name for item in left]) if left else None,
        rows=behaviours(k, "shm-segment"),
    )


def removal(prefixes: list[str]) -> str:
    """Deletes files of the families, once no job runs; names are known prefixes and never a host's text."""
    return "sudo rm -f " + " ".join(f"{SHM}/{name}*" for name in prefixes)


@check(
    "shm.left-behind",
    title="No program left its segments in /dev/shm",
    severity=WARN,
    reads=("storage.shm_left_behind",),
    sources=("nccl-runtime_and_mpi_issues",),
    fix=Fix("delete them while no job runs", command=f"ls -l {SHM}", remedy="shm"),
)
def left_behind(f: Facts, k: Knowledge) -> Result:
    """A run that crashed leaves files that take memory until the next boot."""
    if isinstance(f.storage.shm_left_behind, Absent):
        return skipped(f"there is no {SHM}")
    left = f.storage.shm_left_behind.value
    if not left:
        return passed(f"{SHM} holds no file of a known family that no process maps")
    count = sum(item.count for item in left)
    total = sum(item.size for item in left)
    return failed(
        f"{count} file(s) of {amount(total)} in {SHM} are mapped by no process: "
        + ", ".join(f"{item.count} {item.name}*" for item in left),
        want="none",
        command=removal([item.name for item in left]),
        evidence=[seen(f"shm.{item.name}", item.size, SHM) for item in left],
    )


@check(
    "shm.docker-default",
    title="Containers get enough /dev/shm by default",
    severity=INFO,
    reads=("container.docker_socket", "container.docker_default_shm", "nvml.gpus"),
    sources=("docker-container-run", "production-stack#276"),
    fix=Fix(
        'set "default-shm-size": "1g" in daemon.json and restart Docker, or start containers with '
        "--shm-size or --ipc=host",
        command="docker run --ipc=host ...",
        disturbs="service",
        remedy="shm",
    ),
)
def docker_default(f: Facts, k: Knowledge) -> Result:
    """Docker gives 64 MiB unless told otherwise, which is too little for tensor parallel engines."""
    if not docker_answers(f):
        return skipped("no Docker daemon runs here")
    default = f.container.docker_default_shm.value
    wanted = int(advice(k).values["shm_bytes"])
    if default >= wanted:
        return passed(f"containers get {amount(default)} of {SHM} by default")
    gpus = gpu_count(f)
    if gpus < 2:
        return passed(f"containers get {amount(default)} by default, enough for {gpus} GPU(s)")
    return failed(
        f"containers get {amount(default)} of {SHM} by default and there are {gpus} GPUs: each needs "
        "--shm-size or --ipc=host",
        want=f"default-shm-size {amount(wanted)} or more",
        rows=[advice(k)],
    )
