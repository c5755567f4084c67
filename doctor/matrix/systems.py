"""Rows about what surrounds the driver: distributions, containers, compilers, known faults."""

import datetime
from typing import ClassVar, Literal

from doctor.facts.versions import (
    ComputeCapability,
    CudaVersion,
    DriverBranch,
    DriverVersion,
    GlibcVersion,
    Pep440Version,
    Specifier,
)
from doctor.matrix.hardware import ModuleFlavor
from doctor.matrix.row import Row


class Distribution(Row, frozen=True, kw_only=True):
    """A distribution release: what it brings, and how a driver is installed there.

    `supported` is whether NVIDIA's guides list it today; `last_cuda` the last toolkit that did.
    """

    KEY: ClassVar = ("id", "version")
    SITE_MAY_NOT_SET: ClassVar = frozenset(
        {"headers", "extra_repositories", "dnf_stream", "branch_lock"}
    )

    id: str
    version: str
    name: str
    like: tuple[str, ...] = ()
    repository: str
    kernels: tuple[str, ...] = ()
    glibc: GlibcVersion | None = None
    gcc: str | None = None
    python: str | None = None
    python_extra: tuple[str, ...] = ()
    podman: str | None = None
    systemd: str | None = None
    cgroup: Literal["v1", "v2"] | None = None
    supported: bool | None = None
    last_cuda: CudaVersion | None = None
    dnf_modules: bool | None = None
    dnf_stream: str | None = None
    branch_lock: str | None = None
    headers: tuple[str, ...] = ()
    extra_repositories: tuple[str, ...] = ()
    minors: tuple[str, ...] = ()
    released: datetime.date | None = None


class Repository(Row, frozen=True, kw_only=True):
    """A package repository of NVIDIA's and the key that signs it. Never set by a site."""

    KEY: ClassVar = ("codename", "format", "status")
    SITE_MAY_ADD: ClassVar = False

    codename: str
    format: Literal["deb", "rpm"]
    status: Literal["current", "retired"]
    url: str | None = None
    key_file: str | None = None
    key_url: str | None = None
    fingerprint: str | None = None
    keyring_package: str | None = None
    keyring: str | None = None
    retired: str | None = None


class DriverPackages(Row, frozen=True, kw_only=True):
    """The packages that install one driver flavour from one archive on one distribution release."""

    KEY: ClassVar = ("distribution", "archive", "flavor", "branch", "purpose")
    SITE_MAY_ADD: ClassVar = False

    distribution: str
    archive: Literal["distribution", "nvidia"]
    flavor: ModuleFlavor
    purpose: Literal["server", "desktop", "any"]
    packages: tuple[str, ...]
    branch: DriverBranch | None = None
    version: DriverVersion | None = None
    dnf_stream: str | None = None
    kmods: tuple[str, ...] = ()


class ContainerToolkit(Row, frozen=True, kw_only=True):
    """A release of the NVIDIA Container Toolkit and what changed in it."""

    KEY: ClassVar = ("version",)

    version: Pep440Version
    released: datetime.date | None = None
    notable: tuple[str, ...] = ()


class ContainerCve(Row, frozen=True, kw_only=True):
    """A vulnerability of the NVIDIA Container Toolkit: its versions and modes."""

    KEY: ClassVar = ("cve",)

    cve: str
    fixed_in: Pep440Version
    affected: Specifier
    affected_in_legacy: Specifier | None = None
    not_affected_modes: tuple[str, ...] = ()
    only_if: str | None = None
    cvss: float | None = None
    vector: str | None = None
    what: str
    workaround: str | None = None


class ContainerEngine(Row, frozen=True, kw_only=True):
    """What a container engine can do with CDI and --gpus, from which version."""

    KEY: ClassVar = ("engine",)

    engine: str
    gpus_flag_since: Pep440Version | None = None
    cdi_since: Pep440Version | None = None
    cdi_default_since: Pep440Version | None = None
    cdi_spec_0_7_since: Pep440Version | None = None


class ContainerCompat(Row, frozen=True, kw_only=True):
    """What a toolkit does with the CUDA compat libraries that an image carries."""

    KEY: ClassVar = ("versions",)
    RANGE: ClassVar = ("versions",)

    versions: Specifier
    behaviour: str
    switch: str | None = None


class HostCompiler(Row, frozen=True, kw_only=True):
    """The host compilers that nvcc of one CUDA release accepts."""

    KEY: ClassVar = ("cuda",)

    cuda: CudaVersion
    gcc_min: str | None = None
    gcc_max: str | None = None
    clang_min: str | None = None
    clang_max: str | None = None


class Jetson(Row, frozen=True, kw_only=True):
    """A Jetson Linux release and the CUDA and Ubuntu it carries."""

    KEY: ClassVar = ("l4t",)

    l4t: str
    jetpack: str | None = None
    ubuntu: str | None = None
    kernel: str | None = None
    cuda: CudaVersion | None = None
    cudnn: str | None = None
    tensorrt: str | None = None
    compute_capabilities: tuple[ComputeCapability, ...] = ()


class KnownIssue(Row, frozen=True, kw_only=True):
    """A well-attested fault: the words it shows, its cause, the finding that proves it."""

    KEY: ClassVar = ("id",)
    SITE_MAY_NOT_SET: ClassVar = frozenset({"remedy"})

    id: str
    finding: str
    layer_of_stack: str
    symptoms: tuple[str, ...] = ()
    cause: str
    look_at: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    also_known_as: tuple[str, ...] = ()
