"""Python environments, read from metadata; nothing is imported."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Environment(Record, frozen=True, kw_only=True):
    """One prefix (or system folder) that holds packages of interest, and what their metadata
    says.
    """

    path: str
    """Prefix, for example /opt/venv."""
    site: str = ""
    """The folder with the packages."""
    python: str | None = None
    """Version of the interpreter the folder is for: 3.12.3, or 3.12 where only the folder's name
    says it.
    """
    in_scope: bool = False
    """The judged scope's VIRTUAL_ENV, CONDA_PREFIX or PATH, or an engine's unit, leads here."""
    packages: dict[str, str] = {}
    """torch, vllm, tensorrt-llm, tensorrt, triton, flashinfer-python, transformers, nvidia-*:
    name as PEP 503 normalizes it (dashes) -> version.
    """
    torch_cuda: str | None = None
    """CUDA version torch was built for, from torch/version.py; None for a CPU build, when torch
    is absent, or when it was not seen (torch is there, torch_cpu_only is false).
    """
    torch_cpu_only: bool = False
    glibc_tags: dict[str, str] = {}
    """package -> oldest glibc that a manylinux tag of its WHEEL file admits, for example 2.28."""
    architectures: dict[str, str] = {}
    """package -> machine of its WHEEL tags, for example x86_64."""
    requires: dict[str, list[str]] = {}
    """package -> its Requires-Dist lines about packages of interest, without those of extras."""
    requires_python: dict[str, str] = {}
    libraries: dict[str, str] = {}
    """soname -> path of bundled libnccl, libcudart, libcudnn, libnvJitLink, libcuda."""


class PythonFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where engines would run."""

    environments: Fact[list[Environment]] = NOT_PROBED
    unread: Fact[list[str]] = NOT_PROBED
    """Places where an environment may be that could not be read."""
    system_python: Fact[str] = NOT_PROBED
    """Version of /usr/bin/python3."""
    managed_by: Fact[str] = NOT_PROBED
    """EXTERNALLY-MANAGED marker of the system Python; Absent when pip may install there."""
    ninja: Fact[str] = NOT_PROBED
    """The system's ninja; Absent when there is none."""
