"""The GPUs' place on the bus: their links, and whether bridges above them redirect traffic between them."""

from __future__ import annotations

from collections.abc import Callable

from doctor.checks.areas.subject import elsewhere, on_host
from doctor.checks.base import WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.pci import PciDevice
from doctor.facts.model import FactUnknown, Known, known_or
from doctor.facts.tree import Facts

MACHINE = ("host.hardware", "host.container")


def _each(
    gpus: list[PciDevice], judge: Callable[[PciDevice], str | None]
) -> list[tuple[PciDevice, str]]:
    """The devices at fault and what is wrong; FactUnknown only where no device is at fault and one was not seen."""
    faults: list[tuple[PciDevice, str]] = []
    missing: FactUnknown | None = None
    for gpu in gpus:
        try:
            problem = judge(gpu)
        except FactUnknown as unseen:
            missing = missing or unseen
            continue
        if problem:
            faults.append((gpu, problem))
    if missing is not None and not faults:
        raise missing
    return faults


def _told_by_nvml(f: Facts, address: str) -> bool:
    """Whether NVML itself says that the link at an address is narrow."""
    gpus = f.nvml.gpus.value.values() if isinstance(f.nvml.gpus, Known) else ()
    return any(
        isinstance(gpu.pci, Known)
        and gpu.pci.value == address
        and isinstance(gpu.pcie_width, Known)
        and isinstance(gpu.pcie_width_max, Known)
        and gpu.pcie_width.value < gpu.pcie_width_max.value
        for gpu in gpus
    )


@check(
    "pci.link-degraded",
    title="Each GPU's PCIe link has all its lanes",
    severity=WARN,
    needs=("gpu.not-on-bus",),
    reads=(*MACHINE, "pci.gpus", "nvml.gpus"),
    sources=("forum-pcie-generation",),
    fix=Fix(
        "look again under load; if it stays, reseat the board or riser and check the slot's lanes in the firmware",
        command="sudo lspci -vv -d 10de: | grep -E 'LnkCap|LnkSta'",
        kind="hardware",
    ),
)
def link_degraded(f: Facts, k: Knowledge) -> Result:
    """Width now against the width the board has, by sysfs, for what NVML does not say of itself.

    A link that NVML calls narrow is gpu.pcie-degraded's; one that sysfs does not show is not judged.
    """
    skip = elsewhere(f)
    if skip:
        return skip
    gpus = f.pci.gpus.value
    if not gpus:
        return skipped("no NVIDIA GPU on the bus")
    widths: list[int] = []

    def wrong(gpu: PciDevice) -> str | None:
        now, best = known_or(gpu.link_width, None), known_or(gpu.link_width_max, None)
        if now is None or best is None:
            return None
        widths.append(now)
        return f"x{now} of x{best}" if now < best and not _told_by_nvml(f, gpu.address) else None

    faults = _each(gpus, wrong)
    if faults:
        return failed(
            "; ".join(f"GPU {gpu.address} runs at {problem}" for gpu, problem in faults),
            want="the width the board has",
            evidence=[
                seen(f"pci.gpus.{gpu.address}.link_width", problem) for gpu, problem in faults
            ],
        )
    if not widths:
        return skipped("these links show no width, as virtual ones do")
    if any(_told_by_nvml(f, gpu.address) for gpu in gpus):
        return skipped("NVML names the narrow link")
    return passed(
        f"{len(widths)} GPU links at full width: {', '.join(f'x{width}' for width in sorted(set(widths)))}"
    )


@check(
    "pci.acs",
    title="No bridge above a GPU redirects traffic between GPUs",
    severity=WARN,
    reads=(*MACHINE, "pci.gpus", "pci.acs"),
    sources=("nccl-gpu_troubleshooting", "nccl#2079", "nccl#199"),
    fix=Fix(
        "turn ACS off in the firmware; until then set NCCL_P2P_DISABLE=1 for the engines",
        kind="hardware",
    ),
)
def acs(f: Facts, k: Knowledge) -> Result:
    """On bare metal with several GPUs: request or completion redirect sends P2P up to the root complex. Never in a VM."""
    skip = elsewhere(f)
    if skip:
        return skip
    if f.host.hardware.value != "bare-metal":
        return skipped("a virtual machine needs ACS")
    count = len(f.pci.gpus.value)
    if count < 2:
        return skipped(f"{count} GPU: no traffic between GPUs")
    ports = f.pci.acs.value
    wrong = [port for port in ports if port.redirect]
    if not wrong:
        return passed(f"{len(ports)} bridges above {count} GPUs, none redirects")
    names = ", ".join(port.address for port in wrong[:6])
    return failed(
        f"ACS redirects on {len(wrong)} bridges above {count} GPUs ({names}): NCCL gets slow or hangs",
        want="ACS request and completion redirect off on bare metal",
        say=on_host(f, "turn ACS off in the firmware, or until the next boot with setpci"),
        command=" && ".join(
            f"sudo setpci -s {port.address} ECAP_ACS+6.w=0000" for port in wrong[:8]
        ),
        evidence=[seen(f"pci.acs.{port.address}", port.control) for port in wrong[:8]],
    )
