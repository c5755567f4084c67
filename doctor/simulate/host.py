"""A description with everything filled in: what every writer starts from, so that all tell the same story."""

from __future__ import annotations

import msgspec

from doctor.simulate.description import Description, DriverPart, GpuPart


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as it sits in the host. Sizes in bytes."""

    index: int
    part: GpuPart
    name: str
    uuid: str
    address: str
    """As in sysfs: 0000:18:00.0."""
    device_id: str
    compute_capability: str
    memory: int
    bar1: int
    nvlinks: int
    pcie_generation: int
    pcie_width: int
    ecc_supported: bool
    mig_supported: bool
    bound_to: str | None
    on_nvswitch: bool
    """The board is an SXM part of an NVSwitch system: it has a fabric state."""
    initialised: bool = True
    """The driver took the board over; NVML does not list one that it refused (wrong flavour, no BAR1, not supported)."""
    refusal: str = ""
    """Why not: flavor-open, flavor-proprietary, unsupported, bar1, held; empty when initialised."""


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's versions; None is not there."""

    package: str | None = None
    disk: str | None = None
    disk_next: str | None = None
    loaded: str | None = None
    library: str | None = None
    firmware: str | None = None
    flavor: str = "open"
    origin: str = "cuda-repo"
    """distro, cuda-repo or runfile."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The resolved host."""

    d: Description
    family: str
    """debian, rhel, suse or other."""
    distro_id: str
    distro_version: str
    pretty_name: str
    os_release: str
    kernel: str
    next_kernel: str
    glibc: str
    gcc: str
    python: str
    machine: str
    libdir: str
    """/usr/lib/x86_64-linux-gnu, /usr/lib/aarch64-linux-gnu or /usr/lib64."""
    boards: tuple[Board, ...]
    driver: Driver
    driver_cuda: str | None
    """Native CUDA of the library, for example 13.0; None when unknown."""
    init: str
    """What NVML's init says: ok, NVML_ERROR_LIB_RM_VERSION_MISMATCH, NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIBRARY_NOT_FOUND, ..."""
    cuda: int | None
    """What cuInit says; None when there is no libcuda."""
    in_container: bool

    @property
    def part(self) -> DriverPart:
        """The driver section as it was written."""
        return self.d.driver if isinstance(self.d.driver, DriverPart) else DriverPart()
