"""Copies of libcuda that are not the driver's own: harmless today, an error 803 after the next image, path or upgrade."""

from __future__ import annotations

import shlex

from doctor.checks.areas.driver_advice import remove
from doctor.checks.areas.subject import JETSON, LADDER, same, told
from doctor.checks.base import WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import FactUnknown, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import DriverVersion


@check(
    "cuda.compat-older-than-driver",
    title="No compat libcuda is older than the driver",
    severity=WARN,
    needs=("driver.not-loaded",),
    reads=(
        "host.hardware",
        "host.os_release",
        "driver.compat",
        "driver.loaded",
        "packages.installed",
    ),
    sources=("gpustack#4678", "measured-h200x2", "forward-compatibility"),
    fix=Fix("remove the compat package: it can only do harm under a newer driver"),
)
def compat_older(f: Facts, k: Knowledge) -> Result:
    """Each cuda-compat folder holds a libcuda newer than the loaded driver."""
    if f.host.hardware.value == "jetson":
        return skipped(JETSON)
    folders = f.driver.compat.value
    if not folders:
        return passed("no cuda-compat folder under /usr/local/cuda*")
    loaded = DriverVersion.parse(f.driver.loaded.value)
    versions = {folder: DriverVersion.maybe(text) for folder, text in folders.items()}
    old = {folder: version for folder, version in versions.items() if version and version < loaded}
    if old:
        have = ", ".join(f"{folder} has {version}" for folder, version in old.items())
        packages = told(f.packages.installed) or {}
        names = sorted(name for name in packages if name.startswith("cuda-compat"))
        command = remove(f, *names) if names else f"sudo rm -r {shlex.join(old)} && sudo ldconfig"
        return failed(
            f"{have}, the driver is {loaded}: a program that finds it first gets error 803",
            want=f"no compat copy older than {loaded}",
            command=command,
            evidence=[
                seen(f"driver.compat[{folder}]", str(version)) for folder, version in old.items()
            ],
        )
    unread = [folder for folder, version in versions.items() if version is None]
    if unread:
        raise FactUnknown("its libcuda's file name carries no version", unread[0])
    have = ", ".join(f"{folder} {version}" for folder, version in folders.items())
    return passed(f"{have}: not older than driver {loaded}")


@check(
    "cuda.libcuda-shadowed",
    title="A program gets the driver's own libcuda",
    severity=WARN,
    needs=(*LADDER, "cuda.libcuda-stub", "cuda.libcuda-compat", "cuda.libcuda-not-found"),
    reads=("driver.resolved", "driver.loaded"),
    sources=("measured-h200x2", "forward-compatibility"),
    fix=Fix(
        "put the driver's folder first, or leave LD_LIBRARY_PATH to programs that need it",
        remedy="ld_path",
    ),
)
def libcuda_shadowed(f: Facts, k: Knowledge) -> Result:
    """What the loader finds first is the driver's, or a compat copy newer than it."""
    found = f.driver.resolved.value.get("libcuda.so.1")
    if found is None:
        return skipped("the loader finds no libcuda.so.1")
    if found.kind in ("driver", "wsl"):
        loaded = known_or(f.driver.loaded, None)
        if found.version is None or loaded is None or same(found.version, loaded):
            return passed(f"libcuda.so.1 is {found.real}, by {found.why}")
        message = f"libcuda.so.1 is {found.real}, by {found.why}; the module is {loaded}"
    elif found.kind == "compat" and _newer(found.version, f.driver.loaded.value):
        return passed(f"libcuda.so.1 is the newer compat copy {found.real}, by {found.why}")
    else:
        message = f"libcuda.so.1 is a {found.kind} copy, {found.real}, by {found.why}"
    folder = found.path.rpartition("/")[0]
    return failed(
        message,
        want="the libcuda.so.1 of the loaded driver",
        command=(
            "unset LD_LIBRARY_PATH"
            if found.why.startswith("LD_LIBRARY_PATH")
            else f"grep -rl {shlex.quote(folder)} /etc/ld.so.conf /etc/ld.so.conf.d"
        ),
        evidence=[seen("driver.resolved[libcuda.so.1]", found.real, found.why)],
    )


def _newer(version: str | None, loaded: str) -> bool:
    one = DriverVersion.maybe(version) if version else None
    return one is not None and one > DriverVersion.parse(loaded)
