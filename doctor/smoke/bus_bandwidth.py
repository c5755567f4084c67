"""Bus bandwidth of a collective: by the formula of the matrix, against the floor of the matrix, and why it is low."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from doctor.checks.finding import Evidence
from doctor.facts.areas.nvml import Gpu
from doctor.facts.model import Known
from doctor.matrix.engines import BandwidthFormula, LinkSpeed
from doctor.matrix.query import nccl_floor
from doctor.matrix.row import Row
from doctor.smoke.nccl_log import Transports

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix
    from doctor.smoke.context import Context

BOARDS = (
    (r"\bH100 80GB HBM3\b|\bH100 SXM", "H100 SXM5"),
    (r"\bH200$", "H200 SXM"),
    (r"\bA100-SXM4\b", "A100 SXM4"),
    (r"\bA100\b.*\bPCI[eE]\b", "A100 PCIe"),
    (r"\bGB200\b", "GB200"),
)
"""Names that NVML gives -> boards as the floors name them; a board that is not here has no public floor."""
ANOTHER_WAY = ("infiniband", "shm-")
"""Starts of links that are not the way between GPUs of one host."""
MARGIN = 0.8
"""Share of a floor that is asked for where the row is one measurement, or an operator's for larger messages than are sent
here: the share that the measured row of matrices/nccl_floors.yml states."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The least bandwidth that is not called slow."""

    gb_s: float
    text: str
    rows: tuple[Row, ...]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why the bandwidth is low, and what to do."""

    text: str
    say: str
    command: str
    cause: str | None = None
    """The host's finding."""
    evidence: tuple[Evidence, ...] = ()


def bus_bandwidth(matrix: Matrix, op: str, ranks: int, algbw: float) -> float | None:
    """By the factor that nccl-tests uses; None where no row has the operation."""
    row = matrix.find(BandwidthFormula, op)
    return None if row is None else algbw * factor(row.factor, ranks)


def factor(text: str, n: int) -> float:
    """The value of a formula over n, the number of ranks."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name) and node.id == "n":
            return n
        raise ValueError(f"not a formula over n: {text}")

    return value(ast.parse(text, mode="eval").body)


def expected(ctx: Context, ranks: int, size: int) -> Expected | None:
    """The floor for these GPUs and links; else, with NVLinks up, more than NCCL plans for PCIe; else nothing is known."""
    gpus = _gpus(ctx)
    links = bool(gpus) and all(_number(gpu.nvlink_up) for gpu in gpus)
    names = {gpu.name.value for gpu in gpus if isinstance(gpu.name, Known)}
    board = board_of(names.pop()) if len(names) == 1 else None
    if board is not None:
        for row in nccl_floor(ctx.knowledge.matrix, board, ranks):
            if row.link.startswith(ANOTHER_WAY) or ("nv" in row.link and not links):
                continue
            less = row.measured or size < bytes_of(row.size)
            least = row.busbw_gb_s * (MARGIN if less else 1.0)
            basis = "measured" if row.measured else "an operator's floor"
            share = f"{MARGIN:.0%} of " if less else ""
            text = f"{least:.0f} GB/s ({share}{row.busbw_gb_s:.0f}, {basis} at {row.size} for {ranks}x {board})"
            return Expected(gb_s=least, text=text, rows=(row,))
    return _more_than_pcie(ctx, gpus) if links else None


def board_of(name: str) -> str | None:
    """The board by NVML's name."""
    return next((board for pattern, board in BOARDS if re.search(pattern, name)), None)


def bytes_of(size: str) -> int:
    """16G -> bytes."""
    return int(size[:-1]) * _UNITS[size[-1]]


def _more_than_pcie(ctx: Context, gpus: list[Gpu]) -> Expected | None:
    row = ctx.knowledge.matrix.find(LinkSpeed, "pcie-gen3-x16")
    links = [
        (generation, width)
        for gpu in gpus
        if (generation := _number(gpu.pcie_generation_max))
        and (width := _number(gpu.pcie_width_max))
    ]
    if row is None or row.gb_s is None or not links:
        return None
    speed = min(row.gb_s * 2 ** (generation - 3) * width / 16 for generation, width in links)
    return Expected(
        gb_s=speed,
        text=f"{speed:.0f} GB/s, what NCCL plans for PCIe alone, although NVLinks are up",
        rows=(row,),
    )


def reasons(ctx: Context, transports: Transports) -> list[Reason]:
    """What is seen that makes it slow, the first the likeliest: switched off, refused, redirected, not there."""
    found = [
        _switched_off(ctx),
        _no_p2p(ctx),
        _from_finding(ctx, "pci.acs", "ACS sends traffic between GPUs through the root complex"),
        _iommu(ctx),
        _from_finding(ctx, "fabric.not-ready", "the NVSwitch fabric is not ready"),
        _links_down(ctx),
        _from_finding(ctx, "pci.link-degraded", "a PCIe link has fewer lanes than it could"),
        _pcie_only(ctx),
        _host_memory(transports),
    ]
    return [reason for reason in found if reason is not None]


