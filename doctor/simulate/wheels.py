"""What an environment holds besides the packages that are named: what the named ones pin, by the
matrix.
"""

from __future__ import annotations

import re

import msgspec

from doctor.facts.versions import Pep440Version, Specifier
from doctor.matrix import query
from doctor.matrix.model import TensorRTLLM, Torch, Vllm
from doctor.probes.reading.wheel import normalized
from doctor.simulate.description import PythonPart
from doctor.simulate.knowledge import matrix

FIRST_CUDA_TORCH_ON_AARCH64 = Pep440Version("2.10.0")
"""Before it the aarch64 wheels on PyPI were CPU builds (pytorch/pytorch#168065, vllm-
project/vllm#43115).
"""
VLLM_PINS = {
    "torch": "torch",
    "transformers": "transformers",
    "flashinfer": "flashinfer-python",
    "flashinfer_cubin": "flashinfer-cubin",
    "xformers": "xformers",
    "xgrammar": "xgrammar",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "ray": "ray",
    "numpy": "numpy",
}
FILLED = frozenset({"torch", "xgrammar", "flashinfer-python", "flashinfer-cubin"})


class Contents(msgspec.Struct, frozen=True):
    """Packages with their versions, and what their metadata says."""

    packages: dict[str, str]
    torch_cuda: str | None
    requires: dict[str, list[str]]
    requires_python: dict[str, str]
    tags: dict[str, str]


def contents(part: PythonPart, machine: str) -> Contents:
    """Everything in one environment."""
    packages = {normalized(name): version for name, version in part.packages.items()}
    requires: dict[str, list[str]] = {}
    python: dict[str, str] = {}
    tags: dict[str, str] = {}
    if "vllm" in packages:
        _vllm(packages, requires, python, tags, fill=not part.bare)
    if "tensorrt-llm" in packages:
        _tensorrt_llm(packages, requires, python, fill=not part.bare)
    cuda = _torch_cuda(packages.get("torch"), machine)
    if "torch" in packages:
        _torch(packages, requires, python, tags, cuda, fill=not part.bare)
    requires.update({normalized(name): lines for name, lines in part.requires.items()})
    python.update({normalized(name): text for name, text in part.requires_python.items()})
    tags.update({normalized(name): tag for name, tag in part.tags.items()})
    return Contents(packages, cuda, requires, python, tags)


def cuda_of_label(version: str) -> str | None:
    """2.11.0+cu130 -> 13.0."""
    found = re.search(r"\+cu(\d+)(\d)$", version)
    return f"{found[1]}.{found[2]}" if found else None


def _vllm(
    packages: dict[str, str],
    requires: dict[str, list[str]],
    python: dict[str, str],
    tags: dict[str, str],
    *,
    fill: bool,
) -> None:
    version = packages["vllm"]
    row: Vllm | None = query.vllm(matrix(), version)
    if row is None:
        packages.setdefault("torch", "2.11.0") if fill else None
        return
    label = version.partition("+")[2]
    lines = []
    for field, name in VLLM_PINS.items():
        pin: Specifier | None = getattr(row, field)
        if pin is None:
            continue
        lines.append(f"{name}{pin}")
        if fill and pin.exact and name in FILLED:
            suffix = f"+{label}" if name == "torch" and label.startswith("cu") else ""
            packages.setdefault(name, str(pin.exact) + suffix)
    requires["vllm"] = lines
    python["vllm"] = str(row.requires_python)
    tags["vllm"] = row.wheel_tag


def _tensorrt_llm(
    packages: dict[str, str],
    requires: dict[str, list[str]],
    python: dict[str, str],
    *,
    fill: bool,
) -> None:
    row: TensorRTLLM | None = query.tensorrt_llm(matrix(), packages["tensorrt-llm"])
    if row is None:
        return
    lines = []
    for name, pin in (("torch", row.torch), ("tensorrt", row.tensorrt), ("xgrammar", row.xgrammar)):
        if pin is None:
            continue
        lines.append(f"{name}~={pin}" if str(pin).count(".") else f"{name}>={pin}")
        if fill:
            index = row.torch_index if name == "torch" else None
            packages.setdefault(name, f"{pin}+{index}" if index else str(pin))
    requires["tensorrt-llm"] = lines
    if row.requires_python:
        python["tensorrt-llm"] = str(row.requires_python)


def _torch_cuda(version: str | None, machine: str) -> str | None:
    if version is None or version.endswith("+cpu"):
        return None
    labelled = cuda_of_label(version)
    if labelled:
        return labelled
    if machine == "aarch64" and Pep440Version(version) < FIRST_CUDA_TORCH_ON_AARCH64:
        return None
    row = query.torch(matrix(), version)
    return str(row.cuda) if row else "12.8"


def _torch(
    packages: dict[str, str],
    requires: dict[str, list[str]],
    python: dict[str, str],
    tags: dict[str, str],
    cuda: str | None,
    *,
    fill: bool,
) -> None:
    row: Torch | None = query.torch(matrix(), packages["torch"])
    if row is None:
        return
    python["torch"] = str(row.requires_python)
    tags["torch"] = row.wheel_tag
    if cuda is None:
        return
    major = cuda.partition(".")[0]
    names = {
        f"nvidia-nccl-cu{major}": _nccl(row, packages["torch"]) or row.nccl,
        f"nvidia-cudnn-cu{major}": row.cudnn,
        "triton": row.triton,
    }
    if major == "12" and row.cuda.major == 12:
        names["nvidia-cuda-runtime-cu12"] = row.cuda_runtime
        names["nvidia-nvjitlink-cu12"] = row.nvjitlink
    elif major == "12":
        names["nvidia-cuda-runtime-cu12"] = Specifier(f"=={cuda}.90")
        names["nvidia-nvjitlink-cu12"] = Specifier(f"=={cuda}.93")
    elif row.cuda.major == 13:
        names["cuda-toolkit"] = row.cuda_runtime
    pinned = {name: pin for name, pin in names.items() if pin is not None}
    requires["torch"] = [f'{name}{pin}; platform_system == "Linux"' for name, pin in pinned.items()]
    for name, pin in pinned.items():
        if fill and pin.exact:
            packages.setdefault(name, str(pin.exact))
    if fill and major == "13":
        packages.setdefault("nvidia-cuda-runtime", "13.0.96")
        packages.setdefault("nvidia-nvjitlink", "13.0.88")


def _nccl(row: Torch, version: str) -> Specifier | None:
    index = version.partition("+")[2]
    for build in query.torch_builds(matrix(), row.version):
        if build.index == index and build.nccl:
            return Specifier(f"=={build.nccl}")
    return None
