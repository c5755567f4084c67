"""--want launch: what the line asks of the host: GPUs, memory, shared memory, limits, ports, privileges."""

from __future__ import annotations

from doctor.checks.areas.want_subject import (
    Problem,
    concluded,
    engine_version,
    engines,
    gib,
    name_of,
    opened,
    wants,
)
from doctor.checks.base import ERROR, WARN, Fix, Result, check, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.limits import Limits
from doctor.facts.model import Fact, known_or
from doctor.facts.tree import Facts
from doctor.matrix import query
from doctor.matrix.model import OptionValues
from doctor.plan.container_line import Container
from doctor.plan.launch import EngineCommand
from doctor.plan.want import LaunchWant

NONE = "no launch line was asked for"
NO_CONTAINER = "the line starts no container"
MIB = 2**20


def containers(k: Knowledge) -> list[Container]:
    """Containers of every launch."""
    return [item for want in wants(k, LaunchWant) for item in want.launch.containers]


def memory_share(f: Facts, k: Knowledge, engine: EngineCommand | None) -> float:
    """The part of a GPU that vLLM takes: from the line, else its release's default, else the newest default."""
    told = engine.options.get("--gpu-memory-utilization") if engine is not None else None
    if told:
        try:
            return float(told)
        except ValueError:
            pass
    version = (
        engine_version(f, k, engine, "vllm")
        if engine is not None and engine.image is not None
        else None
    )
    name = "--gpu-memory-utilization"
    if version is not None:
        row = query.option_values(k.matrix, "vllm serve", name, version)
    else:
        newest = (item for item in k.matrix.rows(OptionValues) if item.name == name)
        row = next((item for item in newest if item.until is None), None)
    return float(row.default) if row is not None and row.default else 0.9


@check(
    "want.launch-gpus",
    title="The container is given the GPUs",
    severity=ERROR,
    reads=("container.docker_default_runtime",),
    sources=("cloud-native-docs-docker-specialized",),
    fix=Fix("give it the GPUs", command="docker run --gpus all ..."),
)
def launch_gpus(f: Facts, k: Knowledge) -> Result:
    """--gpus, a CDI device or the nvidia runtime; an engine without them finds no device."""
    asked = [item for item in engines(k) if item.container is not None]
    if not asked:
        return skipped(NONE if not wants(k, LaunchWant) else NO_CONTAINER)
    without = [item for item in asked if item.container is not None and not item.container.gpus]
    if without and known_or(f.container.docker_default_runtime, "") == "nvidia":
        without = []
    problems = [
        Problem(
            f"{item.image} is started without GPUs", "--gpus all, or --device nvidia.com/gpu=all"
        )
        for item in without
    ]
    return concluded(problems, "every engine's container is given GPUs")


@check(
    "want.launch-parallel",
    title="There are as many GPUs as the line spreads over",
    severity=ERROR,
    reads=("nvml.gpus",),
    sources=("vllm-docs-stable-cli-serve", "tensorrt-llm-trtllm-serve.html"),
    fix=Fix("spread over the GPUs that are here", command="nvidia-smi -L"),
)
def launch_parallel(f: Facts, k: Knowledge) -> Result:
    """Tensor, pipeline and data parallel together, against the GPUs of this host."""
    asked = engines(k)
    if not asked:
        return skipped(NONE)
    here = len(opened(f))
    problems = [
        Problem(f"{item.command} spreads over {item.gpus} GPUs, here are {here}", f"at most {here}")
        for item in asked
        if item.gpus > here and not item.has("--nnodes", "--data-parallel-address")
    ]
    return concluded(problems, f"{', '.join(str(item.gpus) for item in asked)} of {here} GPUs")


@check(
    "want.launch-memory",
    title="The share of memory that the engine takes is free",
    severity=WARN,
    reads=("nvml.gpus", "python_env.environments"),
    sources=("want-vllm-free-memory",),
    fix=Fix(
        "lower the share or free the GPU",
        command="nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
    ),
)
def launch_memory(f: Facts, k: Knowledge) -> Result:
    """vLLM refuses to start where less than its share of the whole GPU is free."""
    asked = [item for item in engines(k) if item.command == "vllm serve"]
    if not asked:
        return skipped(NONE if not engines(k) else "no vllm serve line")
    problems, fine = [], []
    for engine in asked:
        share = memory_share(f, k, engine)
        for gpu in opened(f)[: engine.gpus]:
            total, free = gpu.memory_total.value, gpu.memory_free.value
            if free < share * total:
                possible = int(free / total * 100) / 100
                problems.append(
                    Problem(
                        f"--gpu-memory-utilization {share} takes {gib(share * total)} of {name_of(gpu)}, {gib(free)} are free",
                        f"at most {possible}",
                        None,
                    )
                )
            fine.append(f"{gib(share * total)} of {gib(free)} free on {name_of(gpu)}")
    return concluded(problems, "; ".join(fine))


