"""Python environments, read from metadata; nothing is imported."""

from __future__ import annotations

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Environment(Record, frozen=True, kw_only=True):
    """One site-packages folder and what its metadata says."""

    path: str
    """Prefix, for example /opt/venv."""
    python: str | None = None
    packages: dict[str, str] = {}
    """torch, vllm, tensorrt_llm, tensorrt, triton, flashinfer, transformers, nvidia-*: normalized name -> version."""
    torch_cuda: str | None = None
    """CUDA version torch was built for, from torch/version.py; None for a CPU build or when torch is absent."""
    torch_cpu_only: bool = False
    glibc_tags: dict[str, str] = {}
    """package -> newest manylinux tag of its WHEEL file, for example 2_28."""
    libraries: dict[str, str] = {}
    """soname -> path of bundled libnccl, libcudart, libcuda, libnvJitLink."""


class PythonFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where engines would run."""

    environments: Fact[list[Environment]] = NOT_PROBED
    system_python: Fact[str] = NOT_PROBED
    """Version of /usr/bin/python3."""
    managed_by: Fact[str] = NOT_PROBED
    """EXTERNALLY-MANAGED marker of the system Python; Absent when pip may install there."""
