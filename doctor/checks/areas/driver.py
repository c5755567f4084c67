"""The ladder from a GPU on the bus to a driver that answers. Each rung has its own id and its own fix."""

from __future__ import annotations

from doctor.checks.areas.advice import by_family
from doctor.checks.areas.driver_advice import install_driver, rebuild_initramfs
from doctor.checks.areas.driver_fit import driver_for
from doctor.checks.areas.subject import counted, elsewhere, inside, on_host, same
from doctor.checks.base import ERROR, Fix, Result, check, failed, passed, seen
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Known, known_or
from doctor.facts.tree import Facts

MACHINE = ("host.hardware", "host.container", "host.os_release")
RELOAD = "sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe -a nvidia nvidia_uvm"


@check(
    "driver.not-installed",
    title="An NVIDIA driver is installed",
    severity=ERROR,
    needs=(
        "gpu.not-on-bus",
        "container.device-missing",
        "packages.dkms-too-old",
        "packages.mixed-repositories",
        "packages.modular-filtering",
    ),
    reads=(
        *MACHINE,
        "pci.gpus",
        "driver.package",
        "driver.disk",
        "driver.loaded",
        "driver.library",
    ),
    sources=("tesla-driver-installation-guide",),
    fix=Fix("install the driver", disturbs="reboot", remedy="nvidia_driver"),
)
def not_installed(f: Facts, k: Knowledge) -> Result:
    """The user-space library is there."""
    skip = elsewhere(f)
    if skip:
        return skip
    library = known_or(f.driver.library, None)
    if library is not None:
        return passed(f"the driver's library {library} is there")
    branch, flavor = driver_for(f, k)
    install = install_driver(f, k, branch, flavor)
    loaded = known_or(f.driver.loaded, None)
    if inside(f):
        return failed(
            f"this container has none of the driver's libraries; the host's module is {loaded or 'not loaded'}",
            want="libcuda.so.1 and libnvidia-ml.so.1 of the host's driver in the container",
            say="start the container with the GPUs: the NVIDIA runtime or a CDI device mounts the libraries",
            command="docker run --rm --gpus all IMAGE nvidia-smi -L",
            disturbs="service",
        )
    kernel_side = loaded or known_or(f.driver.disk, None)
    if kernel_side is not None:
        return failed(
            f"the module {kernel_side} is here, libcuda and libnvidia-ml are not",
            want=f"the libraries of driver {kernel_side}",
            say="install the user-space half of the driver in the module's version",
            command=install,
        )
    package = known_or(f.driver.package, None)
    return failed(
        "no NVIDIA driver: no module, no library"
        + (f", and package {package} is only half there" if package else ", no package"),
        want=f"driver branch {branch}, {flavor} modules" if branch else "a driver for these GPUs",
        say=f"install the {flavor} driver{f' of branch {branch}' if branch else ''}, then reboot",
        command=install,
    )


@check(
    "driver.no-module-for-kernel",
    title="The running kernel has an nvidia module",
    severity=ERROR,
    needs=(
        "driver.not-installed",
        "packages.mixed-repositories",
        "kernel.headers-missing",
        "kernel.dkms-failed",
    ),
    reads=(*MACHINE, "driver.loaded", "driver.disk", "kernel.running"),
    sources=("gpu-operator#1726", "tesla-driver-installation-guide"),
    fix=Fix(
        "build or install the module for the running kernel", disturbs="gpu", remedy="nvidia_driver"
    ),
)
def no_module(f: Facts, k: Knowledge) -> Result:
    """modprobe would find nvidia.ko for uname -r."""
    skip = elsewhere(f)
    if skip:
        return skip
    loaded = known_or(f.driver.loaded, None)
    if loaded is not None:
        return passed(f"module {loaded} is loaded")
    running = f.kernel.running.value
    disk = known_or(f.driver.disk, None)
    if disk is not None:
        return passed(f"module {disk} is on disk for kernel {running}")
    if inside(f):
        return passed("a container uses the host's module; whether it is loaded is another check")
    return failed(
        f"kernel {running} has no nvidia module",
        want=f"nvidia.ko under /lib/modules/{running}",
        command=by_family(
            f,
            debian="sudo dkms autoinstall && sudo modprobe nvidia",
            rhel="sudo dkms autoinstall && sudo modprobe nvidia   # precompiled: sudo dnf install -y kmod-nvidia-open",
        ),
    )


