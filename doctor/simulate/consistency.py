"""What a description may not say at once. Faults are allowed; statements that no host could show together are not."""

from __future__ import annotations

from doctor.errors import UsageError
from doctor.simulate.description import Description, DriverPart, GpuPart
from doctor.simulate.sizes import size


def check_consistency(d: Description) -> None:
    """UsageError with one sentence for the first contradiction."""
    _check_sizes(d)
    for problem in (
        _platform(d),
        _driver(d),
        _container(d),
    ):
        if problem:
            raise UsageError(
                f"the description contradicts itself: {problem}", "change one of the two"
            )


def _check_sizes(d: Description) -> None:
    said = {"mem": d.mem, "shm.size": d.shm.size, "shm.used": d.shm.used}
    for name, disk in d.disk.items():
        said |= {f"disk.{name}.size": disk.size, f"disk.{name}.free": disk.free}
    if d.wsl:
        said["wsl.memory"] = d.wsl.memory
    for key, text in said.items():
        if text is not None:
            size(text, key)


def _platform(d: Description) -> str | None:
    if d.wsl is not None and d.platform != "wsl2":
        return f"a wsl section with platform {d.platform}"
    if d.l4t is not None and d.platform != "jetson":
        return f"l4t {d.l4t} with platform {d.platform}"
    if d.platform == "wsl2" and isinstance(d.driver, str) and d.driver != "none":
        return f"driver {d.driver} with platform wsl2, where wsl.windows_driver is the driver"
    if d.platform == "container" and d.dkms.state not in (None, "none"):
        return f"dkms {d.dkms.state} with platform container"
    if d.platform == "jetson" and d.machine != "aarch64":
        return f"platform jetson with machine {d.machine}"
    return None


def _driver(d: Description) -> str | None:
    part = d.driver if isinstance(d.driver, DriverPart) else DriverPart(version=d.driver)
    boards = [gpu for gpu in d.gpus if isinstance(gpu, GpuPart)]
    held = [gpu for gpu in boards if gpu.bound_to == "nvidia"]
    if held and (part.version == "none" or part.loaded == "none"):
        return f"{held[0].name} is bound to nvidia and no nvidia module is loaded"
    if d.modules is not None:
        listed = "nvidia" in d.modules
        if part.loaded == "none" and listed:
            return "modules has nvidia and driver.loaded is none"
        if part.loaded not in (None, "none") and not listed:
            return f"driver.loaded is {part.loaded} and modules has no nvidia"
    for gpu in boards:
        if gpu.bound_to in ("nouveau", "nova_core", "vfio-pci") and d.modules is not None:
            module = gpu.bound_to.replace("-", "_")
            if module not in d.modules:
                return f"{gpu.name} is bound to {gpu.bound_to} and modules has no {module}"
    if part.version == "none" and any(
        text not in (None, "none") for text in (part.package, part.disk, part.loaded, part.library)
    ):
        return "driver.version is none and a part of the driver has a version"
    return None


def _container(d: Description) -> str | None:
    c = d.containers
    if c.docker == "none" and c.daemon_runtimes:
        return "containers.docker is none and daemon_runtimes is not empty"
    if (
        c.docker in (None, "none")
        and c.podman in (None, "none")
        and c.containerd in (None, "none")
        and c.running
    ):
        return "a container is running and no engine is installed"
    return None
