"""Whether the CUDA driver API starts here, and which libcuda answers. Observed codes fail; predictions are in cuda_fit."""

from __future__ import annotations

from doctor.checks.areas.subject import LADDER, counted, inside, on_host, told
from doctor.checks.base import ERROR, Fix, Result, check, failed, passed, unseen
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.cuda import CudaLook
from doctor.facts.model import Absent, FactUnknown, Known, known_or
from doctor.facts.tree import Facts

STUB, NO_DEVICE, NOT_READY, COMPAT, COMPAT_DEVICE, UNKNOWN = 34, 100, 802, 803, 804, 999
NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    500: "CUDA_ERROR_NOT_FOUND",
    800: "CUDA_ERROR_NOT_PERMITTED",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    805: "CUDA_ERROR_MPS_CONNECTION_FAILED",
    806: "CUDA_ERROR_MPS_RPC_FAILURE",
    807: "CUDA_ERROR_MPS_SERVER_NOT_READY",
    999: "CUDA_ERROR_UNKNOWN",
}
"""Codes of cuda.h."""
BELOW = (
    *LADDER,
    "driver.no-module-for-kernel",
    "driver.module-refused",
    "driver.gpu-held-by-other-module",
    "driver.wrong-module-flavor",
    "driver.gpu-not-supported",
    "gpu.bar1-too-small",
    "container.device-missing",
)


def look(f: Facts) -> CudaLook:
    """What cuInit answered in the judged environment."""
    return f.cuda.scope.value


def answer(found: CudaLook) -> str:
    """cuInit gives 803 (CUDA_ERROR_...) through /path."""
    name = f" ({NAMES[found.code]})" if found.code in NAMES else ""
    return f"cuInit gives {found.code}{name} through {found.library or 'libcuda.so.1'}"


def works(found: CudaLook) -> str:
    """cuInit 0, 2 devices, CUDA 13.0, /path."""
    devices = counted(found.count or 0, "device")
    return f"cuInit gives 0: {devices}, CUDA {found.driver_version}, through {found.library}"


def is_stub(path: str | None) -> bool:
    """Whether the file is the toolkit's link-time stub."""
    return path is not None and "/stubs/" in path


def is_compat(path: str | None) -> bool:
    """Whether the file is a forward-compatibility copy."""
    return path is not None and any(part.startswith("compat") for part in path.split("/")[:-1])


@check(
    "cuda.libcuda-stub",
    title="libcuda.so.1 is a driver's library, not the toolkit's stub",
    severity=ERROR,
    needs=("driver.not-installed",),
    reads=("cuda.scope", "driver.resolved", "driver.ld_library_path"),
    sources=("measured-h200x2", "cuda-driver-api-group__cuda__types"),
    fix=Fix("take the stubs folder out of LD_LIBRARY_PATH and of ld.so.conf", remedy="ld_path"),
)
def libcuda_stub(f: Facts, k: Knowledge) -> Result:
    """cuInit does not answer 34."""
    found = look(f)
    if found.code != STUB:
        return passed(f"{answer(found) if found.code else works(found)}; no stub")
    where = (told(f.driver.resolved) or {}).get("libcuda.so.1")
    by = f", found by {where.why}" if where else ""
    return failed(
        f"{answer(found)}{by}: the toolkit's stub, which has no driver in it",
        want="the driver's libcuda.so.1 first",
        command=_without(f, where.path.rpartition("/")[0] if where else None),
    )


def _without(f: Facts, folder: str | None) -> str:
    """The line that takes a folder out of the search order, wherever it was put there."""
    import shlex

    folders = told(f.driver.ld_library_path) or []
    if folder in folders:
        rest = ":".join(item for item in folders if item != folder)
        return f"export LD_LIBRARY_PATH={shlex.quote(rest)}" if rest else "unset LD_LIBRARY_PATH"
    if folder is None:
        return "unset LD_LIBRARY_PATH"
    return f"grep -rl {shlex.quote(folder)} /etc/ld.so.conf /etc/ld.so.conf.d   # take the line out, then: sudo ldconfig"


@check(
    "cuda.libcuda-compat",
    title="No forward-compatibility libcuda sits on a driver it does not fit",
    severity=ERROR,
    needs=("driver.not-installed", "driver.library-mismatch"),
    reads=(
        "cuda.scope",
        "driver.resolved",
        "driver.ld_library_path",
        "driver.loaded",
    ),
    sources=("gpustack#4678", "measured-h200x2", "forward-compatibility"),
    fix=Fix("take the compat folder out of LD_LIBRARY_PATH and of ld.so.conf", remedy="ld_path"),
)
def libcuda_compat(f: Facts, k: Knowledge) -> Result:
    """cuInit does not answer 803 through a compat copy."""
    found = look(f)
    if found.code != COMPAT or not _through_compat(f, found):
        said = works(found) if found.code == 0 else answer(found)
        return passed(f"{said}; not refused for a compat copy")
    loaded = told(f.driver.loaded)
    where = (told(f.driver.resolved) or {}).get("libcuda.so.1")
    version = where.version if where else None
    folder = where.path.rpartition("/")[0] if where else (found.library or "").rpartition("/")[0]
    return failed(
        f"{answer(found)}: cuda-compat {version or 'of unknown version'} does not fit driver {loaded}",
        want="the driver's own libcuda.so.1, or compat newer than the driver on a branch it is made for",
        command=_without(f, folder),
    )


