"""Rows about the software that runs on CUDA: torch, vLLM, TensorRT-LLM, NCCL and their options."""

import datetime
from typing import ClassVar

from doctor.facts.versions import (
    ComputeCapability,
    CudaVersion,
    DriverVersion,
    GlibcVersion,
    Pep440Version,
    Specifier,
)
from doctor.matrix.row import Row


class Torch(Row, frozen=True, kw_only=True):
    """A torch release as PyPI serves it for Linux x86-64: default CUDA build and what it pins."""

    KEY: ClassVar = ("version",)

    version: Pep440Version
    requires_python: Specifier
    cuda: CudaVersion
    min_driver: DriverVersion
    wheel_tag: str
    glibc: GlibcVersion | None = None
    cuda_runtime: Specifier | None = None
    nccl: Specifier | None = None
    cudnn: Specifier | None = None
    triton: Specifier | None = None
    cublas: Specifier | None = None
    nvjitlink: Specifier | None = None
    nvshmem: Specifier | None = None


class TorchBuild(Row, frozen=True, kw_only=True):
    """A build of a torch series on download.pytorch.org and the compute capabilities in it."""

    KEY: ClassVar = ("torch", "index")

    torch: Pep440Version
    index: str
    cuda: CudaVersion
    compute_capabilities: tuple[ComputeCapability, ...] = ()
    volta: bool | None = None
    pypi_default: bool = False
    nccl: Pep440Version | None = None
    cudnn: Pep440Version | None = None


class Vllm(Row, frozen=True, kw_only=True):
    """A vLLM release as PyPI serves it for Linux x86-64, and what it pins."""

    KEY: ClassVar = ("version",)

    version: Pep440Version
    requires_python: Specifier
    torch: Specifier
    torch_cuda: CudaVersion | None = None
    cuda: CudaVersion | None = None
    min_driver: DriverVersion | None = None
    min_compute_capability: ComputeCapability | None = None
    wheel_tag: str
    glibc: GlibcVersion | None = None
    nccl: Specifier | None = None
    transformers: Specifier | None = None
    flashinfer: Specifier | None = None
    flashinfer_cubin: Specifier | None = None
    flash_attn: Specifier | None = None
    xformers: Specifier | None = None
    xgrammar: Specifier | None = None
    torchvision: Specifier | None = None
    torchaudio: Specifier | None = None
    cutlass_dsl: Specifier | None = None
    tilelang: Specifier | None = None
    ray: Specifier | None = None
    numpy: Specifier | None = None


class TensorRTLLM(Row, frozen=True, kw_only=True):
    """A TensorRT-LLM release: the TensorRT, CUDA and torch it is built with, and its images."""

    KEY: ClassVar = ("version",)

    version: Pep440Version
    tensorrt: Pep440Version | None = None
    cuda: CudaVersion | None = None
    torch: Pep440Version | None = None
    torch_index: str | None = None
    min_driver: DriverVersion | None = None
    requires_python: Specifier | None = None
    python: tuple[Pep440Version, ...] = ()
    transformers: Pep440Version | None = None
    nccl: Pep440Version | None = None
    triton: Pep440Version | None = None
    xgrammar: Pep440Version | None = None
    image: str | None = None
    base_image: str | None = None
    backend_image: str | None = None
    os_tested: tuple[str, ...] = ()


class TensorRT(Row, frozen=True, kw_only=True):
    """A TensorRT release, its CUDA and the oldest compute capability it builds for."""

    KEY: ClassVar = ("version",)

    version: Pep440Version
    cuda: tuple[CudaVersion, ...] = ()
    min_driver: DriverVersion | None = None
    min_compute_capability: ComputeCapability | None = None
    python: tuple[Pep440Version, ...] = ()


class Cudnn(Row, frozen=True, kw_only=True):
    """A cuDNN release: CUDA majors, oldest driver and oldest compute capability."""

    KEY: ClassVar = ("version",)

    version: Pep440Version
    cuda_majors: tuple[str, ...]
    min_driver: dict[str, DriverVersion] = {}
    min_compute_capability: dict[str, ComputeCapability] = {}