def _switched_off(ctx: Context) -> Reason | None:
    env = ctx.facts.nccl.environment
    conf = ctx.facts.nccl.conf
    values = (conf.value if isinstance(conf, Known) else {}) | (
        env.value if isinstance(env, Known) else {}
    )
    names = [name for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE") if values.get(name) == "1"]
    names += [name for name in ("NCCL_P2P_LEVEL", "NCCL_ALGO", "NCCL_PROTO") if values.get(name)]
    if not names and _switched(ctx) and values.get("NCCL_NVLS_ENABLE") == "0":
        names = ["NCCL_NVLS_ENABLE"]  # costs only where NVSwitches could add
    if not names:
        return None
    found = ctx.finding("nccl.p2p-disabled")
    return Reason(
        text=", ".join(f"{name}={values[name]}" for name in names),
        say="leave the choice to NCCL",
        command=f"unset {' '.join(names)}; grep -n NCCL_ /etc/nccl.conf ~/.nccl.conf",
        cause=found.id if found and found.violated else None,
        evidence=tuple(
            Evidence(fact=f"nccl.environment[{name}]", value=values[name]) for name in names
        ),
    )


def _switched(ctx: Context) -> bool:
    """Whether more than a pair of GPUs talks through NVSwitches."""
    return len(_gpus(ctx)) > 2 and any(_number(gpu.nvlink_up) for gpu in _gpus(ctx))


def _no_p2p(ctx: Context) -> Reason | None:
    if ctx.shared.get("cuda-p2p") is not False:
        return None
    return Reason(
        text="the driver gives no P2P between the GPUs",
        say="see which pairs, and the driver's reason",
        command="nvidia-smi topo -p2p r",
    )


def _iommu(ctx: Context) -> Reason | None:
    gpus = ctx.facts.pci.gpus
    types = {
        device.address: device.iommu_type.value
        for device in (gpus.value if isinstance(gpus, Known) else [])
        if isinstance(device.iommu_type, Known) and device.iommu_type.value != "identity"
    }
    if not types:
        return None
    return Reason(
        text=f"the IOMMU translates for {', '.join(types)}",
        say="on bare metal, put the IOMMU in passthrough mode at the next boot",
        command="cat /proc/cmdline  # add iommu=pt",
        evidence=tuple(
            Evidence(fact=f"pci.gpus[{address}].iommu_type", value=kind)
            for address, kind in types.items()
        ),
    )


def _links_down(ctx: Context) -> Reason | None:
    down = [
        (gpu.index, up, total)
        for gpu in _gpus(ctx)
        if (total := _number(gpu.nvlink_total)) and (up := _number(gpu.nvlink_up)) < total
    ]
    if not down:
        return None
    return Reason(
        text=", ".join(f"GPU {index} has {up} of {total} NVLinks up" for index, up, total in down),
        say="see which links are down",
        command="nvidia-smi nvlink -s && nvidia-smi nvlink -e",
    )


def _pcie_only(ctx: Context) -> Reason | None:
    gpus = _gpus(ctx)
    if not gpus or any(_number(gpu.nvlink_up) for gpu in gpus):
        return None
    return Reason(
        text="no NVLink is up: PCIe only",
        say="this is what PCIe gives; tensor parallelism over it is slow",
        command="nvidia-smi topo -m",
    )


def _host_memory(transports: Transports) -> Reason | None:
    ways = [way for way in transports.ways if not way.startswith("P2P")]
    if not ways:
        return None
    return Reason(
        text=f"NCCL's log says that ranks talk via {', '.join(ways)}",
        say="see why NCCL did not take P2P",
        command="nvidia-smi topo -p2p r && nvidia-smi topo -m",
        evidence=(Evidence(fact="smoke.nccl.transports", value=transports.text),),
    )


def _from_finding(ctx: Context, id: str, text: str) -> Reason | None:
    found = ctx.finding(id)
    if found is None or not found.violated:
        return None
    fix = found.fix
    return Reason(
        text=f"{text} ({id})",
        say=fix.say if fix else found.message,
        command=(fix.command if fix else None) or f"doctor explain {id}",
        cause=id,
        evidence=tuple(found.evidence),
    )


def _gpus(ctx: Context) -> list[Gpu]:
    gpus = ctx.facts.nvml.gpus
    return list(gpus.value.values()) if isinstance(gpus, Known) else []


def _number(fact: object) -> int:
    """The number, or 0 where there is none to see: only used to choose what to expect and what to say."""
    return int(fact.value) if isinstance(fact, Known) else 0
