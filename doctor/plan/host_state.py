"""What the solver has to know of a host, taken from the facts once. What was not seen stays unseen and is listed, never guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from doctor.facts.distribution import parse
from doctor.facts.model import Fact, Known, NotApplicable, Unknown, known_or
from doctor.facts.versions import ComputeCapability, DriverVersion, GlibcVersion
from doctor.matrix import query

if TYPE_CHECKING:
    from doctor.facts.areas.container import Image
    from doctor.facts.areas.python_env import Environment
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.matrix.model import Distribution, Gpu


class GpuSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of GPU of the host."""

    name: str
    count: int
    capability: ComputeCapability | None
    row: Any = None
    answered: bool = False
    """NVML opened it."""

    @property
    def family(self) -> Gpu | None:
        """Its matrix row, if the matrix knows it."""
        found: Gpu | None = self.row
        return found

    @property
    def brands(self) -> frozenset[str]:
        """What NVML may call the product line: GeForce and TITAN say so in their name, others are one of several."""
        lower = self.name.lower()
        for brand in ("geforce", "titan", "quadro"):
            if brand in lower:
                return frozenset({brand, f"{brand}rtx"} if "rtx" in lower else {brand})
        return (
            frozenset({"nvidia", "tesla"})
            if self.row is None or self.row.forward_compat
            else frozenset({"nvidia"})
        )


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """The host as the solver sees it. None: not there. What could not be seen is in `unseen` by name."""

    unseen: dict[str, str] = {}
    """gpus, driver, os, glibc, environments, toolkit, docker, toolkits, images -> why."""
    gpus: tuple[GpuSeen, ...] = ()
    nvswitches: int = 0
    os: Any = None
    os_name: str = ""
    machine: str | None = None
    """x86_64 or aarch64."""
    glibc: GlibcVersion | None = None
    driver: DriverVersion | None = None
    driver_origin: str | None = None
    """distribution, nvidia or runfile."""
    flavor: str | None = None
    fabric_manager: str | None = None
    outside: str | None = None
    """Why the driver is not ours to change: a container, WSL2 or Jetson."""
    driver_held: tuple[str, ...] = ()
    package_manager: str | None = None
    docker: str | None = None
    podman: str | None = None
    toolkit: str | None = None
    toolkits: tuple[str, ...] = ()
    environments: tuple[Any, ...] = ()
    system_python: str | None = None
    images: tuple[Any, ...] = ()
    image_names: frozenset[str] = frozenset()
    headers: bool | None = None
    nouveau: bool = False
    nvidia_repository: bool | None = None
    kernel_held: bool = False
    secure_boot: bool = False

    @property
    def distribution(self) -> Distribution | None:
        """The matrix row of the distribution, if there is one."""
        found: Distribution | None = self.os
        return found

    @property
    def pythons(self) -> tuple[Environment, ...]:
        """Python environments."""
        return self.environments

    @property
    def local_images(self) -> tuple[Image, ...]:
        """Images of the local engine."""
        return self.images


class _Reader:
    """Takes values out of facts and remembers what was not seen."""

    def __init__(self) -> None:
        self.unseen: dict[str, str] = {}

    def value(self, name: str, fact: Fact[Any], default: Any = None) -> Any:
        if isinstance(fact, Known):
            return fact.value
        if isinstance(fact, Unknown):
            self.unseen[name] = f"{fact.via}: {fact.reason}" if fact.via else fact.reason
        return default


def read_host(facts: Facts, matrix: Matrix) -> HostState:
    """Facts -> what the solver needs."""
    read = _Reader()
    os_row, os_name = _distribution(read, facts, matrix)
    environments = read.value("environments", facts.python_env.environments, [])
    driver, origin = _driver(read, facts)
    system_python = facts.python_env.system_python
    headers = facts.kernel.headers
    packages = facts.packages
    container = facts.container
    return HostState(
        gpus=_gpus(read, facts, matrix),
        nvswitches=len(read.value("nvswitches", facts.pci.nvswitches, [])),
        os=os_row,
        os_name=os_name,
        machine=_first(facts.host.machine),
        glibc=GlibcVersion.maybe(str(read.value("glibc", facts.host.glibc, ""))),
        driver=driver,
        driver_origin=origin,
        flavor=_first(facts.driver.flavor, facts.driver.flavor_disk),
        fabric_manager=_first(facts.fabric.manager_version),
        outside=_outside(facts),
        driver_held=tuple(item for item in _first(packages.holds) or [] if "nvidia" in item),
        package_manager=_first(packages.manager),
        docker=read.value("docker", container.docker_version),
        podman=_first(container.podman_version),
        toolkit=read.value("toolkit", container.toolkit_version),
        toolkits=tuple(
            item.version for item in read.value("toolkits", facts.cuda.toolkits, []) if item.version
        ),
        environments=tuple(environments),
        system_python=_first(system_python),
        images=tuple(read.value("images", container.images, [])),
        image_names=frozenset(_first(container.image_names) or ()),
        headers=None
        if isinstance(headers, (Unknown, NotApplicable))
        else isinstance(headers, Known),
        nouveau=_nouveau(facts),
        nvidia_repository=_has_repository(facts),
        kernel_held=_kernel_held(read, facts),
        secure_boot=known_or(facts.kernel.secure_boot, False),
        unseen=read.unseen,
    )