class NvidiaWheel(Row, frozen=True, kw_only=True):
    """A release of one of NVIDIA's library wheels on PyPI."""

    KEY: ClassVar = ("package", "version")

    package: str
    version: Pep440Version
    glibc: GlibcVersion | None = None
    wheel_tag: str | None = None


class Nccl(Row, frozen=True, kw_only=True):
    """An NCCL release: where it is published and which torch pins it."""

    KEY: ClassVar = ("version",)

    version: Pep440Version
    wheels: tuple[str, ...] = ()
    torch: tuple[Pep440Version, ...] = ()
    tagged: datetime.date | None = None


class NcclKnownBad(Row, frozen=True, kw_only=True):
    """NCCL versions with a known fault, the platforms it shows on and the ways out."""

    KEY: ClassVar = ("id",)
    SITE_MAY_NOT_SET: ClassVar = frozenset({"remedy"})

    id: str
    versions: Specifier
    problem: str
    remedy: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()


class NcclBehaviour(Row, frozen=True, kw_only=True):
    """What NCCL does by default in a range of versions."""

    KEY: ClassVar = ("id", "versions")
    RANGE: ClassVar = ("versions",)

    id: str
    versions: Specifier
    behaviour: str
    env: str | None = None
    default: str | None = None
    driver_cuda_min: CudaVersion | None = None
    build_cuda_min: CudaVersion | None = None
    texts: tuple[str, ...] = ()
    values: dict[str, str] = {}
    remedy: tuple[str, ...] = ()


class NcclFloor(Row, frozen=True, kw_only=True):
    """A bus bandwidth that an operator accepts, or one that was measured, for one topology."""

    KEY: ClassVar = ("id",)

    id: str
    gpu: str
    gpus: int
    link: str
    op: str
    size: str
    busbw_gb_s: float
    measured: bool = False


class LinkSpeed(Row, frozen=True, kw_only=True):
    """A speed of a link: what NCCL plans with, or what an operator accepts between two points."""

    KEY: ClassVar = ("id",)

    id: str
    what: str
    gb_s: float | None = None
    links: int | None = None
    full_gb_s: float | None = None
    host_device_gb_s: float | None = None
    peer_gb_s: float | None = None
    since: Pep440Version | None = None


class BandwidthFormula(Row, frozen=True, kw_only=True):
    """How nccl-tests gets bus bandwidth from algorithm bandwidth."""

    KEY: ClassVar = ("op",)

    op: str
    factor: str


class ModelArchitecture(Row, frozen=True, kw_only=True):
    """A model class as config.json names it, and the first vLLM release that registers it."""

    KEY: ClassVar = ("architecture",)

    architecture: str
    first_vllm: Pep440Version
    not_in: Pep440Version | None = None
    last_vllm: Pep440Version | None = None
    task: str | None = None


class EngineOption(Row, frozen=True, kw_only=True):
    """An option of an engine's command, with the first and the last release seen to have it."""

    KEY: ClassVar = ("command", "name", "since")

    command: str
    name: str
    meaning: str
    since: Pep440Version | None = None
    until: Pep440Version | None = None
    not_in: Pep440Version | None = None
    gone_in: Pep440Version | None = None
    deprecated_in: Pep440Version | None = None
    replaced_by: str | None = None
    aliases: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    default: str | None = None


class OptionValues(Row, frozen=True, kw_only=True):
    """What an option accepts, and its default, in a range of releases.

    `open_ended` says that more values exist than are listed: one that is not listed is then
    unknown, not wrong.
    """

    KEY: ClassVar = ("command", "name", "since")
    RANGE: ClassVar = ("since", "until")

    command: str
    name: str
    since: Pep440Version
    until: Pep440Version | None = None
    values: tuple[str, ...] = ()
    open_ended: bool = False
    interval: str | None = None
    default: str | None = None
    max_on_cuda: str | None = None


class EngineEnvironment(Row, frozen=True, kw_only=True):
    """An environment variable that an engine reads or sets, in a range of releases."""

    KEY: ClassVar = ("engine", "name", "since")
    RANGE: ClassVar = ("since", "until")

    engine: str
    name: str
    since: Pep440Version
    until: Pep440Version | None = None
    default: str | None = None
    set_by_engine: str | None = None
