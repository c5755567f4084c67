"""Resource limits: of the judged scope, of what systemd starts and of what Docker starts."""

from __future__ import annotations

from doctor.checks.areas.container_toolkit import statement, version_of
from doctor.checks.areas.presence import (
    DRIVER_LADDER,
    MANY_GPUS,
    docker_answers,
    gpu_count,
    rdma_active,
)
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, NotApplicable, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version
from doctor.matrix.engines import NcclBehaviour

MIB = 1 << 20
LIMITS_FILE = "/etc/security/limits.d/90-gpu.conf"
NOT_SAID = "the limit was not seen"


def behaviours(k: Knowledge, id: str) -> list[NcclBehaviour]:
    """Rows about one behaviour of NCCL, for each range of versions."""
    return [row for row in k.matrix.rows(NcclBehaviour) if row.id == id]


def amount(number: int) -> str:
    """Bytes as people say them; -1 is unlimited."""
    if number < 0:
        return "unlimited"
    return f"{number // MIB} MiB" if number >= MIB else f"{number // 1024} KiB"


def soft_of(pair: list[int] | None, name: str) -> int:
    """The soft limit; FactUnknown when it was not said."""
    from doctor.facts.model import FactUnknown

    if not pair:
        raise FactUnknown(f"{name}: {NOT_SAID}", "limits")
    return pair[0]


def set_limit(name: str, value: str) -> str:
    """One line for every user, for sessions that start from now on."""
    return f"echo '* - {name} {value}' | sudo tee -a {LIMITS_FILE}"


@check(
    "limits.memlock",
    title="Locked memory is unlimited where RDMA is used",
    severity=ERROR,
    reads=("limits.scope", "network.rdma_ports", "host.container"),
    sources=("nccl-networking_troubleshooting", "nccl-tests#206"),
    fix=Fix(
        "raise it for new sessions, and for services with LimitMEMLOCK=infinity; then log in anew: "
        "running sessions keep theirs",
        command=set_limit("memlock", "unlimited"),
        remedy="limits",
    ),
)
def memlock(f: Facts, k: Knowledge) -> Result:
    """InfiniBand and RoCE pin their buffers; below that limit NCCL cannot register memory."""
    limit = soft_of(f.limits.scope.value.memlock, "memlock")
    rows = behaviours(k, "memlock")
    if limit < 0:
        return passed("locked memory is unlimited", rows=rows)
    if not rdma_active(f):
        return passed(f"locked memory is {amount(limit)}; no RDMA port is up that would need more")
    inside = known_or(f.host.container, "none") != "none"
    return failed(
        f"an RDMA port is up and locked memory is limited to {amount(limit)}: NCCL cannot register "
        "its buffers",
        want="memlock unlimited",
        say="start the container with --ulimit memlock=-1, on the host" if inside else None,
        command="docker run --ulimit memlock=-1 ...  # on the host" if inside else None,
        rows=rows,
    )


@check(
    "limits.stack",
    title="The stack is neither too small nor unlimited",
    severity=WARN,
    reads=("limits.scope", "nccl.system", "nccl.wheels"),
    sources=("nccl-runtime_and_mpi_issues",),
    fix=Fix(
        "set 8 MiB for this shell, and for services with LimitSTACK=8M",
        command="ulimit -s 8192",
        remedy="limits",
    ),
)
def stack(f: Facts, k: Knowledge) -> Result:
    """unlimited gives threads of older NCCL only 2 MiB; a small one ends deep call chains."""
    limit = soft_of(f.limits.scope.value.stack, "stack")
    rows = behaviours(k, "stack-unlimited")
    wanted = max((int(row.values["stack_kib"]) * 1024 for row in rows), default=0)
    if 0 <= limit < wanted:
        return failed(
            f"the stack is limited to {amount(limit)}", want=f"{amount(wanted)}", rows=rows
        )
    if limit >= 0:
        return passed(f"the stack is {amount(limit)}", rows=rows)
    hurt = [row for row in rows if "NCCL corrects" not in row.behaviour]
    for version in [known_or(f.nccl.system, ""), *known_or(f.nccl.wheels, {}).values()]:
        parsed = Pep440Version.maybe(version) if version else None
        for row in hurt:
            if parsed is not None and row.versions.contains(parsed):
                return failed(
                    f"the stack is unlimited, which gives the threads of NCCL {version} only 2 MiB",
                    want=amount(wanted),
                    rows=[row],
                )
    return passed("the stack is unlimited, and no NCCL here is hurt by that", rows=rows)


@check(
    "limits.nofile",
    title="Enough files may be open for a worker per GPU",
    severity=WARN,
    reads=("limits.scope", "nvml.gpus", "host.container"),
    sources=("pytorch#137695", "nccl-runtime_and_mpi_issues", "docs-29"),
    fix=Fix(
        "raise it for new sessions, and for services with LimitNOFILE=131072; then log in anew",
        command=set_limit("nofile", "131072"),
        remedy="limits",
    ),
)
def nofile(f: Facts, k: Knowledge) -> Result:
    """Workers, sockets and libraries of many GPUs use up the old default of 1024."""
    limit = soft_of(f.limits.scope.value.nofile, "nofile")
    few = int(statement(k, "container.docker-nofile").values["now"])
    rows = behaviours(k, "nofile")
    if limit < 0 or limit > few:
        return passed(f"{'unlimited' if limit < 0 else limit} files may be open", rows=rows)
    gpus = gpu_count(f)
    if gpus < MANY_GPUS:
        return passed(f"{limit} files may be open, enough for {gpus} GPU(s)")
    inside = known_or(f.host.container, "none") != "none"
    wanted = rows[0].values["nofile"] if rows else ""
    return failed(
        f"{limit} files may be open (soft) with {gpus} GPUs: tensor parallel {MANY_GPUS} runs out",
        want=f"{wanted} suggested by NVIDIA",
        say="start the container with --ulimit nofile=1048576:1048576, on the host"
        if inside
        else None,
        command="docker run --ulimit nofile=1048576:1048576 ...  # on the host" if inside else None,
        rows=rows,
    )


