"""What is known of the nvidia module per kernel, for the checks of kernel and packages. No check lives here."""

from __future__ import annotations

from doctor.facts.areas.kernel import DkmsEntry, ModuleFile
from doctor.facts.model import known_or
from doctor.facts.tree import Facts

BUILT = ("built", "installed")
NOT_THE_DRIVER = ("nvidia-fs", "nvidia-peermem")
"""Modules of their own that DKMS may build beside the driver's: GPUDirect Storage and RDMA."""


def dkms_entries(f: Facts) -> list[DkmsEntry]:
    """What DKMS knows of the driver's module; empty where DKMS does not build it."""
    return [
        row
        for row in known_or(f.kernel.dkms, [])
        if row.module.startswith("nvidia") and row.module not in NOT_THE_DRIVER
    ]


def files_of(f: Facts, kernel: str) -> list[ModuleFile]:
    """nvidia.ko of one kernel."""
    return [row for row in known_or(f.kernel.nvidia_files, []) if row.kernel == kernel]


def is_built(f: Facts, kernel: str) -> bool:
    """Whether there is a module for a kernel, built by DKMS or from elsewhere."""
    by_dkms = any(row.kernel == kernel and row.state in BUILT for row in dkms_entries(f))
    return by_dkms or bool(files_of(f, kernel))


def has_driver(f: Facts) -> bool:
    """Whether an NVIDIA driver is installed or loaded here."""
    found = (known_or(fact, None) for fact in (f.driver.package, f.driver.disk, f.driver.loaded))
    return any(value is not None for value in found)
