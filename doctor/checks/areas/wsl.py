"""WSL2: the driver lives in Windows, the Linux side only maps it in. Fixes on the Windows side are PowerShell lines."""

from __future__ import annotations

from doctor.checks.areas.advice import remove
from doctor.checks.areas.subject import inside, label
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.nvml import Gpu
from doctor.facts.model import known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, DottedVersion, DriverVersion
from doctor.matrix.row import Statement

MACHINE = ("host.hardware", "host.container", "host.os_release")
GIB = 1024**3
UPDATE = "in PowerShell on Windows: wsl --update; wsl --shutdown"
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
"""What every CUDA program in WSL2 loads from the folder that Windows maps in."""


def _rule(k: Knowledge, ident: str) -> Statement:
    rule = k.matrix.statement("wsl_rules", ident)
    if rule is None:
        raise KeyError(ident)
    return rule


def _gpus(f: Facts) -> list[Gpu]:
    return sorted(f.nvml.gpus.value.values(), key=lambda gpu: gpu.index)


@check(
    "wsl.linux-driver-installed",
    title="No Linux NVIDIA driver is installed inside WSL2",
    severity=ERROR,
    reads=(*MACHINE, "wsl.linux_driver_packages", "wsl.linux_driver_libraries"),
    sources=("wsl-guide",),
    fix=Fix("purge the Linux driver; CUDA needs cuda-toolkit-* only", remedy="wsl"),
)
def linux_driver(f: Facts, k: Knowledge) -> Result:
    """Its libcuda hides the one that Windows maps in, and there is no kernel module it could talk to."""
    packages = f.wsl.linux_driver_packages.value
    libraries = f.wsl.linux_driver_libraries.value
    if not packages and not libraries:
        return passed("no package and no library of a Linux driver beside /usr/lib/wsl/lib")
    shown = packages[:3] or libraries[:3]
    command = (
        remove(f, *packages)
        if packages
        else f"sudo rm {' '.join(libraries)} && sudo ldconfig   # left over from a .run installer"
    )
    return failed(
        f"a Linux driver is installed inside WSL2: {', '.join(shown)}",
        want="the Windows driver alone, mapped in at /usr/lib/wsl/lib",
        command=command,
        evidence=[
            seen("wsl.linux_driver_packages", packages[:12]),
            seen("wsl.linux_driver_libraries", libraries[:12]),
        ],
        rows=[_rule(k, "wsl.no-linux-driver")],
    )


@check(
    "wsl.dxg-missing",
    title="WSL2 has the GPU's device /dev/dxg",
    severity=ERROR,
    reads=(*MACHINE, "wsl.dxg"),
    sources=("wsl-guide",),
    fix=Fix(
        "update WSL and the Windows driver, then start WSL again",
        command=UPDATE,
        disturbs="service",
    ),
)
def dxg_missing(f: Facts, k: Knowledge) -> Result:
    """Without the paravirtual device nothing in WSL2 reaches the GPU."""
    if inside(f):
        return skipped("inside a container: what it was given is another check's")
    if f.wsl.dxg.value:
        return passed("/dev/dxg is there")
    return failed(
        "/dev/dxg is missing: this WSL has no GPU",
        want="/dev/dxg",
        say="in Windows: install the NVIDIA driver, update WSL, make sure this is WSL 2, then restart it",
        command=f"{UPDATE}; wsl --list --verbose",
    )


@check(
    "wsl.libraries-missing",
    title="Windows maps in the driver's libraries",
    severity=ERROR,
    needs=("wsl.dxg-missing",),
    reads=(*MACHINE, "wsl.kernel", "wsl.lib_dir"),
    sources=("wsl-guide",),
    fix=Fix(
        "install the NVIDIA driver in Windows and restart WSL", command=UPDATE, disturbs="service"
    ),
)
def libraries_missing(f: Facts, k: Knowledge) -> Result:
    """libcuda and libnvidia-ml come from the Windows driver, in /usr/lib/wsl/lib."""
    f.wsl.kernel.value  # noqa: B018 - does not apply outside WSL2
    if inside(f):
        return skipped("inside a container: what it was given is another check's")
    names = known_or(f.wsl.lib_dir, [])
    missing = [name for name in LIBRARIES if name not in names]
    if not missing:
        return passed(f"/usr/lib/wsl/lib has {', '.join(LIBRARIES)}")
    return failed(
        f"/usr/lib/wsl/lib lacks {', '.join(missing)}",
        want=f"{', '.join(LIBRARIES)} from the Windows driver",
        rows=[_rule(k, "wsl.lib-dir")],
    )