def _through_compat(f: Facts, found: CudaLook) -> bool:
    if found.library is not None:
        return is_compat(found.library)
    resolved = f.driver.resolved.value.get("libcuda.so.1")
    return resolved is not None and resolved.kind == "compat"


@check(
    "cuda.compat-on-unsupported-gpu",
    title="Forward compatibility is used on GPUs that have it",
    severity=ERROR,
    needs=("driver.not-installed",),
    reads=("cuda.scope", "driver.resolved", "driver.ld_library_path"),
    sources=("forward-compatibility", "cuda-driver-api-group__cuda__types"),
    fix=Fix(
        "use the driver's own libcuda and install a driver that is new enough",
        disturbs="reboot",
        remedy="ld_path",
    ),
)
def compat_unsupported(f: Facts, k: Knowledge) -> Result:
    """cuInit does not answer 804."""
    found = look(f)
    if found.code != COMPAT_DEVICE:
        said = works(found) if found.code == 0 else answer(found)
        return passed(f"{said}; not refused for the GPU's class")
    where = (told(f.driver.resolved) or {}).get("libcuda.so.1")
    folder = where.path.rpartition("/")[0] if where else (found.library or "").rpartition("/")[0]
    return failed(
        f"{answer(found)}: forward compatibility is for data center GPUs",
        want="the driver's own libcuda.so.1",
        command=_without(f, folder),
    )


@check(
    "cuda.visible-devices-empty",
    title="CUDA_VISIBLE_DEVICES names a GPU that is here",
    severity=ERROR,
    needs=BELOW,
    reads=("cuda.scope", "cuda.clean", "cuda.visible_devices"),
    sources=("measured-h200x2", "cuda-environment-variables"),
    fix=Fix(
        "unset CUDA_VISIBLE_DEVICES or name GPUs that are here",
        command="unset CUDA_VISIBLE_DEVICES",
    ),
)
def visible_devices(f: Facts, k: Knowledge) -> Result:
    """The variable does not hide every GPU."""
    found = look(f)
    if found.code != NO_DEVICE:
        said = told(f.cuda.visible_devices)
        named = f"CUDA_VISIBLE_DEVICES={said!r}; " if said is not None else ""
        return passed(f"{named}{works(found) if found.code == 0 else answer(found)}")
    value = known_or(f.cuda.visible_devices, None)
    if value is None:
        return passed(f"{answer(found)}, and CUDA_VISIBLE_DEVICES is not set")
    clean = f.cuda.clean
    if isinstance(clean, Known) and clean.value.code == NO_DEVICE and _names_one(value):
        return passed(f"{answer(found)} without CUDA_VISIBLE_DEVICES too")
    if not isinstance(clean, Known) and _names_one(value):
        return _not_compared(f)
    here = (
        f"; without it {counted(clean.value.count or 0, 'device')}"
        if isinstance(clean, Known) and clean.value.code == 0
        else ""
    )
    return failed(
        f"{answer(found)}: CUDA_VISIBLE_DEVICES={value!r} names no GPU of this host{here}",
        want="unset, or indexes and UUIDs that nvidia-smi -L prints",
    )


def _names_one(value: str) -> bool:
    """Whether the value could name a device at all: empty and -1 hide every one."""
    first = value.split(",")[0].strip()
    return bool(first) and not first.startswith("-")


def _not_compared(f: Facts) -> Result:
    reason = getattr(f.cuda.clean, "reason", "")
    raise FactUnknown(f"the look without CUDA_VISIBLE_DEVICES was not seen: {reason}", "cuda.clean")


@check(
    "cuda.no-device",
    title="CUDA counts at least one device",
    severity=ERROR,
    needs=(
        *BELOW,
        "cuda.visible-devices-empty",
        "gpu.mig-no-instances",
        "gpu.count-differs",
        "gpu.lost",
    ),
    reads=("host.container", "cuda.scope"),
    sources=("cuda-driver-api-group__cuda__types",),
    fix=Fix(
        "read what the driver says of the GPUs",
        command="nvidia-smi -L; sudo dmesg | grep -i nvrm | tail",
    ),
)
def no_device(f: Facts, k: Knowledge) -> Result:
    """cuInit does not answer 100, and the count is not 0."""
    found = look(f)
    if found.code == 0 and found.count != 0:
        return passed(works(found))
    if found.code not in (0, NO_DEVICE):
        return passed(f"{answer(found)}: not for want of a device")
    return failed(
        f"{answer(found)} and counts no device",
        want="at least one device",
        say=on_host(f, "see which GPUs the driver took over and why not the others")
        if inside(f)
        else None,
    )


