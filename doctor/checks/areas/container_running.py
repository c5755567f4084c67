"""Running GPU containers: what they were started with, as inspect shows it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from doctor.checks.areas.container_toolkit import version_of
from doctor.checks.areas.presence import gpu_containers
from doctor.checks.base import INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.container import Running
from doctor.facts.model import FactUnknown, NotApplicable, known_or
from doctor.facts.tree import Facts
from doctor.matrix.engines import EngineOption

RUNNING = ("container.running",)
NONE_RUN = "no GPU container runs"
RECREATE = "docker inspect {name}  # then start it anew with the options that are wanted"
STRONG = frozenset(
    {
        "ALL",
        "SYS_ADMIN",
        "SYS_MODULE",
        "SYS_RAWIO",
        "SYS_BOOT",
        "NET_ADMIN",
        "DAC_READ_SEARCH",
        "BPF",
    }
)
"""Capabilities with which a container can take over its host (capabilities(7)); SYS_NICE, IPC_LOCK and SYS_PTRACE are what engines ask for."""
ENGINES = {
    "vllm": re.compile(r"\bvllm\b"),
    "sglang": re.compile(r"\bsglang\b"),
    "tgi": re.compile(r"text-generation-(?:launcher|inference)"),
    "trtllm": re.compile(r"trtllm-serve|tensorrt-llm"),
    "triton": re.compile(r"tritonserver|triton"),
    "ollama": re.compile(r"\bollama\b"),
}
WITH_KEY = ("vllm", "sglang", "tgi")
"""Engines that have an option --api-key; the others need a proxy before them."""
KEY_VARIABLES = ("VLLM_API_KEY", "API_KEY", "OPENAI_API_KEY")
SHARE = 0.95
"""Sum of memory shares up to which two engines fit on one GPU; the rest is CUDA contexts."""


def engine_of(item: Running) -> str:
    """Which engine a container runs, by its command and image; empty for another program."""
    text = " ".join([item.image, *item.args])
    return next((name for name, shape in ENGINES.items() if shape.search(text)), "")


def option(item: Running, name: str) -> str | None:
    """The value of a command-line option; empty for a switch, None when it is not given."""
    for place, word in enumerate(item.args):
        if word == name:
            following = item.args[place + 1] if place + 1 < len(item.args) else ""
            return "" if following.startswith("-") else following
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    # a shell line is one argument
    for word in item.args:
        found = re.search(rf"(?:^|\s){re.escape(name)}(?:[=\s]+([^\s-]\S*))?(?:\s|$)", word)
        if found:
            return found.group(1) or ""
    return None


def has_key(item: Running) -> bool:
    """Whether the engine was started with an API key."""
    return option(item, "--api-key") is not None or any(item.env.get(v) for v in KEY_VARIABLES)


def exposed(item: Running) -> str:
    """Where others reach the container: a published port on every address, or the host's network; empty when nowhere."""
    for port in item.ports:
        address = port.rpartition("->")[0].rpartition(":")[0]
        if not address.startswith(("127.", "::1", "[::1]")):
            return port
    if item.network == "host" and not (option(item, "--host") or "").startswith("127."):
        return "the host's network"
    return ""


def judged(
    f: Facts,
    violates: Callable[[Running], str],
    *,
    want: str,
    clean: str,
    rows: Sequence[object] = (),
    among: Callable[[Running], bool] = lambda item: True,
    nobody: str = NONE_RUN,
) -> Result:
    """One finding over all GPU containers: the first that violates is named, all are evidence."""
    if isinstance(f.container.running, NotApplicable):
        return skipped(f.container.running.reason)
    items = [item for item in gpu_containers(f) if among(item)]
    if not items:
        return skipped(nobody)
    bad = [(item, text) for item in items if (text := violates(item))]
    if not bad:
        return passed(f"{len(items)} GPU container(s): {clean}", rows=rows)
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    first, text = bad[0]
    return failed(
        f"{first.name} {text}{more}",
        want=want,
        command=RECREATE.format(name=shlex.quote(first.name)),
        evidence=[seen(f"container.{item.name}", why, "docker inspect") for item, why in bad],
        rows=rows,
    )


