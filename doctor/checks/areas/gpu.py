"""GPUs on the bus and in NVML's list: there, opened, all of them, and not fallen off."""

from __future__ import annotations

from doctor.checks.areas.subject import (
    JETSON,
    LADDER,
    WSL,
    counted,
    elsewhere,
    inside,
    opened,
    works,
)
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Known, known_or
from doctor.facts.tree import Facts

FELL_OFF = 79


@check(
    "gpu.not-on-bus",
    title="An NVIDIA GPU is on the PCI bus",
    severity=ERROR,
    reads=("host.hardware", "pci.gpus", "nvml.gpus"),
    sources=("tesla-driver-installation-guide",),
    fix=Fix(
        "seat the card and its power cables and look at the firmware's list of devices",
        command="lspci -nn -d 10de:",
        kind="hardware",
        disturbs="reboot",
    ),
)
def not_on_bus(f: Facts, k: Knowledge) -> Result:
    """At least one display or 3D controller of vendor 10de; the root of every other check of a GPU."""
    hardware = f.host.hardware.value
    if hardware == "wsl2":
        return skipped(f"{WSL}, and the GPU is no PCI device of Linux")
    if hardware == "jetson":
        return skipped(JETSON)
    if isinstance(f.nvml.gpus, Known) and f.nvml.gpus.value:
        return passed(f"NVML lists {counted(len(f.nvml.gpus.value), 'GPU')}")
    devices = known_or(f.pci.gpus, [])
    if devices:
        shown = ", ".join(f"{item.address} (10de:{item.device})" for item in devices)
        return passed(f"{counted(len(devices), 'NVIDIA GPU')} on the bus: {shown}")
    if hardware == "bare-metal":
        return failed(
            "no NVIDIA GPU among the PCI devices", want="an NVIDIA display or 3D controller"
        )
    return failed(
        "no NVIDIA GPU among the PCI devices of this virtual machine",
        want="an NVIDIA display or 3D controller",
        say="give the virtual machine a GPU (an instance type with one, or PCI passthrough), then start it anew",
    )


@check(
    "gpu.lost",
    title="NVML can open every GPU that it lists",
    severity=ERROR,
    needs=(*LADDER, "gpu.xid-79"),
    reads=("nvml.gpus",),
    sources=("nvml-constants", "nvidia-smi-manual"),
    fix=Fix(
        "stop what uses the GPUs and reboot; if it comes back, have the board and its slot looked at",
        command="sudo reboot",
        disturbs="reboot",
        kind="hardware",
    ),
)
def lost(f: Facts, k: Knowledge) -> Result:
    """No device handle is refused."""
    gpus = f.nvml.gpus.value
    refused = {gpu.index: gpu.opened.value for gpu in gpus.values() if gpu.opened.value != "ok"}
    if refused:
        return failed(
            "; ".join(f"GPU {index}: {error}" for index, error in sorted(refused.items())),
            want="every GPU opens",
            evidence=[seen(f"nvml.gpus.{index}.opened", error) for index, error in refused.items()],
        )
    return passed(f"NVML opened {counted(len(gpus), 'GPU')} of {len(gpus)}")


@check(
    "gpu.count-differs",
    title="NVML lists every GPU of the bus",
    severity=ERROR,
    needs=(
        *LADDER,
        "driver.gpu-held-by-other-module",
        "driver.wrong-module-flavor",
        "driver.gpu-not-supported",
        "gpu.bar1-too-small",
        "gpu.xid-79",
    ),
    reads=("host.hardware", "host.container", "pci.gpus", "nvml.gpus"),
    sources=("gpu-operator#492",),
    fix=Fix(
        "read why the driver did not take the GPU over",
        command="sudo dmesg | grep -i nvrm",
        disturbs="none",
    ),
)
def count_differs(f: Facts, k: Knowledge) -> Result:
    """Each device that nvidia may have is in NVML's list."""
    skip = elsewhere(f)
    if skip:
        return skip
    if inside(f):
        return skipped("a container may have been given some of the GPUs only")
    devices = [gpu for gpu in f.pci.gpus.value if known_or(gpu.driver, None) != "vfio-pci"]
    listed = f.nvml.gpus.value
    absent = [gpu for gpu in devices if not works(f, gpu)]
    unopened = [gpu for gpu in listed.values() if gpu.opened.value != "ok"]
    if len(absent) > len(unopened):
        return failed(
            f"{counted(len(devices), 'GPU')} on the bus, {len(listed)} in NVML's list; not listed: "
            + ", ".join(gpu.address for gpu in absent),
            want=f"{len(devices)} in NVML's list",
            evidence=[
                seen(f"pci.gpus[{gpu.address}].driver", known_or(gpu.driver, None))
                for gpu in absent
            ],
        )
    return passed(f"{counted(len(devices), 'GPU')} on the bus, {len(listed)} in NVML's list")


