"""Pure questions about hardware, drivers, CUDA and systems. Each answer is a row, so that whoever
cites it has its source.

A question that the matrix cannot answer gives None (or an empty tuple): unknown is never fine and
never guessed. Questions about engines are in `engine_query`, image requirements in
`require_cuda`; both are re-exported here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from doctor.matrix.engine_query import (
    engine_environment,
    engine_option,
    engine_options,
    model_architecture,
    nccl,
    nccl_behaviour,
    nccl_floor,
    nccl_known_bad,
    option_values,
    tensorrt_llm,
    tensorrt_llm_satisfying,
    torch,
    torch_builds,
    vllm,
    vllm_satisfying,
)
from doctor.matrix.model import (
    Architecture,
    Branch,
    CudaMajor,
    CudaToolkit,
    Distribution,
    ForwardCompat,
    Gpu,
    ModuleFlavor,
    PciDevice,
    Row,
    Xid,
)
from doctor.matrix.require_cuda import Requirement, require_cuda
from doctor.matrix.system_query import (
    container_compat,
    container_engine,
    container_toolkit,
    distribution,
    driver_packages,
    host_compiler,
    jetson,
    known_issues,
    repository,
    toolkit_cves,
)

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable

    from doctor.matrix.matrix import Matrix

__all__ = [
    "FlavorAnswer",
    "ForwardCompatAnswer",
    "Requirement",
    "RunAnswer",
    "architecture",
    "branch",
    "container_compat",
    "container_engine",
    "container_toolkit",
    "distribution",
    "driver_packages",
    "engine_environment",
    "engine_option",
    "engine_options",
    "forward_compat",
    "gpu_by_name",
    "gpu_by_pci",
    "gpus_with",
    "host_compiler",
    "jetson",
    "known_issues",
    "min_driver_to_run",
    "model_architecture",
    "module_flavor_required",
    "native_cuda",
    "nccl",
    "nccl_behaviour",
    "nccl_floor",
    "nccl_known_bad",
    "newest_supported_branch",
    "option_values",
    "packaged_driver",
    "pci_device",
    "repository",
    "require_cuda",
    "runs",
    "supports",
    "tensorrt_llm",
    "tensorrt_llm_satisfying",
    "toolkit",
    "toolkit_cves",
    "torch",
    "torch_builds",
    "vllm",
    "vllm_satisfying",
    "xid",
]


class FlavorAnswer(msgspec.Struct, frozen=True):
    """Which kernel-module flavour a GPU can run on a branch: one of them, "either", or "none"."""

    flavor: Literal["open", "proprietary", "either", "none"]
    rows: tuple[Row, ...]


class RunAnswer(msgspec.Struct, frozen=True):
    """Whether a driver runs what was built with a CUDA release, and by which rule.

    native: the driver has that release itself, or a newer one. minor: an older minor of the same
    major, with fewer features and no JIT of newer PTX. refused: too old.
    """

    mode: Literal["native", "minor", "refused"]
    rows: tuple[Row, ...]


class ForwardCompatAnswer(msgspec.Struct, frozen=True):
    """Whether cuda-compat can lift a driver to a CUDA release; None where nobody says."""

    possible: bool | None
    package: str
    why: str
    rows: tuple[Row, ...]


# GPUs


def gpu_by_name(matrix: Matrix, name: str) -> Gpu | None:
    """The family of a GPU by the name its driver reports; None unless exactly one fits."""
    patterns: list[tuple[re.Pattern[str], Gpu]] | None = matrix.memo.get("gpu-names")
    if patterns is None:
        patterns = matrix.memo["gpu-names"] = [
            (re.compile(row.names), row) for row in matrix.rows(Gpu)
        ]
    found = [row for pattern, row in patterns if pattern.search(name)]
    return found[0] if len(found) == 1 else None


def pci_device(matrix: Matrix, device_id: str) -> PciDevice | None:
    """The product behind a PCI device id: "2330", "0x2330" or "10de:2330"."""
    return matrix.find(PciDevice, device_id.lower().rpartition(":")[2].removeprefix("0x"))


def gpu_by_pci(matrix: Matrix, device_id: str) -> Gpu | None:
    """The family of a GPU by its PCI device id: what a host without a driver can still say."""
    device = pci_device(matrix, device_id)
    if device is None or device.kind != "gpu":
        return None
    return matrix.find(Gpu, device.family) if device.family else gpu_by_name(matrix, device.name)


def architecture(matrix: Matrix, capability: ComputeCapability | str) -> Architecture | None:
    """The compiler target and limits of a compute capability."""
    return matrix.find(Architecture, str(capability))


def gpus_with(matrix: Matrix, capability: ComputeCapability | str) -> tuple[Gpu, ...]:
    """Every family with that compute capability."""
    return tuple(row for row in matrix.rows(Gpu) if str(row.compute_capability) == str(capability))


# Drivers and CUDA


def branch(matrix: Matrix, driver: DriverVersion | int | str) -> Branch | None:
    """The branch of a driver, 580 of 580.95.05; `row.is_eol(day)` says whether it has ended."""
    number = (
        driver.branch
        if isinstance(driver, DriverVersion)
        else str(driver).lstrip("Rr").partition(".")[0]
    )
    return matrix.find(Branch, str(number))


def toolkit(matrix: Matrix, cuda: CudaVersion | str) -> CudaToolkit | None:
    """A CUDA toolkit; "12.4" without an update number is its first release."""
    want = cuda if isinstance(cuda, CudaVersion) else CudaVersion.parse(cuda)
    rows = [row for row in matrix.rows(CudaToolkit) if row.cuda.release == want.release]
    exact = next((row for row in rows if row.cuda == want), None)
    if exact or want.raw.count(".") > 1:
        return exact
    return min(rows, key=lambda row: row.cuda, default=None)


def packaged_driver(matrix: Matrix, cuda: CudaVersion | str) -> CudaToolkit | None:
    """The toolkit whose `packaged` is the driver that came with it: not the oldest that runs it."""
    row = toolkit(matrix, cuda)
    return row if row and row.packaged else None


def min_driver_to_run(matrix: Matrix, cuda: CudaVersion | str) -> CudaMajor | None:
    """The row whose `min_run` is the oldest driver that runs programs built with a CUDA release."""
    want = cuda if isinstance(cuda, CudaVersion) else CudaVersion.parse(cuda)
    return matrix.find(CudaMajor, want.release.raw) or matrix.find(CudaMajor, str(want.major))


def native_cuda(matrix: Matrix, driver: DriverVersion | int | str) -> Branch | None:
    """The branch whose `cuda` is the level that a driver has itself."""
    return branch(matrix, driver)


def runs(matrix: Matrix, cuda: CudaVersion | str, driver: DriverVersion) -> RunAnswer | None:
    """Whether a driver runs what a CUDA release built; None where no row says."""
    want = cuda if isinstance(cuda, CudaVersion) else CudaVersion.parse(cuda)
    has = branch(matrix, driver)
    if has and has.cuda >= want.release:
        return RunAnswer("native", (has,))
    need = min_driver_to_run(matrix, want)
    if need is None:
        return None
    rows = (need, has) if has else (need,)
    return RunAnswer("minor" if driver >= need.min_run else "refused", rows)


def forward_compat(
    matrix: Matrix, cuda: CudaVersion | str, driver: DriverVersion, gpu: Gpu
) -> ForwardCompatAnswer:
    """Whether cuda-compat may sit on a driver: data center GPUs and named branches only."""
    want = (cuda if isinstance(cuda, CudaVersion) else CudaVersion.parse(cuda)).release
    package = f"cuda-compat-{want.major}-{want.minor}"
    row = matrix.find(ForwardCompat, want.raw)
    rows: tuple[Row, ...] = (gpu, row) if row else (gpu,)
    if gpu.forward_compat is False:
        return ForwardCompatAnswer(
            False, package, "forward compatibility is for data center GPUs", rows
        )
    if gpu.last_cuda is not None and want > gpu.last_cuda:
        return ForwardCompatAnswer(
            False, package, f"{gpu.architecture} ends with CUDA {gpu.last_cuda}", rows
        )
    if row is None:
        return ForwardCompatAnswer(
            None, package, f"no source names the drivers that {package} may sit on", rows
        )
    if driver.branch not in {item.number for item in row.driver_branches}:
        named = ", ".join(str(item) for item in row.driver_branches)
        return ForwardCompatAnswer(
            False, package, f"{package} is for driver branches {named}", rows
        )
    if gpu.forward_compat is None:
        return ForwardCompatAnswer(
            None, package, "no source says whether this GPU has forward compatibility", rows
        )
    return ForwardCompatAnswer(
        True, package, f"{package} is made for driver branch {driver.branch}", rows
    )


def supports(matrix: Matrix, gpu: Gpu, driver: DriverVersion | int | str) -> bool | None:
    """Whether a driver (or branch) knows a GPU; None where no row bounds it."""
    number = (
        driver.branch
        if isinstance(driver, DriverVersion)
        else int(str(driver).lstrip("Rr").partition(".")[0])
    )
    if gpu.last_branch is not None and number > gpu.last_branch.number:
        return False
    if isinstance(driver, DriverVersion) and gpu.min_driver is not None and driver < gpu.min_driver:
        return False
    if gpu.first_branch is None:
        listed = gpu.listed_by is not None and number >= gpu.listed_by.branch
        return True if listed or gpu.last_branch is not None else None
    return number >= gpu.first_branch.number


def module_flavor_required(
    matrix: Matrix, gpu: Gpu, driver: DriverVersion | int | str
) -> FlavorAnswer | None:
    """Which kernel-module flavour a GPU needs on a branch, or None where a row is missing."""
    row = branch(matrix, driver)
    if row is None or gpu.open_modules is None:
        return None
    by_gpu: dict[str, set[ModuleFlavor]] = {
        "required": {"open"},
        "supported": {"open", "proprietary"},
        "unsupported": {"proprietary"},
    }
    left = sorted(by_gpu[gpu.open_modules] & set(row.modules))
    return FlavorAnswer("none" if not left else "either" if len(left) > 1 else left[0], (gpu, row))


def newest_supported_branch(
    matrix: Matrix,
    gpus: Iterable[Gpu],
    as_of: datetime.date,
    distro: Distribution | None = None,
) -> Branch | None:
    """The newest long-lived branch that has not ended and supports GPUs and distribution."""
    wanted = list(gpus)
    if any(gpu.market == "embedded" for gpu in wanted):
        return None  # the driver is part of Jetson Linux
    if distro and distro.supported is False and distro.last_cuda is None:
        return None  # dropped, and nobody says since when
    for row in sorted(matrix.rows(Branch), key=lambda row: row.branch, reverse=True):
        if not row.is_long_lived or row.is_eol(as_of):
            continue
        if distro and distro.last_cuda and row.cuda > distro.last_cuda:
            continue
        answers = [module_flavor_required(matrix, gpu, row.branch.number) for gpu in wanted]
        known = all(supports(matrix, gpu, row.branch.number) for gpu in wanted)
        if known and all(answer and answer.flavor != "none" for answer in answers):
            return row
    return None


def xid(matrix: Matrix, code: int) -> Xid | None:
    """What an Xid means, or None for a code that no row has: a warning, never a pass."""
    return matrix.find(Xid, str(code))
