"""Columns of registry rows from package metadata. Pure: metadata in, columns out, nothing guessed.

A column that the metadata does not carry is left out, so that a refresh never overwrites what a
page or an issue says with nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement

from doctor.facts.versions import Pep440Version
from doctor.matrix.model import CudaMajor, Torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from doctor.matrix.matrix import Matrix
    from doctor.matrix.registry import Index, IndexFile

LINUX = {
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "sys_platform": "linux",
    "os_name": "posix",
    "python_version": "3.11",
    "python_full_version": "3.11.9",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
}
"""The host that rows speak for: Linux on x86-64 with CPython 3.11."""

FIRST = {"vllm": "0.2.7", "torch": "2.1.0", "tensorrt-llm": "0.9.0"}
"""The oldest release that the tables are about."""

VLLM_COLUMNS = {
    "torch": "torch",
    "transformers": "transformers",
    "flashinfer-python": "flashinfer",
    "flashinfer": "flashinfer",
    "flashinfer-cubin": "flashinfer_cubin",
    "vllm-flash-attn": "flash_attn",
    "xformers": "xformers",
    "xgrammar": "xgrammar",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "nvidia-cutlass-dsl": "cutlass_dsl",
    "tilelang": "tilelang",
    "ray": "ray",
    "numpy": "numpy",
}

TORCH_COLUMNS = {
    "nvidia-cuda-runtime": "cuda_runtime",
    "cuda-toolkit": "cuda_runtime",
    "nvidia-nccl": "nccl",
    "nvidia-cudnn": "cudnn",
    "triton": "triton",
    "pytorch-triton": "triton",
    "nvidia-cublas": "cublas",
    "nvidia-nvjitlink": "nvjitlink",
    "nvidia-nvshmem": "nvshmem",
}

NVIDIA_WHEELS = (
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cublas-cu12",
    "nvidia-cuda-runtime-cu12",
    "nvidia-nvjitlink-cu12",
    "nvidia-nvshmem-cu12",
    "nvidia-nvshmem-cu13",
)
"""Library wheels whose releases are listed, because engines pin them or shadow the system's."""


def requirements(metadata: bytes) -> dict[str, str]:
    """Every dependency that holds on the host of the rows, with its specifier; no extras."""
    raw, _ = parse_email(metadata)
    found: dict[str, str] = {}
    for text in raw.get("requires_dist", []):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate(LINUX):
            name = re.sub(r"[-_.]+", "-", requirement.name).lower()
            found.setdefault(name, str(requirement.specifier))
    return found


def requires_python(metadata: bytes) -> str | None:
    """The Requires-Python of a release."""
    raw, _ = parse_email(metadata)
    return raw.get("requires_python")


def wheel_tag(file: IndexFile) -> dict[str, str]:
    """The platform tag without the machine and the glibc it promises; manylinux1 promises none."""
    match = file.wheel
    if match is None:
        return {}
    tag = re.sub(r"_x86_64.*", "", match["platform"])
    columns = {"wheel_tag": tag}
    if exact := re.fullmatch(r"manylinux_(\d+)_(\d+)", tag):
        columns["glibc"] = f"{exact[1]}.{exact[2]}"
    elif tag == "manylinux2014":
        columns["glibc"] = "2.17"
    return columns


def preferred_wheel(index: Index, version: str) -> IndexFile | None:
    """The wheel that the rows speak for: CPython 3.11's own, else the stable ABI, else any."""

    def rank(file: IndexFile) -> tuple[int, int]:
        match = file.wheel
        if match is None:
            return -1, 0
        own = 2 if match["python"] == "cp311" else 1 if match["abi"] == "abi3" else 0
        return own, int(re.sub(r"\D.*", "", match["build"] or "0") or 0)

    return max(index.wheels(version), key=rank, default=None)


def versions(index: Index, first: str) -> list[str]:
    """Released versions from the first that a table is about, oldest first; no pre-releases."""
    found = {v for file in index.files if (v := file.version) and not file.yanked}
    known = {text: Pep440Version.maybe(text) for text in found}
    low = Pep440Version(first)
    kept = [v for v in known.values() if v and v >= low and not v.is_prerelease and not v.local]
    return [str(v) for v in sorted(kept)]


def torch_columns(file: IndexFile, metadata: bytes, matrix: Matrix) -> dict[str, Any]:
    """The columns of a torch row."""
    columns: dict[str, Any] = {"requires_python": requires_python(metadata), **wheel_tag(file)}
    for name, specifier in requirements(metadata).items():
        column = TORCH_COLUMNS.get(re.sub(r"-cu\d+$", "", name))
        if column and specifier:
            columns[column] = specifier
    if runtime := re.match(r"==(\d+\.\d+)", columns.get("cuda_runtime", "")):
        columns["cuda"] = runtime[1]
        columns |= _min_driver(matrix, runtime[1])
    return _known(columns)


def vllm_columns(
    file: IndexFile, metadata: bytes, matrix: Matrix, torches: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The columns of a vLLM row; CUDA and NCCL are those of the torch that it pins."""
    columns: dict[str, Any] = {"requires_python": requires_python(metadata), **wheel_tag(file)}
    for name, specifier in requirements(metadata).items():
        if (column := VLLM_COLUMNS.get(name)) and specifier:
            columns[column] = specifier
    pinned = columns.get("torch", "").removeprefix("==")
    torch = torches.get(pinned) or _torch_row(matrix, pinned)
    if torch and torch.get("cuda"):
        columns["torch_cuda"] = str(torch["cuda"])
        columns |= {"nccl": str(torch["nccl"])} if torch.get("nccl") else {}
        columns |= _min_driver(matrix, str(torch["cuda"]))
    return _known(columns)


def _torch_row(matrix: Matrix, version: str) -> Mapping[str, Any]:
    row = matrix.find(Torch, version)
    return {"cuda": row.cuda, "nccl": row.nccl} if row else {}


def _min_driver(matrix: Matrix, cuda: str) -> dict[str, str]:
    row = matrix.find(CudaMajor, cuda) or matrix.find(CudaMajor, cuda.partition(".")[0])
    return {"min_driver": str(row.min_run)} if row else {}


def _known(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if value}