@check(
    "wsl.driver-too-old",
    title="The Windows driver is new enough for CUDA in WSL2",
    severity=ERROR,
    needs=("wsl.libraries-missing",),
    reads=(*MACHINE, "wsl.windows_driver"),
    sources=("wsl-guide",),
    fix=Fix(
        "install a current NVIDIA driver in Windows, then: wsl --shutdown",
        command="in PowerShell on Windows: Start-Process https://www.nvidia.com/drivers; wsl --shutdown",
        disturbs="service",
    ),
)
def driver_too_old(f: Facts, k: Knowledge) -> Result:
    """The branch of the Windows driver against the guide's floor."""
    rule = _rule(k, "wsl.windows-driver-floor")
    version = f.wsl.windows_driver.value
    branch, floor = DriverVersion.parse(version).branch, int(rule.minimum or 0)
    if branch >= floor:
        return passed(f"Windows driver {version}, R{floor} is enough", rows=[rule])
    return failed(
        f"Windows driver {version} is older than R{floor}",
        want=f"a Windows driver of branch R{floor} or later",
        rows=[rule],
    )


def _kernel(f: Facts) -> DottedVersion:
    return DottedVersion.parse(f.wsl.kernel.value.partition("-")[0])


@check(
    "wsl.kernel-too-old",
    title="The WSL kernel is new enough for CUDA",
    severity=ERROR,
    reads=(*MACHINE, "wsl.kernel"),
    sources=("wsl-guide",),
    fix=Fix("update WSL", command=UPDATE, disturbs="service"),
)
def kernel_too_old(f: Facts, k: Knowledge) -> Result:
    """The kernel's version against the guide's minimum; WSL 1 has 4.4 and no GPU at all."""
    rule = _rule(k, "wsl.kernel-floor")
    floor = DottedVersion.parse(rule.minimum or "0")
    if _kernel(f) >= floor:
        return passed(f"WSL kernel {f.wsl.kernel.value}, {floor} is enough", rows=[rule])
    return failed(
        f"WSL kernel {f.wsl.kernel.value} is older than {floor}",
        want=f"kernel {floor} or later",
        rows=[rule],
    )


@check(
    "wsl.kernel-old",
    title="The WSL kernel is the recommended one or newer",
    severity=WARN,
    needs=("wsl.kernel-too-old",),
    reads=(*MACHINE, "wsl.kernel"),
    sources=("wsl-guide",),
    fix=Fix("update WSL", command=UPDATE, disturbs="service"),
)
def kernel_old(f: Facts, k: Knowledge) -> Result:
    """The guide recommends a later kernel than it requires."""
    rule = _rule(k, "wsl.kernel-floor")
    floor = DottedVersion.parse(rule.values["recommended"])
    if _kernel(f) >= floor:
        return passed(f"WSL kernel {f.wsl.kernel.value}, {floor} is recommended", rows=[rule])
    return failed(
        f"WSL kernel {f.wsl.kernel.value} is older than the recommended {floor}",
        want=f"kernel {floor} or later",
        rows=[rule],
    )


@check(
    "wsl.gpu-not-wddm",
    title="Each GPU is in WDDM mode",
    severity=ERROR,
    reads=(*MACHINE, "wsl.kernel", "nvml.gpus"),
    sources=("wsl-guide",),
    fix=Fix(
        "switch the GPU to WDDM in Windows",
        command="in PowerShell on Windows, as administrator: nvidia-smi -dm 0; then restart Windows",
        disturbs="reboot",
    ),
)
def gpu_not_wddm(f: Facts, k: Knowledge) -> Result:
    """WSL2 reaches GPUs through WDDM; one in TCC mode is not there."""
    f.wsl.kernel.value  # noqa: B018 - does not apply outside WSL2
    rule = _rule(k, "wsl.gpu-floor")
    gpus = _gpus(f)
    models = [(gpu, known_or(gpu.driver_model, None)) for gpu in gpus]
    wrong = [(gpu, model) for gpu, model in models if model == "TCC"]
    if wrong:
        return failed(
            "; ".join(f"{label(gpu)} is in {model} mode" for gpu, model in wrong),
            want="WDDM",
            rows=[rule],
        )
    if not any(model for _, model in models):
        return skipped("NVML does not say the driver model")
    return passed(
        f"{len(gpus)} GPUs: {', '.join(sorted({model for _, model in models if model}))}",
        rows=[rule],
    )


@check(
    "wsl.gpu-too-old",
    title="Each GPU is new enough for WSL2",
    severity=WARN,
    reads=(*MACHINE, "wsl.kernel", "nvml.gpus"),
    sources=("wsl-guide",),
    fix=Fix(
        "use a Pascal or newer GPU, or native Linux",
        command="in PowerShell on Windows: nvidia-smi -L",
        kind="hardware",
    ),
)
def gpu_too_old(f: Facts, k: Knowledge) -> Result:
    """Compute capability against the guide's minimum."""
    f.wsl.kernel.value  # noqa: B018 - does not apply outside WSL2
    rule = _rule(k, "wsl.gpu-floor")
    floor = ComputeCapability.parse(rule.minimum or "0.0")
    gpus = _gpus(f)
    if not gpus:
        return skipped("NVML sees no GPU")
    capabilities = [(gpu, ComputeCapability.parse(gpu.compute_capability.value)) for gpu in gpus]
    wrong = [(gpu, capability) for gpu, capability in capabilities if capability < floor]
    if not wrong:
        return passed(f"{len(gpus)} GPUs of compute capability {floor} or newer", rows=[rule])
    return failed(
        "; ".join(f"{label(gpu)} has compute capability {capability}" for gpu, capability in wrong),
        want=f"compute capability {floor} or newer",
        rows=[rule],
    )