def _first(*facts: Fact[Any]) -> Any:
    return next((fact.value for fact in facts if isinstance(fact, Known)), None)


def _distribution(read: _Reader, facts: Facts, matrix: Matrix) -> tuple[Distribution | None, str]:
    text = read.value("os", facts.host.os_release)
    if text is None:
        return None, ""
    try:
        release = parse(str(text))
    except ValueError as error:
        read.unseen["os"] = str(error)
        return None, ""
    row = query.distribution(matrix, release.id, release.version)
    if row is None:
        read.unseen["os"] = f"the matrix has no row for {release.pretty or 'this distribution'}"
    return row, release.pretty


def _gpus(read: _Reader, facts: Facts, matrix: Matrix) -> tuple[GpuSeen, ...]:
    """By NVML where it answers, else by PCI id; a board that neither names is unseen."""
    boards: list[tuple[str, ComputeCapability | None, Gpu | None]] = []
    named = isinstance(facts.nvml.gpus, Known) and all(
        isinstance(gpu.name, Known) for gpu in facts.nvml.gpus.value.values()
    )
    if named and isinstance(facts.nvml.gpus, Known) and facts.nvml.gpus.value:
        for gpu in facts.nvml.gpus.value.values():
            name = str(gpu.name.value) if isinstance(gpu.name, Known) else ""
            said = (
                str(gpu.compute_capability.value)
                if isinstance(gpu.compute_capability, Known)
                else ""
            )
            row = query.gpu_by_name(matrix, name)
            own = row.compute_capability if row is not None else None
            boards.append((name, ComputeCapability.maybe(said) or own, row))
    elif isinstance(facts.pci.gpus, Known):
        for device in facts.pci.gpus.value:
            product = query.pci_device(matrix, device.device)
            row = query.gpu_by_pci(matrix, device.device)
            name = product.name if product else f"NVIDIA device {device.vendor}:{device.device}"
            boards.append((name, row.compute_capability if row else None, row))
    else:
        read.value("gpus", facts.nvml.gpus)
        if not isinstance(facts.pci.gpus, NotApplicable):
            read.value("gpus", facts.pci.gpus)
        return ()
    for name, capability, _ in boards:
        if capability is None:
            read.unseen["gpus"] = f"the matrix does not know {name or 'a GPU without a name'}"
    counted: dict[str, GpuSeen] = {}
    for name, capability, row in boards:
        before = counted[name].count if name in counted else 0
        counted[name] = GpuSeen(
            name=name, count=before + 1, capability=capability, row=row, answered=bool(named)
        )
    return tuple(counted.values())


def _driver(read: _Reader, facts: Facts) -> tuple[DriverVersion | None, str | None]:
    """The version a program would meet: NVML's answer, the loaded module, the file on disk, the package."""
    d = facts.driver
    looks: list[Fact[str]] = [facts.nvml.driver_version, d.loaded, d.library, d.disk, d.package]
    if isinstance(facts.host.hardware, Known) and facts.host.hardware.value == "wsl2":
        looks = [facts.wsl.windows_driver, facts.nvml.driver_version]
    for look in looks:
        version = DriverVersion.maybe(look.value) if isinstance(look, Known) else None
        if version is not None:
            return version, _origin(facts)
    for look in looks[1:]:
        if isinstance(look, Unknown):
            read.value("driver", look)
            break
    return None, None


def _origin(facts: Facts) -> str | None:
    if isinstance(facts.driver.runfile, Known):
        return "runfile"
    name = _first(facts.driver.package_name)
    installed = _first(facts.packages.installed) or {}
    if not name:
        return None
    version = str(installed.get(name, ""))
    if _first(facts.packages.manager) == "apt":
        archive = ("ubuntu" in version and "ubuntu0." in version) or version.endswith("~deb12u1")
        return "distribution" if archive else "nvidia"
    return "nvidia"


def _outside(facts: Facts) -> str | None:
    inside = _first(facts.host.container)
    if inside and inside != "none":
        return f"this is a {inside} container: the driver belongs to the host"
    hardware = _first(facts.host.hardware)
    if hardware == "wsl2":
        return "under WSL2 the driver lives in Windows"
    if hardware == "jetson":
        return "on a Jetson the driver comes with Jetson Linux"
    return None


def _nouveau(facts: Facts) -> bool:
    modules = _first(facts.kernel.modules) or []
    bound = [_first(item.driver) for item in _first(facts.pci.gpus) or []]
    return "nouveau" in modules or "nouveau" in bound


def _has_repository(facts: Facts) -> bool | None:
    if not isinstance(facts.packages.repositories, Known):
        return None
    return any(
        item.enabled and "developer.download.nvidia.com/compute/cuda/repos" in item.url
        for item in facts.packages.repositories.value
    )


def _kernel_held(read: _Reader, facts: Facts) -> bool:
    holds = read.value("holds", facts.packages.holds, [])
    return any(item.startswith(("linux-image", "linux-generic", "kernel")) for item in holds)