@check(
    "cuda.libcuda-not-found",
    title="A program finds libcuda.so.1",
    severity=ERROR,
    needs=("driver.not-installed", "gpu.not-on-bus"),
    reads=("cuda.scope", "driver.libraries"),
    sources=("tesla-driver-installation-guide",),
    fix=Fix(
        "refresh the loader's cache",
        command="sudo ldconfig && ldconfig -p | grep libcuda.so.1",
        remedy="ld_path",
    ),
)
def libcuda_not_found(f: Facts, k: Knowledge) -> Result:
    """The loader gives a libcuda.so.1 to a program of the judged environment."""
    if isinstance(f.cuda.scope, Known):
        return passed(f"the loader gives {f.cuda.scope.value.library}")
    if not isinstance(f.cuda.scope, Absent):
        _ = look(f)
    copies = [
        item.path
        for item in known_or(f.driver.libraries, [])
        if item.real.rpartition("/")[2].startswith("libcuda.so")
    ]
    here = [path for path in copies if not is_stub(path) and not is_compat(path)]
    return failed(
        "the loader finds no libcuda.so.1" + (f"; {here[0]} is not in its folders" if here else ""),
        want="libcuda.so.1 of the driver in the loader's folders",
        command=(
            f"echo {here[0].rpartition('/')[0]} | sudo tee /etc/ld.so.conf.d/nvidia-driver.conf && sudo ldconfig"
            if here
            else None
        ),
    )


@check(
    "cuda.init-failed",
    title="cuInit succeeds",
    severity=ERROR,
    needs=(
        *BELOW,
        "cuda.libcuda-not-found",
        "cuda.libcuda-stub",
        "cuda.libcuda-compat",
        "cuda.compat-on-unsupported-gpu",
        "cuda.visible-devices-empty",
        "cuda.no-device",
        "fabric.not-ready",
        "gpu.xid-79",
        "gpu.compute-mode",
    ),
    reads=(
        "host.container",
        "cuda.scope",
        "driver.nodes",
        "driver.modprobe",
        "driver.params",
    ),
    sources=("cuda-driver-api-group__cuda__types", "ollama#10053"),
    fix=Fix(
        "stop what uses the GPUs and load nvidia_uvm anew",
        command="sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm",
        disturbs="gpu",
    ),
)
def init_failed(f: Facts, k: Knowledge) -> Result:
    """The disposable child's cuInit(0) gives 0."""
    if isinstance(f.cuda.scope, Absent):
        return failed("cuInit cannot be called: there is no libcuda.so.1", want="cuInit gives 0")
    found = look(f)
    if found.code == 0:
        return passed(works(found))
    if found.code == UNKNOWN and _made_on_first_use(f):
        return unseen(
            "/dev/nvidia-uvm is not there yet; the first CUDA program has nvidia-modprobe make it, "
            "and this look makes nothing: run `sudo nvidia-modprobe -c 0 -u`, then check again"
        )
    return failed(
        answer(found),
        want="cuInit gives 0",
        say=_advice(f, found),
        command=_command(found),
    )


def _made_on_first_use(f: Facts) -> bool:
    """A missing node that a set-uid nvidia-modprobe makes is no fault of the host."""
    missing = "/dev/nvidia-uvm" not in f.driver.nodes.value
    return missing and not inside(f) and bool(known_or(f.driver.modprobe, False))


def _advice(f: Facts, found: CudaLook) -> str | None:
    if found.code == COMPAT:
        return "bring module and libcuda to one version"
    if found.code == NOT_READY:
        return "start fabric manager and wait until every GPU's fabric state is Completed"
    if found.code in (805, 806, 807):
        return "start the MPS control daemon anew, or unset CUDA_MPS_PIPE_DIRECTORY"
    if found.code != UNKNOWN:
        return "look the code up in the kernel log's lines of the same time"
    suspended = (
        isinstance(f.driver.params, Known)
        and f.driver.params.value.get("PreserveVideoMemoryAllocations") == "0"
    )
    return "stop what uses the GPUs and load nvidia_uvm anew" + (
        "; after a suspend it loses its state" if suspended else ""
    )


def _command(found: CudaLook) -> str | None:
    if found.code == COMPAT:
        return "cat /proc/driver/nvidia/version; ldconfig -p | grep -e libcuda.so.1 -e libnvidia-ml.so.1"
    if found.code == NOT_READY:
        return "sudo systemctl restart nvidia-fabricmanager && nvidia-smi -q | grep -A2 Fabric"
    if found.code in (805, 806, 807):
        return "echo quit | sudo nvidia-cuda-mps-control; sudo nvidia-cuda-mps-control -d"
    return None if found.code == UNKNOWN else "sudo dmesg | grep -i -e nvrm -e xid | tail -n 30"