def start_anew(say: str) -> Fix:
    """Options of a container change only by starting another."""
    return Fix(say, command="docker inspect CONTAINER", disturbs="service")


@check(
    "container.privileged",
    title="GPU containers are not privileged",
    severity=WARN,
    reads=RUNNING,
    sources=("docker-container-run", "docker-security"),
    fix=start_anew("start it without --privileged: --gpus is enough for GPUs"),
)
def privileged(f: Facts, k: Knowledge) -> Result:
    """--privileged gives all devices and capabilities of the host."""
    return judged(
        f,
        lambda item: (
            "runs privileged: it has every device and capability of the host"
            if item.privileged
            else ""
        ),
        want="no --privileged",
        clean="none is privileged",
    )


@check(
    "container.capabilities",
    title="GPU containers have no capability that takes over the host",
    severity=WARN,
    reads=RUNNING,
    sources=("docker-security", "docker-container-run"),
    fix=start_anew("drop all capabilities and add what the engine needs, SYS_NICE at most"),
)
def capabilities(f: Facts, k: Knowledge) -> Result:
    """Engines need none beyond Docker's own set; SYS_NICE helps NCCL."""

    def violates(item: Running) -> str:
        strong = sorted(set(item.capabilities_added) & STRONG)
        return f"was given {', '.join(strong)}" if strong else ""

    return judged(f, violates, want="--cap-drop ALL", clean="none has a strong capability")


@check(
    "container.no-new-privileges",
    title="GPU containers cannot gain privileges",
    severity=INFO,
    reads=(*RUNNING, "container.daemon_json"),
    sources=("docker-container-run",),
    fix=start_anew("start it with --security-opt no-new-privileges"),
)
def no_new_privileges(f: Facts, k: Knowledge) -> Result:
    """A set-uid program inside stays without effect."""
    if known_or(f.container.daemon_json, {}).get("no-new-privileges") is True:
        return passed("daemon.json sets no-new-privileges for every container")
    return judged(
        f,
        lambda item: (
            "" if item.no_new_privileges else "may gain privileges through set-uid programs"
        ),
        want="--security-opt no-new-privileges",
        clean="all have no-new-privileges",
    )


@check(
    "container.root-user",
    title="GPU containers do not run as root",
    severity=INFO,
    reads=RUNNING,
    sources=("docker-security",),
    fix=start_anew("start it with --user and a cache folder that this user may write"),
)
def root_user(f: Facts, k: Knowledge) -> Result:
    """Root inside is root outside unless user namespaces are mapped."""
    return judged(
        f,
        lambda item: (
            "runs as root" if (item.user or "0").partition(":")[0] in ("0", "root") else ""
        ),
        want="--user",
        clean="none runs as root",
    )


@check(
    "container.engine-without-api-key",
    title="Engines that others can reach ask for an API key",
    severity=WARN,
    reads=RUNNING,
    sources=("docker-container-run",),
    fix=start_anew("give the engine a key: --api-key or VLLM_API_KEY"),
)
def engine_without_api_key(f: Facts, k: Knowledge) -> Result:
    """An engine without a key answers everybody who reaches its port."""
    rows = [
        row
        for row in k.matrix.rows(EngineOption)
        if row.name == "--api-key" and row.command == "vllm serve"
    ]

    def violates(item: Running) -> str:
        where = exposed(item)
        if not where or has_key(item):
            return ""
        return f"runs {engine_of(item)} on {where} without an API key"

    return judged(
        f,
        violates,
        want="--api-key",
        clean="each has a key or is not reachable from outside",
        among=lambda item: engine_of(item) in WITH_KEY,
        nobody="no engine that takes a key runs in a container",
        rows=rows,
    )