@check(
    "driver.module-refused",
    title="The kernel accepted the nvidia module",
    severity=ERROR,
    needs=("driver.no-module-for-kernel",),
    reads=(
        *MACHINE,
        "driver.loaded",
        "driver.disk",
        "kernel.refused",
        "kernel.secure_boot",
        "kernel.lockdown",
    ),
    sources=("gpu-operator#1726", "realtek-r8126-dkms#3"),
    fix=Fix(
        "enrol the key the module is signed with, or install modules that the distribution signed",
        command="sudo mokutil --import /var/lib/dkms/mok.pub && sudo reboot",
        disturbs="reboot",
    ),
)
def module_refused(f: Facts, k: Knowledge) -> Result:
    """No line of the kernel log refuses nvidia.ko."""
    skip = elsewhere(f)
    if skip:
        return skip
    loaded = known_or(f.driver.loaded, None)
    if loaded is not None:
        return passed(f"module {loaded} is loaded")
    lines = known_or(f.kernel.refused, [])
    if not lines:
        return passed("the kernel log refuses no nvidia module")
    secure = isinstance(f.kernel.secure_boot, Known) and f.kernel.secure_boot.value
    return failed(
        f"{'Secure Boot is on and ' if secure else ''}the kernel refused the nvidia module: {lines[-1]}",
        want="a module signed with a key that the firmware or the MOK list holds",
        say=None if secure else "install a module built and signed for this kernel",
        command=by_family(
            f,
            debian="sudo mokutil --import /var/lib/shim-signed/mok/MOK.der && sudo reboot",
            rhel="sudo mokutil --import /var/lib/dkms/mok.pub && sudo reboot",
        ),
        evidence=[seen("kernel.refused", lines[-3:])],
    )


@check(
    "driver.gpu-held-by-other-module",
    title="No other kernel module holds the GPUs",
    severity=ERROR,
    needs=("gpu.not-on-bus", "driver.not-installed", "driver.no-module-for-kernel"),
    reads=(*MACHINE, "pci.gpus"),
    sources=("k8s-driver-manager#37", "readme-commonproblems", "olares#3963"),
    fix=Fix("keep the other module from loading", disturbs="reboot", remedy="nouveau_off"),
)
def held_by_other(f: Facts, k: Knowledge) -> Result:
    """Every NVIDIA device is bound to nvidia or to nothing."""
    skip = elsewhere(f)
    if skip:
        return skip
    bound = [(gpu, known_or(gpu.driver, None)) for gpu in f.pci.gpus.value]
    ours = [gpu for gpu, driver in bound if driver == "nvidia"]
    others = [(gpu, driver) for gpu, driver in bound if driver not in (None, "nvidia")]
    passed_on = [gpu for gpu, driver in others if driver == "vfio-pci"]
    if not others or (len(passed_on) == len(others) and ours):
        kept = (
            f"; {counted(len(passed_on), 'device')} given to virtual machines" if passed_on else ""
        )
        return passed(
            f"{len(ours)} of {counted(len(bound), 'NVIDIA device')} bound to nvidia{kept}"
        )
    names = sorted({str(driver) for _, driver in others})
    if names == ["vfio-pci"]:
        device = others[0][0].address
        command = f"echo {device} | sudo tee /sys/bus/pci/drivers/vfio-pci/unbind"
        say = "unbind the devices that this host shall use itself, and take them out of vfio-pci's ids"
    else:
        modules = [
            name.lower().replace("novacore", "nova_core").replace("-", "_") for name in names
        ]
        related = sorted({"nouveau", *modules, *(["nova_drm"] if "nova_core" in modules else [])})
        lines = "\\n".join(f"blacklist {name}" for name in related)
        command = (
            f"printf '{lines}\\n' | sudo tee /etc/modprobe.d/nvidia-blacklist.conf && "
            f"{rebuild_initramfs(f)} && sudo reboot"
        )
        say = f"blacklist {', '.join(related)}, rebuild the initramfs, reboot"
    return failed(
        "; ".join(f"{gpu.address} is held by {driver}" for gpu, driver in others),
        want="bound to nvidia",
        say=on_host(f, say),
        command=command,
        evidence=[seen(f"pci.gpus[{gpu.address}].driver", driver) for gpu, driver in others],
    )


