"""NCCL between hosts: interfaces, RDMA, peer memory."""

from __future__ import annotations

from doctor.checks.areas.environments import version
from doctor.checks.areas.presence import gpu_count
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version
from doctor.matrix.model import NcclBehaviour

SETTINGS = ("nccl.environment", "nccl.conf")


def settings(facts: Facts) -> dict[str, str]:
    """NCCL's variables: the environment wins over its configuration files."""
    conf: dict[str, str] = known_or(facts.nccl.conf, {})
    return {**conf, **facts.nccl.environment.value}


def selected(spec: str, names: list[str]) -> list[str]:
    """Interfaces that NCCL_SOCKET_IFNAME leaves: prefixes, `=` for exact names, `^` to exclude."""
    exclude = spec.startswith("^")
    rest = spec[1:] if exclude else spec
    exact = rest.startswith("=")
    wanted = [part for part in (rest[1:] if exact else rest).split(",") if part]

    def hit(name: str) -> bool:
        return any(name == part if exact else name.startswith(part) for part in wanted)

    return [name for name in names if hit(name) != exclude]


@check(
    "nccl.interface",
    title="NCCL_SOCKET_IFNAME leaves an interface that is up",
    severity=ERROR,
    reads=(*SETTINGS, "network.interfaces", "network.interfaces_up", "nvml.gpus"),
    sources=("nccl-network-issues", "nccl-parameters"),
    fix=Fix(
        say="name an interface of this host that reaches the other ranks, or unset the variable",
        command="unset NCCL_SOCKET_IFNAME",
    ),
)
def _interface(f: Facts, k: Knowledge) -> Result:
    """NCCL stops when its filter leaves no interface, also for ranks of one host."""
    if gpu_count(f) < 2:
        return skipped("fewer than two GPUs: NCCL opens no connection here")
    spec = settings(f).get("NCCL_SOCKET_IFNAME")
    up = f.network.interfaces_up.value
    if spec is None:
        return passed(f"NCCL_SOCKET_IFNAME is not set; NCCL chooses among {', '.join(up) or 'lo'}")
    left = selected(spec, [*up, "lo"])
    if left:
        return passed(f"NCCL_SOCKET_IFNAME={spec[:80]} leaves {', '.join(left)}")
    there = selected(spec, f.network.interfaces.value)
    what = f"{', '.join(there)}, which is not up" if there else "no interface of this host"
    return failed(
        f"NCCL_SOCKET_IFNAME={spec[:80]} names {what}; up are {', '.join(up) or 'none but lo'}",
        want="an interface that is up",
    )


@check(
    "nccl.gid-index",
    title="The RoCE address index is left to NCCL where NCCL chooses it itself",
    severity=WARN,
    reads=(*SETTINGS, "network.rdma_ports", "nccl.system", "nccl.wheels"),
    sources=("nccl-network-issues",),
    fix=Fix(say="unset it where the engine is started", command="unset NCCL_IB_GID_INDEX"),
)
def _gid_index(f: Facts, k: Knowledge) -> Result:
    """Older releases need it set; newer ones choose at run time and fail when a stale index is
    forced on them.
    """
    roce = [port for port in known_or(f.network.rdma_ports, []) if port.link_layer == "Ethernet"]
    if not roce:
        return skipped("no RoCE port")
    row = next((row for row in k.matrix.rows(NcclBehaviour) if row.id == "roce-gid"), None)
    texts = [*known_or(f.nccl.wheels, {}).values(), known_or(f.nccl.system, "")]
    found = [version(Pep440Version, text, "nccl.wheels") for text in texts if text]
    if row is None or not found:
        return skipped("no NCCL was found")
    value = settings(f).get("NCCL_IB_GID_INDEX")
    chooses = [item for item in found if row.versions.contains(item)]
    if value is not None and chooses:
        return failed(
            f"NCCL_IB_GID_INDEX={value[:20]} and NCCL {chooses[0]}, which chooses the index itself",
            want="unset",
            rows=(row,),
        )
    if value is None and not chooses:
        return failed(
            f"NCCL {found[0]} does not choose the RoCE address index, and NCCL_IB_GID_INDEX is "
            "not set",
            want="the index of the RoCE v2 address, or a newer NCCL",
            say="set it to the index of the port's RoCE v2 address, or use an NCCL that chooses it",
            command="for g in /sys/class/infiniband/*/ports/1/gid_attrs/types/*; do "
            'printf "%s " "$g"; cat "$g"; done 2>/dev/null | grep -i "RoCE v2"',
            rows=(row,),
        )
    return passed(
        f"NCCL {found[0]}, NCCL_IB_GID_INDEX {value[:20] if value else 'not set'}", rows=(row,)
    )


@check(
    "nccl.peermem",
    title="RDMA cards can reach GPU memory",
    severity=WARN,
    reads=("network.rdma_ports", "network.peermem", "driver.flavor", "nvml.gpus"),
    sources=("nccl-gpu-issues", "nccl-peermem-report"),
    fix=Fix(
        say="load nvidia-peermem now and at boot (the RDMA stack must be installed before the "
        "driver), "
        "or use the open kernel modules, which offer DMA-BUF",
        command="sudo modprobe nvidia-peermem "
        "&& echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf",
    ),
)
def _peermem(f: Facts, k: Knowledge) -> Result:
    """Either nvidia-peermem is loaded, or the open modules offer DMA-BUF; without both data goes
    through host memory.
    """
    ports = [port for port in known_or(f.network.rdma_ports, []) if port.state == "ACTIVE"]
    if not ports:
        return skipped("no active RDMA port")
    if gpu_count(f) < 1:
        return skipped("no GPU")
    module = known_or(f.network.peermem, "")
    if module:
        return passed(f"{module} is loaded; {len(ports)} active RDMA port(s)")
    flavor = known_or(f.driver.flavor, "")
    if flavor == "open":
        return passed(f"open kernel modules offer DMA-BUF; {len(ports)} active RDMA port(s)")
    return failed(
        f"{len(ports)} active RDMA port(s), no nvidia-peermem, and {flavor or 'no'} kernel "
        "modules without DMA-BUF",
        want="nvidia-peermem loaded, or open kernel modules",
    )