@check(
    "want.launch-shm",
    title="The container has shared memory for several GPUs",
    severity=WARN,
    reads=("container.docker_default_shm",),
    sources=("docker-container-run", "vllm-docs-stable-cli-serve"),
    fix=Fix("share the host's memory or ask for more", command="docker run --ipc=host ..."),
)
def launch_shm(f: Facts, k: Knowledge) -> Result:
    """Workers talk through /dev/shm; what Docker gives by default is small."""
    asked = [(item, item.container) for item in engines(k) if item.container is not None]
    if not asked:
        return skipped(NONE if not wants(k, LaunchWant) else NO_CONTAINER)
    several = [(item, box) for item, box in asked if item.gpus > 1]
    if not several:
        return skipped("one GPU: its worker needs little shared memory")
    problems, fine = [], []
    for engine, box in several:
        size = box.shm if box.shm is not None else None
        if box.ipc == "host":
            fine.append("the host's /dev/shm")
            continue
        given = size if size is not None else f.container.docker_default_shm.value
        if given <= 64 * MIB:
            problems.append(
                Problem(
                    f"{engine.image} spreads over {engine.gpus} GPUs with {given // MIB} MiB of /dev/shm",
                    "--ipc=host, or --shm-size of some GiB",
                )
            )
        fine.append(f"{given // MIB} MiB of /dev/shm")
    return concluded(problems, "; ".join(fine))


@check(
    "want.launch-ulimits",
    title="The container may lock memory, as TensorRT-LLM documents",
    severity=WARN,
    reads=("limits.docker_defaults",),
    sources=("tensorrt-llm-release-notes",),
    fix=Fix(
        "give it the documented limits",
        command="docker run --ulimit memlock=-1 --ulimit stack=67108864 ...",
    ),
)
def launch_ulimits(f: Facts, k: Knowledge) -> Result:
    """memlock unlimited and a stack of 64 MiB."""
    asked = [
        item for item in engines(k) if item.command == "trtllm-serve" and item.container is not None
    ]
    if not asked:
        return skipped("no trtllm-serve in a container was asked for")
    defaults = f.limits.docker_defaults
    problems = []
    rule = k.matrix.statement("tensorrt_llm_rules", "tensorrt-llm.container-flags")
    for engine in asked:
        limits = engine.container.ulimits if engine.container is not None else {}
        missing = []
        if limits.get("memlock") != -1 and not _default(defaults, "memlock"):
            missing.append("memlock=-1")
        if "stack" not in limits and not _default(defaults, "stack"):
            missing.append("stack=67108864")
        if missing:
            problems.append(
                Problem(
                    f"{engine.image} is started without --ulimit {' --ulimit '.join(missing)}",
                    " and ".join(missing),
                    None,
                    (rule,),
                )
            )
    return concluded(problems, "memlock and stack are as documented", rows=(rule,))


def _default(defaults: Fact[Limits], name: str) -> bool:
    """Whether the daemon gives it to every container; raises FactUnknown where that was not seen."""
    limits = known_or(defaults, None)
    return limits is not None and getattr(limits, name) is not None


@check(
    "want.launch-port",
    title="The port is free",
    severity=ERROR,
    reads=("container.running",),
    sources=("docker-container-run",),
    fix=Fix("take another port, or stop what has it", command="ss -ltnp"),
)
def launch_port(f: Facts, k: Knowledge) -> Result:
    """Against running containers and against each other; other programs are not looked at."""
    asked = wants(k, LaunchWant)
    if not asked:
        return skipped(NONE)
    ports = [
        (port, box.name) for want in asked for box in want.launch.containers for port in box.ports
    ]
    ports += [
        (_port(engine), engine.command)
        for engine in engines(k)
        if engine.container is None or engine.container.host_network
    ]
    if not ports:
        return skipped("the line publishes no port")
    taken = {
        number: item.name
        for item in known_or(f.container.running, [])
        for text in item.ports
        for number in _numbers(text)
    }
    problems = [
        Problem(f"{name} wants port {port}, which the container {taken[port]} has", "a free port")
        for port, name in ports
        if port in taken
    ]
    numbers = [port for port, _ in ports]
    problems += [
        Problem(f"port {port} is wanted twice", "one server to a port")
        for port in sorted({item for item in numbers if numbers.count(item) > 1})
    ]
    return concluded(problems, f"no container has {', '.join(str(port) for port in numbers)}")


def _port(engine: EngineCommand) -> int:
    return engine.number("--port") or 8000


def _numbers(text: str) -> list[int]:
    """0.0.0.0:8000->8000/tcp, 8000:8000 or 8000."""
    host = text.partition("->")[0].partition("/")[0]
    parts = [part for part in host.split(":") if part.isdigit()]
    return [int(parts[0])] if parts else []


@check(
    "want.launch-privileges",
    title="The container has no more rights than it needs",
    severity=WARN,
    reads=(),
    sources=("docker-container-run",),
    fix=Fix(
        "drop what an engine does not need",
        command="docker run --security-opt no-new-privileges --cap-drop ALL ...",
    ),
)
def launch_privileges(f: Facts, k: Knowledge) -> Result:
    """Privileged containers, wide capabilities, the engine's socket or the whole file system inside."""
    asked = containers(k)
    if not asked:
        return skipped(NONE if not wants(k, LaunchWant) else NO_CONTAINER)
    problems = []
    for box in asked:
        found = []
        if box.privileged:
            found.append("is privileged")
        wide = [
            item
            for item in box.capabilities_added
            if item.upper().removeprefix("CAP_")
            in ("ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "NET_ADMIN", "DAC_READ_SEARCH")
        ]
        if wide:
            found.append(f"has {', '.join(wide)}")
        mounts = [
            item
            for item in box.mounts
            if item
            in ("/", "/etc", "/var/run/docker.sock", "/run/docker.sock", "/root", "/proc", "/sys")
        ]
        if mounts:
            found.append(f"mounts {', '.join(mounts)}")
        if found:
            problems.append(Problem(f"{box.image} {' and '.join(found)}", "--gpus alone", None))
    return concluded(
        problems, ", ".join(f"{item.image}: no privileges beyond the default" for item in asked)
    )