@check(
    "driver.not-loaded",
    title="The nvidia module is loaded",
    severity=ERROR,
    needs=(
        "driver.not-installed",
        "driver.no-module-for-kernel",
        "driver.module-refused",
        "driver.gpu-held-by-other-module",
        "driver.wrong-module-flavor",
        "driver.gpu-not-supported",
        "gpu.bar1-too-small",
    ),
    reads=(*MACHINE, "driver.loaded", "driver.disk"),
    sources=("gpu-operator#1726",),
    fix=Fix(
        "load the module", command="sudo modprobe nvidia", disturbs="gpu", remedy="persistence"
    ),
)
def not_loaded(f: Facts, k: Knowledge) -> Result:
    """The kernel runs nvidia.ko."""
    skip = elsewhere(f)
    if skip:
        return skip
    loaded = known_or(f.driver.loaded, None)
    if loaded is not None:
        return passed(f"module {loaded} is loaded")
    disk = known_or(f.driver.disk, None)
    there = f"module {disk} is on disk" if disk else "no nvidia module"
    return failed(
        f"{there}, and none is loaded",
        want="nvidia in /proc/modules",
        say=on_host(f, "load the module and read the kernel log when that fails"),
        command="sudo modprobe nvidia || sudo dmesg | grep -i -e nvrm -e nvidia | tail",
    )


@check(
    "driver.library-mismatch",
    title="Module, libraries and NVML are one driver version",
    severity=ERROR,
    needs=("driver.not-loaded",),
    reads=(
        *MACHINE,
        "driver.loaded",
        "driver.library",
        "driver.disk",
        "nvml.init",
        "nvml.driver_version",
    ),
    sources=("nvidia-ubuntu-driver-guide#4", "ubuntu-packaging-nvidia-driver#3"),
    fix=Fix(
        "reboot, so that the new module is loaded",
        command="sudo reboot",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def library_mismatch(f: Facts, k: Knowledge) -> Result:
    """All three version fields agree, and NVML does not refuse the module."""
    skip = elsewhere(f)
    if skip:
        return skip
    loaded, library = f.driver.loaded.value, f.driver.library.value
    told = f.nvml.driver_version.value if isinstance(f.nvml.driver_version, Known) else None
    refused = isinstance(f.nvml.init, Known) and "RM_VERSION_MISMATCH" in f.nvml.init.value
    agree = same(loaded, library) and (told is None or same(told, loaded))
    if agree and not refused:
        by = f", NVML {told}" if told else ""
        return passed(f"module {loaded}, library {library}{by}: one version")
    message = f"the loaded module is {loaded}, the library {library}"
    if refused:
        message += "; NVML refuses: driver/library version mismatch"
    elif told and not same(told, loaded):
        message += f", NVML says {told}"
    if inside(f):
        return failed(
            message,
            want=f"libraries of {loaded} in the container",
            say="create the container anew: it still has the libraries of the driver it was started with",
            command="docker restart CONTAINER",
            disturbs="service",
        )
    disk = known_or(f.driver.disk, None)
    if disk is not None and same(disk, library):
        return failed(
            message,
            want=f"module {library} loaded; it is on disk already",
            say="stop what uses the GPUs and reboot, or reload the module; then hold the driver packages",
            command=f"sudo reboot   # or: {RELOAD}",
        )
    return failed(
        message,
        want="one version of module and libraries",
        say=f"install module and libraries of one version (on disk: module {disk}), then reboot",
        command=by_family(
            f,
            debian="sudo dkms autoinstall && sudo update-initramfs -u -k all && sudo reboot",
            rhel="sudo dkms autoinstall && sudo dracut -f --regenerate-all && sudo reboot",
        ),
    )
