"""How each GPU is connected: BAR1, PCIe link, NVLink."""

from __future__ import annotations

from doctor.checks.areas.subject import LADDER, answers, counted, each, elsewhere, label, works
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.nvml import Gpu
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable
from doctor.facts.tree import Facts


@check(
    "gpu.bar1-too-small",
    title="Every GPU has an address for its memory window (BAR1)",
    severity=ERROR,
    needs=("gpu.not-on-bus",),
    reads=("host.hardware", "pci.gpus", "nvml.gpus"),
    sources=("gpu-operator#492",),
    fix=Fix(
        "turn Above 4G Decoding on in the firmware",
        command="lspci -vv -d 10de: | grep -i region",
        disturbs="reboot",
    ),
)
def bar1(f: Facts, k: Knowledge) -> Result:
    """The firmware or hypervisor mapped BAR1; without it the driver refuses the board."""
    skip = elsewhere(f)
    if skip:
        return skip
    bare, sizes = [], []
    missing: FactUnknown | None = None
    for device in f.pci.gpus.value:
        if isinstance(device.bar1, Absent) or (
            isinstance(device.bar1, Known) and not device.bar1.value
        ):
            bare.append(device)
        elif isinstance(device.bar1, Known):
            sizes.append(device.bar1.value)
        elif not works(f, device):
            reason = getattr(device.bar1, "reason", "not seen")
            missing = missing or FactUnknown(f"{device.address}: {reason}", "pci.gpus")
    if bare:
        virtual = f.host.hardware.value == "vm"
        return failed(
            f"no BAR1 address: {', '.join(device.address for device in bare)}",
            want="a BAR1 address for every GPU",
            say=(
                "give the virtual machine a larger 64-bit MMIO window and EFI firmware; on the hypervisor turn Above 4G Decoding on"
                if virtual
                else None
            ),
            evidence=[seen(f"pci.gpus[{device.address}].bar1", None) for device in bare],
        )
    if missing is not None:
        raise missing
    if not f.pci.gpus.value:
        return skipped("no NVIDIA GPU on the bus")
    if not sizes:
        return passed(
            f"{counted(len(f.pci.gpus.value), 'GPU')}: NVML opened them, so BAR1 is mapped"
        )
    least = min(sizes) >> 20
    return passed(f"{counted(len(sizes), 'GPU')}: BAR1 of at least {least} MiB")


@check(
    "gpu.pcie-degraded",
    title="PCIe links run at their full width",
    severity=WARN,
    needs=LADDER,
    reads=("host.hardware", "nvml.gpus"),
    sources=("nvidia-smi-manual",),
    fix=Fix(
        "reseat the board, try another slot or riser, look at the firmware's bifurcation setting",
        command="nvidia-smi --query-gpu=index,pcie.link.width.current,pcie.link.width.max,pcie.link.gen.current,pcie.link.gen.max --format=csv",
        kind="hardware",
        disturbs="reboot",
    ),
)
def pcie(f: Facts, k: Knowledge) -> Result:
    """Width now against what board and slot can; the generation only under load, because idle links slow down."""
    skip = elsewhere(f)
    if skip:
        return skip

    def narrow(gpu: Gpu, width: int) -> str | None:
        most = gpu.pcie_width_max.value
        if width < most:
            return f"PCIe x{width} of x{most}"
        if isinstance(gpu.throttle, NotApplicable):
            return None
        now, best = gpu.pcie_generation.value, gpu.pcie_generation_max.value
        if now < best and "gpu-idle" not in gpu.throttle.value:
            return f"PCIe generation {now} of {best} under load"
        return None

    return each(
        f,
        "pcie_width",
        narrow,
        good=lambda values: f"PCIe x{min(values)}, the widest that board and slot can",
        want="full width",
    )


@check(
    "gpu.nvlink-down",
    title="NVLinks of a GPU are all up",
    severity=WARN,
    needs=(*LADDER, "fabric.not-ready"),
    reads=("nvml.gpus",),
    sources=("nvml-constants",),
    fix=Fix(
        "look at the link errors, then reset the GPUs or reboot; if it stays: cable, bridge or board",
        command="nvidia-smi nvlink --status; nvidia-smi nvlink -e",
        kind="hardware",
        disturbs="gpu",
    ),
)
def nvlink(f: Facts, k: Knowledge) -> Result:
    """In an NVSwitch fabric every link is up; elsewhere as many as on the other boards of the model (no bridge, none up)."""
    ups: dict[str, list[tuple[Gpu, int, int]]] = {}
    count = 0
    for gpu, up in answers(f, "nvlink_up"):
        if not isinstance(up, int):
            raise FactUnknown(f"{label(gpu)}: {getattr(up, 'reason', 'not there')}", "nvml")
        count += 1
        ups.setdefault(gpu.name.value, []).append((gpu, up, gpu.nvlink_total.value))
    wrong = []
    for group in ups.values():
        best = max(up for _, up, _ in group)
        wrong += [
            (gpu, up, total)
            for gpu, up, total in group
            if up < (total if _in_fabric(gpu) else best)
        ]
    if wrong:
        return failed(
            "; ".join(f"{label(gpu)}: {up} of {total} NVLinks up" for gpu, up, total in wrong),
            want="every link up",
            evidence=[seen(f"nvml.gpus.{gpu.index}.nvlink_up", up) for gpu, up, _ in wrong],
        )
    if not count:
        return skipped("no GPU here has NVLink")
    told = ", ".join(
        sorted({f"{up} of {total} NVLinks up" for group in ups.values() for _, up, total in group})
    )
    return passed(f"{counted(count, 'GPU')}: {told}")


def _in_fabric(gpu: Gpu) -> bool:
    return isinstance(gpu.fabric_state, Known) and gpu.fabric_state.value == "completed"