@check(
    "wsl.libcuda-not-a-link",
    title="ldconfig finds links where it expects them in WSL2",
    severity=INFO,
    reads=(*MACHINE, "wsl.libcuda_is_link"),
    sources=("wsl#5548", "wsl#11229"),
    fix=Fix(
        "nothing: ldconfig's line about libcuda.so.1 is harmless; do not change files that Windows maps in",
        command="ldconfig -p | grep libcuda",
    ),
)
def libcuda_not_a_link(f: Facts, k: Knowledge) -> Result:
    """Windows ships a copy where Linux has a link; ldconfig prints a warning, programs run."""
    if f.wsl.libcuda_is_link.value:
        return passed("/usr/lib/wsl/lib/libcuda.so.1 is a link")
    return failed(
        "/usr/lib/wsl/lib/libcuda.so.1 is a copy, not a link: ldconfig warns, CUDA works",
        want="nothing to do",
        rows=[_rule(k, "wsl.ldconfig-warning")],
    )


@check(
    "wsl.memory",
    title="WSL2 has at least as much memory as the GPU",
    severity=INFO,
    reads=(*MACHINE, "wsl.memory_limit", "nvml.gpus"),
    sources=("textgen#536",),
    fix=Fix(
        "give the VM more memory and swap in %UserProfile%\\.wslconfig, under [wsl2]",
        command="in PowerShell on Windows: notepad $env:USERPROFILE\\.wslconfig   # memory=..., swap=...; then wsl --shutdown",
        disturbs="service",
        kind="needs-argument",
    ),
)
def memory(f: Facts, k: Knowledge) -> Result:
    """Weights pass through the VM's memory on their way to the GPU; by default it has half of the computer's."""
    limit = f.wsl.memory_limit.value
    sizes = [gpu.memory_total.value for gpu in _gpus(f)]
    if not sizes:
        return skipped("NVML sees no GPU")
    rule = _rule(k, "wsl.memory-half")
    shown = f"WSL2 has {limit / GIB:.0f} GiB of memory, the largest GPU {max(sizes) / GIB:.0f} GiB"
    if limit >= max(sizes):
        return passed(shown, rows=[rule])
    return failed(
        f"{shown}: loading a model that fills the GPU ends with Killed",
        want="memory= in .wslconfig above the GPU's memory",
        rows=[rule],
    )


@check(
    "wsl.pinned-memory",
    title="Host memory can be pinned freely",
    severity=INFO,
    reads=("host.hardware",),
    sources=("wsl#8447", "wsl-guide"),
    fix=Fix(
        "turn pinning off in the application where cudaHostAlloc says out of memory; vLLM does it by itself in WSL2",
        command="grep -i microsoft /proc/version   # on native Linux there is no such limit",
    ),
)
def pinned_memory(f: Facts, k: Knowledge) -> Result:
    """WDDM lets WSL2 pin little host memory: CPU offload and data loading are slower there or fail."""
    hardware = f.host.hardware.value
    if hardware != "wsl2":
        return passed(f"{hardware}: WDDM does not limit pinned memory here")
    return failed(
        "WSL2 limits pinned host memory: CPU offload and pinned buffers are small or fail",
        want="small pinned buffers in WSL2, or native Linux",
        rows=[_rule(k, "wsl.unified-memory")],
    )


@check(
    "wsl.systemd-off",
    title="systemd runs in WSL2 where Docker needs it",
    severity=INFO,
    reads=(*MACHINE, "wsl.systemd", "packages.installed"),
    sources=("microsoft-wsl-systemd",),
    fix=Fix("turn systemd on and restart WSL", remedy="wsl", disturbs="service"),
)
def systemd_off(f: Facts, k: Knowledge) -> Result:
    """docker.service inside WSL2 starts by itself only under systemd."""
    on = f.wsl.systemd.value
    docker = [name for name in ("docker-ce", "docker.io") if name in f.packages.installed.value]
    if not docker:
        return skipped("no Docker engine is installed in this distribution")
    if on:
        return passed(f"systemd=true in /etc/wsl.conf, for {docker[0]}")
    return failed(
        f"{docker[0]} is installed and /etc/wsl.conf does not turn systemd on",
        want="[boot] systemd=true",
        command="printf '[boot]\\nsystemd=true\\n' | sudo tee -a /etc/wsl.conf   # then in PowerShell on Windows: wsl --shutdown",
        evidence=[seen("packages.installed", docker[0])],
    )