@check(
    "gpu.xid-79",
    title="No GPU fell off the bus",
    severity=ERROR,
    reads=("kernel.xids",),
    sources=("xid-errors-analyzing-xid-catalog",),
    fix=Fix(
        "power the host off and on; if it comes back: power supply, cables, slot, board",
        command="sudo poweroff",
        disturbs="reboot",
        kind="hardware",
    ),
)
def xid_79(f: Facts, k: Knowledge) -> Result:
    """The kernel log since boot has no Xid 79."""
    from doctor.matrix.query import xid

    row = xid(k.matrix, FELL_OFF)
    rows = [row] if row else []
    events = [event for event in known_or(f.kernel.xids, []) if event.code == FELL_OFF]
    if not events:
        return passed("no Xid 79 in the kernel log since boot", rows=rows)
    where = ", ".join(sorted({event.pci for event in events}))
    return failed(
        f"Xid 79 on {where}: the GPU has fallen off the bus",
        want="no Xid 79 since boot",
        evidence=[seen("kernel.xids", events[-1].text)],
        rows=rows,
    )


@check(
    "gpu.xid",
    title="The driver reported no fault of GPU or link",
    severity=WARN,
    reads=("kernel.xids",),
    sources=("xid-errors-analyzing-xid-catalog",),
    fix=Fix(
        "follow the catalog's action for the code",
        command="sudo dmesg | grep -i xid",
        kind="hardware",
    ),
)
def xids(f: Facts, k: Knowledge) -> Result:
    """Xid codes since boot, by NVIDIA's catalog; faults of an application alone are named, not blamed on the host."""
    from doctor.matrix.query import xid

    events = [event for event in known_or(f.kernel.xids, []) if event.code != FELL_OFF]
    by_code = {event.code: event for event in events}
    rows = {code: xid(k.matrix, code) for code in by_code}
    harmless = {
        code
        for code, row in rows.items()
        if row and (row.domain == "application" or row.severity == "informational")
    }
    faults = sorted(set(by_code) - harmless)
    cited = [row for row in rows.values() if row]
    if not faults:
        apps = f"; of applications: Xid {', '.join(map(str, sorted(harmless)))}" if harmless else ""
        return passed(f"no Xid of GPU or link in the kernel log since boot{apps}", rows=cited)
    parts = []
    for code in faults:
        row = rows[code]
        meaning = f"{row.meaning} ({row.severity})" if row else "not in the catalog"
        times = sum(event.code == code for event in events)
        parts.append(f"Xid {code} x{times} on {by_code[code].pci}: {meaning}")
    actions = [row.do for code in faults if (row := rows[code]) and row.do]
    return failed(
        "; ".join(parts),
        want="no Xid since boot",
        say="; ".join(dict.fromkeys(actions)) or None,
        evidence=[seen(f"kernel.xids[{code}]", by_code[code].text) for code in faults],
        rows=cited,
    )


@check(
    "gpu.mixed-models",
    title="All GPUs are of one model",
    severity=INFO,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvml-constants",),
    fix=Fix(
        "give each engine GPUs of one model",
        command="nvidia-smi --query-gpu=index,name,uuid --format=csv",
        kind="needs-argument",
    ),
)
def mixed_models(f: Facts, k: Knowledge) -> Result:
    """Tensor parallelism runs at the pace, and with the memory, of the smallest."""
    gpus = opened(f)
    names: dict[str, list[int]] = {}
    for gpu in gpus:
        names.setdefault(gpu.name.value, []).append(gpu.index)
    if len(names) > 1:
        told = "; ".join(
            f"{name}: GPU {', '.join(map(str, where))}" for name, where in names.items()
        )
        return failed(told, want="one model", evidence=[seen("nvml.gpus.name", sorted(names))])
    if not names:
        return skipped("NVML lists no GPU")
    return passed(f"{counted(len(gpus), 'GPU')}: {next(iter(names))}")