@check(
    "limits.nproc",
    title="Enough threads may run for a worker per GPU",
    severity=WARN,
    reads=("limits.scope", "nvml.gpus", "host.cpus"),
    sources=("man-getrlimit",),
    fix=Fix(
        "raise it for new sessions; then log in anew",
        command=set_limit("nproc", "unlimited"),
        remedy="limits",
    ),
)
def nproc(f: Facts, k: Knowledge) -> Result:
    """The limit counts threads: each worker may start one for every CPU."""
    limit = soft_of(f.limits.scope.value.nproc, "nproc")
    if limit < 0:
        return passed("processes and threads are unlimited")
    gpus = gpu_count(f)
    wanted = max(1, gpus) * f.host.cpus.value
    if limit < wanted:
        return failed(
            f"{limit} processes and threads may run; {gpus} workers with a thread for each of "
            f"{f.host.cpus.value} CPUs are {wanted}",
            want=f"more than {wanted}",
        )
    return passed(f"{limit} processes and threads may run, {wanted} are one per GPU and CPU")


@check(
    "limits.systemd",
    title="Services inherit limits that NCCL can work with",
    severity=INFO,
    reads=("limits.systemd", "network.rdma_ports", "nvml.gpus"),
    sources=("nccl-networking_troubleshooting", "nccl-runtime_and_mpi_issues"),
    fix=Fix(
        "give the engine's unit LimitMEMLOCK=infinity and LimitNOFILE=131072",
        command="sudo systemctl edit ENGINE.service",
        kind="needs-argument",
    ),
)
def systemd(f: Facts, k: Knowledge) -> Result:
    """limits.conf is for sessions: a service gets systemd's defaults unless its unit says otherwise."""
    found = f.limits.systemd
    if isinstance(found, Absent):
        return skipped("systemd is not the init here")
    locked = soft_of(found.value.memlock, "memlock")
    files = soft_of(found.value.nofile, "nofile")
    few = int(statement(k, "container.docker-nofile").values["now"])
    rows = [*behaviours(k, "memlock"), *behaviours(k, "nofile")]
    if locked >= 0 and rdma_active(f):
        return failed(
            f"services may lock {amount(locked)} by default and an RDMA port is up",
            want="LimitMEMLOCK=infinity in the unit",
            rows=rows,
        )
    if 0 <= files <= few and gpu_count(f) >= MANY_GPUS:
        return failed(
            f"services get {files} open files (soft) by default and there are {gpu_count(f)} GPUs",
            want="LimitNOFILE=131072 in the unit",
            rows=rows,
        )
    return passed(f"services may lock {amount(locked)} and open {files} files by default")


@check(
    "limits.dockerd",
    title="Containers inherit limits that NCCL can work with",
    severity=WARN,
    needs=DRIVER_LADDER,
    reads=(
        "container.docker_socket",
        "container.docker_version",
        "limits.dockerd",
        "limits.docker_defaults",
        "network.rdma_ports",
        "nvml.gpus",
    ),
    sources=("docs-29", "nccl-networking_troubleshooting", "moby#51485"),
    fix=Fix(
        "set default-ulimits in daemon.json and restart Docker, or give each container its own",
        command="docker run --ulimit memlock=-1 --ulimit nofile=1048576:1048576 ...",
        disturbs="service",
        remedy="limits",
    ),
)
def dockerd(f: Facts, k: Knowledge) -> Result:
    """A container gets default-ulimits, else what dockerd has; from Docker 29 on open files are not raised any more."""
    if isinstance(f.limits.dockerd, NotApplicable):
        return skipped(f.limits.dockerd.reason)
    if not docker_answers(f):
        return skipped("no Docker daemon runs here")
    defaults = known_or(f.limits.docker_defaults, None)
    own = f.limits.dockerd.value
    locked = soft_of((defaults.memlock if defaults else None) or own.memlock, "memlock")
    rule = statement(k, "container.docker-nofile")
    if locked >= 0 and rdma_active(f):
        return failed(
            f"containers may lock {amount(locked)} by default and an RDMA port is up",
            want="default-ulimits memlock -1",
            rows=behaviours(k, "memlock"),
        )
    version = f.container.docker_version.value
    raised = not version_of(version).satisfies(rule.versions or "")
    said = defaults.nofile if defaults else None
    soft = said[0] if said else int(rule.values["was" if raised else "now"])
    if 0 <= soft <= int(rule.values["now"]) and gpu_count(f) >= MANY_GPUS:
        return failed(
            f"containers of Docker {version} get {soft} open files and there are {gpu_count(f)} GPUs",
            want=f"default-ulimits nofile {rule.values['was']}",
            evidence=[seen("limits.docker_defaults.nofile", said, "daemon.json")],
            rows=[rule],
        )
    return passed(
        f"containers of Docker {version} may lock {amount(locked)} and open {soft} files",
        rows=[rule],
    )