@check(
    "container.port-exposed",
    title="GPU containers without a key are not published on every address",
    severity=WARN,
    reads=RUNNING,
    sources=("docker-container-run",),
    fix=start_anew("publish on one address, -p 127.0.0.1:8000:8000, and put a proxy before it"),
)
def port_exposed(f: Facts, k: Knowledge) -> Result:
    """Docker's published ports go past the host's firewall rules."""

    def violates(item: Running) -> str:
        where = exposed(item)
        return f"is reachable on {where} and has no key" if where and not has_key(item) else ""

    return judged(f, violates, want="127.0.0.1 or a key", clean="none is open to the network")


@check(
    "container.prompts-in-logs",
    title="Engines do not write prompts to the log",
    severity=WARN,
    reads=RUNNING,
    sources=("triton-tutorials#142",),
    fix=start_anew(
        "start vLLM without --enable-log-requests; an old one with --disable-log-requests"
    ),
)
def prompts_in_logs(f: Facts, k: Knowledge) -> Result:
    """vLLM's request log holds prompts: on by default in older releases, off in newer ones."""
    options = {row.name: row for row in k.matrix.rows(EngineOption) if row.command == "vllm serve"}
    switch = options.get("--enable-log-requests")

    def violates(item: Running) -> str:
        if option(item, "--enable-log-requests") is not None:
            return "logs requests, prompts included (--enable-log-requests)"
        if option(item, "--disable-log-requests") is not None:
            return ""
        tag = re.search(r":v?(\d+\.\d+(?:\.\d+)?(?:\.post\d+)?)", item.image)
        if tag is None:
            raise FactUnknown("the image's tag names no version of vLLM", item.image)
        if switch and switch.since and version_of(tag.group(1)) < switch.since:
            return f"runs vLLM {tag.group(1)}, which logs requests unless told not to"
        return ""

    return judged(
        f,
        violates,
        want="no request log",
        clean="none logs requests",
        among=lambda item: engine_of(item) == "vllm",
        nobody="no vLLM runs in a container",
        rows=[switch] if switch else [],
    )


@check(
    "container.two-engines-one-gpu",
    title="No two engines share a GPU by accident",
    severity=WARN,
    reads=(*RUNNING, "nvml.gpus"),
    sources=("vllm-troubleshooting",),
    fix=start_anew("give each engine its own GPUs, or memory shares that fit together"),
)
def two_engines_one_gpu(f: Facts, k: Knowledge) -> Result:
    """Each engine takes most of a GPU's memory at its start: the second fails or both are slow."""
    if isinstance(f.container.running, NotApplicable):
        return skipped(f.container.running.reason)
    engines = [item for item in gpu_containers(f) if engine_of(item)]
    if len(engines) < 2:
        return passed(f"{len(engines)} engine(s) run in containers")
    order = {uuid: str(gpu.index) for uuid, gpu in known_or(f.nvml.gpus, {}).items()}
    taken = [(item, gpus_of(item, order)) for item in engines]
    for number, (item, gpus) in enumerate(taken):
        for other, others in taken[number + 1 :]:
            both = sorted(gpus & others)
            if both and _share(item) + _share(other) > SHARE:
                return failed(
                    f"{item.name} and {other.name} both use GPU {', '.join(both)}",
                    want="one engine for each GPU",
                    command=RECREATE.format(name=shlex.quote(other.name)),
                )
    return passed(f"{len(engines)} engines share no GPU beyond its memory")


def gpus_of(item: Running, order: dict[str, str]) -> set[str]:
    """Indexes of the GPUs a container was given; a MIG device stays what it is called."""
    found: set[str] = set()
    for name in item.gpu_ids or ["all"]:
        kind, _, count = name.partition(":")
        if name == "all":
            found |= set(order.values())
        elif kind == "count" and count.isdigit():
            found |= {str(number) for number in range(min(int(count), len(order)))}
        else:
            found.add(order.get(name, name))
    return found


def _share(item: Running) -> float:
    """Share of the memory the engine takes; nearly all when it is not said."""
    said = option(item, "--gpu-memory-utilization") or option(item, "--mem-fraction-static")
    try:
        return float(said) if said else 1.0
    except ValueError:
        return 1.0
