"""Which packages belong to the driver, which repository a version is spelt by, and what keeps a package in place.

No check lives here. Spelling decides origin because the database does not record it: Ubuntu's archive writes
`-0ubuntu0.24.04.1`, NVIDIA's repository `-0ubuntu1`; Debian's writes `-1~deb12u1`, NVIDIA's `-1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from doctor.facts.areas.packages import Pin, Repository
from doctor.facts.model import known_or
from doctor.facts.tree import Facts

DRIVER = re.compile(
    r"nvidia-(driver|open|headless|dkms|kernel|firmware|utils|compute-utils|modprobe|persistenced|kmod)"
    r"|cuda-drivers|libnvidia-(?!container|nscq|egl|ml-dev)|libcuda1$|kmod-nvidia|akmod-nvidia"
    r"|xorg-x11-drv-nvidia|xserver-xorg-video-nvidia|linux-modules-nvidia|nvidia-smi$"
)
NOT_DRIVER = re.compile(
    r"nvidia-driver-(pinning|assistant)|-source-|nvidia-kernel-source|nvidia-kernel-helper"
)
KERNEL = re.compile(r"linux-(image|generic|aws|azure|gcp|oracle)|kernel$|kernel-(core|modules)")
UPSTREAM = re.compile(r"(?:\d+:)?(\d{3,}\.\d+(?:\.\d+)?)")
OTHERS = re.compile(r"rpmfusion.*nonfree|negativo17|elrepo")
ARCHIVE = re.compile(r"ubuntu0\.\d|~deb\d+u|~bpo|\+deb\d+u")


def driver_packages(f: Facts) -> dict[str, str]:
    """Installed packages of the driver: name -> version as it is spelt."""
    return {
        name: version
        for name, version in known_or(f.packages.installed, {}).items()
        if DRIVER.match(name) and not NOT_DRIVER.search(name) and UPSTREAM.match(version)
    }


def by_version(name: str) -> bool:
    """Whether a version is part of the name, as in nvidia-firmware-580-580.65.06: an old one stays beside the new until autoremove."""
    return re.search(r"-\d{3}\.\d+", name) is not None


def upstream(version: str) -> str:
    """The driver's own version in a package version."""
    found = UPSTREAM.match(version)
    return found.group(1) if found else version


def origin(name: str, version: str) -> str:
    """Who built a driver package, as far as its name and version say: archive, nvidia or rpmfusion."""
    if name.startswith(("akmod-nvidia", "xorg-x11-drv-nvidia")):
        return "rpmfusion"
    return "archive" if ARCHIVE.search(version) else "nvidia"


def is_cuda(row: Repository) -> bool:
    """Whether a repository is NVIDIA's for CUDA and drivers."""
    return "developer.download.nvidia.com/compute/cuda" in row.url


def offers_the_driver_too(row: Repository) -> bool:
    """Whether a repository of somebody else's offers the driver beside NVIDIA's own."""
    other = OTHERS.search(f"{row.id} {row.url}".lower()) is not None
    return other and not any("nvidia" in item for item in row.excludes)


def of_nvidia(row: Repository) -> bool:
    """Whether a repository is one of NVIDIA's."""
    return "developer.download.nvidia.com" in row.url or "nvidia.github.io" in row.url


def enabled(f: Facts) -> list[Repository]:
    """Repositories that are used."""
    return [row for row in f.packages.repositories.value if row.enabled]


def is_held(name: str, holds: Iterable[str]) -> bool:
    """Whether a lock covers a package: exact, a pattern, or a versionlock entry that begins with its name."""
    for entry in holds:
        plain = re.sub(r"^\d+:", "", entry)
        if (
            plain == name
            or fnmatchcase(name, plain)
            or fnmatchcase(f"{name}-", plain.rstrip("*") + "*")
        ):
            return True
        if plain.startswith(f"{name}-") and plain[len(name) + 1 : len(name) + 2].isdigit():
            return True
    return False


def pinned(name: str, pins: Iterable[Pin]) -> bool:
    """Whether apt's preferences fix a package to a version, or forbid other ones."""
    for pin in pins:
        patterns = pin.package.split()
        if not pin.pin.startswith("version") or not any(
            fnmatchcase(name, item) for item in patterns
        ):
            continue
        return pin.priority is not None and (pin.priority >= 900 or pin.priority < 0)
    return False


def holds(f: Facts) -> list[str]:
    """Locked packages and patterns; empty where nothing is locked."""
    found: list[str] = known_or(f.packages.holds, [])
    return found


def locked(f: Facts, name: str) -> bool:
    """Whether anything keeps the package in place."""
    if any(item.startswith("nvidia-driver-pinning") for item in f.packages.installed.value):
        return True
    if is_held(name, holds(f)):
        return True
    pins: list[Pin] = known_or(f.packages.pins, [])
    return pinned(name, pins)


def branch_stream(f: Facts) -> str | None:
    """The enabled nvidia-driver stream when it keeps one branch, for example 580-open."""
    stream = known_or(f.packages.modules, {}).get("nvidia-driver", "")
    return stream if re.match(r"\d{3}", stream) else None
