"""Memory and firmware health of each GPU, as NVML reports it."""

from __future__ import annotations

from typing import Any

from doctor.checks.areas.subject import LADDER, answers, counted, each, label, opened
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.nvml import Gpu
from doctor.facts.model import FactUnknown, Known, NotApplicable
from doctor.facts.tree import Facts

MEMORY_GUIDE = "a100-gpu-mem-error-mgmt-error-recovery-and-response-flags"
ECC_GUIDE = MEMORY_GUIDE


@check(
    "gpu.row-remap-pending",
    title="No remapped row or retired page waits for a reset",
    severity=WARN,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=(MEMORY_GUIDE,),
    fix=Fix(
        "stop what uses the GPU and reset it, or reboot",
        command="sudo nvidia-smi --gpu-reset -i 0",
        disturbs="gpu",
    ),
)
def remap_pending(f: Facts, k: Knowledge) -> Result:
    """A bad row stays in use until the GPU is reset."""
    waiting = [gpu for gpu in opened(f) if _true(gpu.retired_pages_pending)]
    rows = [
        gpu
        for gpu in opened(f)
        if isinstance(gpu.remapped_rows, Known) and gpu.remapped_rows.value.pending
    ]
    faulty = {gpu.index: gpu for gpu in [*waiting, *rows]}
    if faulty:
        first = min(faulty)
        return failed(
            "; ".join(
                f"{label(gpu)}: a repair waits for a reset" for _, gpu in sorted(faulty.items())
            ),
            want="no pending repair",
            command=f"sudo nvidia-smi --gpu-reset -i {first}",
            evidence=[
                seen(f"nvml.gpus.{index}.remapped_rows", "pending") for index in sorted(faulty)
            ],
        )
    for gpu in opened(f):
        if not isinstance(gpu.retired_pages_pending, NotApplicable):
            _ = gpu.retired_pages_pending.value
    return each(
        f,
        "remapped_rows",
        lambda _, rows: None,
        good=lambda values: (
            f"{sum(value.uncorrectable for value in values)} rows remapped, none pending"
        ),
        want="no pending remap",
        nothing="no GPU here remaps rows",
    )


def _true(fact: Any) -> bool:
    return isinstance(fact, Known) and bool(fact.value)


@check(
    "gpu.row-remap-failed",
    title="No row remap failed",
    severity=ERROR,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=(MEMORY_GUIDE,),
    fix=Fix(
        "take the GPU out of service and have it replaced",
        command="nvidia-smi -q -d ROW_REMAPPER",
        kind="hardware",
        disturbs="gpu",
    ),
)
def remap_failed(f: Facts, k: Knowledge) -> Result:
    """The board still has spare rows where it needed them."""
    return each(
        f,
        "remapped_rows",
        lambda _, rows: "a row could not be remapped: no spare left" if rows.failed else None,
        good=lambda _: "no remap failed",
        want="no failed remap",
        nothing="no GPU here remaps rows",
    )


@check(
    "gpu.ecc-uncorrected",
    title="No uncorrected memory error since the driver was loaded",
    severity=WARN,
    needs=(*LADDER, "gpu.row-remap-pending"),
    reads=("nvml.gpus",),
    sources=(MEMORY_GUIDE, "nvml-constants"),
    fix=Fix(
        "stop what uses the GPU, reset it and watch the counter; have the board looked at when it grows",
        command="nvidia-smi -q -d ECC",
        kind="hardware",
        disturbs="gpu",
    ),
)
def ecc_uncorrected(f: Facts, k: Knowledge) -> Result:
    """The volatile counter of uncorrected errors is 0."""
    return each(
        f,
        "ecc_uncorrected",
        lambda _, count: (
            f"{count} uncorrected ECC errors since the driver was loaded" if count else None
        ),
        good=lambda _: "0 uncorrected ECC errors",
        want="0",
        nothing="no GPU here counts ECC errors",
    )


@check(
    "gpu.ecc-off",
    title="ECC is on where the board has it",
    severity=INFO,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvidia-smi-manual",),
    fix=Fix(
        "turn ECC on and reset the GPU; it costs some memory on boards without HBM",
        command="sudo nvidia-smi -e 1 && sudo nvidia-smi --gpu-reset",
        disturbs="gpu",
    ),
)
def ecc_off(f: Facts, k: Knowledge) -> Result:
    """A data center board detects and corrects memory errors; on others it is the owner's choice."""
    from doctor.matrix.query import gpu_by_name

    rows: list[Any] = []

    def off(gpu: Gpu, on: bool) -> str | None:
        family = gpu_by_name(k.matrix, gpu.name.value)
        if family is not None and family.ecc:
            rows.append(family)
        return None if on or family is None or not family.ecc else "ECC is off"

    result = each(
        f,
        "ecc",
        off,
        good=lambda values: "ECC on" if all(values) else "ECC off where it is a choice",
        want="ECC on",
        nothing="no GPU here has ECC",
    )
    return result if not rows else _with_rows(result, rows)


def _with_rows(result: Result, rows: list[Any]) -> Result:
    import msgspec

    return msgspec.structs.replace(result, rows=tuple(dict.fromkeys(rows)))


@check(
    "gpu.vbios-zero",
    title="Every GPU reports a VBIOS version",
    severity=WARN,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvidia-smi-manual",),
    fix=Fix(
        "power the host off and on; if it stays, have the board looked at",
        command="nvidia-smi --query-gpu=index,vbios_version --format=csv",
        kind="hardware",
        disturbs="reboot",
    ),
)
def vbios_zero(f: Facts, k: Knowledge) -> Result:
    """A version of zeros means that the driver could not read the board's firmware."""
    return each(
        f,
        "vbios",
        lambda _, text: f"VBIOS {text}" if not text.replace(".", "").strip("0") else None,
        good=lambda values: f"VBIOS {', '.join(sorted(set(values)))}",
        want="a version that is not all zeros",
    )


@check(
    "gpu.vbios-differs",
    title="GPUs of one model have one VBIOS",
    severity=INFO,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvidia-smi-manual",),
    fix=Fix(
        "ask the vendor for one firmware for all boards",
        command="nvidia-smi --query-gpu=index,name,vbios_version --format=csv",
    ),
)
def vbios_differs(f: Facts, k: Knowledge) -> Result:
    """Boards of one model that differ in firmware may differ in clocks and power."""
    found: dict[str, dict[str, list[int]]] = {}
    total = 0
    for gpu, text in answers(f, "vbios"):
        if not isinstance(text, str):
            raise FactUnknown(f"{label(gpu)}: {getattr(text, 'reason', 'not there')}", "nvml")
        total += 1
        found.setdefault(gpu.name.value, {}).setdefault(text, []).append(gpu.index)
    mixed = {name: versions for name, versions in found.items() if len(versions) > 1}
    if mixed:
        return failed(
            "; ".join(
                f"{name}: "
                + ", ".join(
                    f"{text} on GPU {', '.join(map(str, where))}"
                    for text, where in versions.items()
                )
                for name, versions in mixed.items()
            ),
            want="one VBIOS per model",
        )
    if total < 2:
        return skipped("fewer than two GPUs to compare")
    return passed(f"{counted(total, 'GPU')}: one VBIOS per model")
