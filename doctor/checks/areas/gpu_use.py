"""What limits or occupies each GPU now: MIG, compute mode, clocks, power, other programs."""

from __future__ import annotations

from typing import Any

from doctor.checks.areas.subject import LADDER, counted, each
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.nvml import Gpu
from doctor.facts.tree import Facts

SLOWING = ("hw-slowdown", "hw-thermal", "sw-thermal", "hw-power-brake")
"""Reasons that point at heat or power; a power cap under load and idle clocks are normal."""


@check(
    "gpu.mig-no-instances",
    title="GPUs in MIG mode have instances",
    severity=ERROR,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("mig-user-guide-deployment-considerations",),
    fix=Fix(
        "make instances, or turn MIG off",
        command="sudo nvidia-smi mig -lgip   # then: sudo nvidia-smi mig -cgi PROFILE -C, or: sudo nvidia-smi -mig 0",
        disturbs="gpu",
        kind="needs-argument",
    ),
)
def mig_no_instances(f: Facts, k: Knowledge) -> Result:
    """CUDA has no device on a GPU in MIG mode without instances."""
    return (
        each(
            f,
            "mig_instances",
            lambda _, number: "MIG mode is on and there is no instance" if not number else None,
            good=lambda values: f"MIG instances: {', '.join(map(str, values))}",
            want="at least one instance, or MIG off",
            nothing="no GPU is in MIG mode",
        )
        if _any_mig(f)
        else _mig_off(f)
    )


def _any_mig(f: Facts) -> bool:
    from doctor.checks.areas.subject import answers

    return any(value is True for _, value in answers(f, "mig"))


def _mig_off(f: Facts) -> Result:
    return each(
        f,
        "mig",
        lambda _, on: None,
        good=lambda _: "MIG is off",
        want="MIG off",
        nothing="no GPU here has MIG",
    )


@check(
    "gpu.compute-mode",
    title="GPUs accept compute programs",
    severity=ERROR,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvidia-smi-manual", "nvml-constants"),
    fix=Fix("set the default mode", command="sudo nvidia-smi -c DEFAULT"),
)
def compute_mode(f: Facts, k: Knowledge) -> Result:
    """No GPU is in the mode that prohibits compute."""
    return each(
        f,
        "compute_mode",
        lambda _, mode: "compute mode prohibited" if mode == "prohibited" else None,
        good=lambda values: f"compute mode {', '.join(sorted(set(values)))}",
        want="compute mode default",
    )


@check(
    "gpu.compute-exclusive",
    title="Several processes may share a GPU",
    severity=WARN,
    needs=(*LADDER, "gpu.compute-mode"),
    reads=("nvml.gpus",),
    sources=("nvidia-smi-manual", "nvml-constants"),
    fix=Fix(
        "set the default mode unless one process per GPU is meant",
        command="sudo nvidia-smi -c DEFAULT",
    ),
)
def compute_exclusive(f: Facts, k: Knowledge) -> Result:
    """In exclusive mode the second process of an engine, or a second engine, finds the GPU busy."""
    return each(
        f,
        "compute_mode",
        lambda _, mode: f"compute mode {mode}" if mode.startswith("exclusive") else None,
        good=lambda values: f"compute mode {', '.join(sorted(set(values)))}",
        want="compute mode default",
    )


@check(
    "gpu.throttled",
    title="No GPU is slowed down by heat or power",
    severity=WARN,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvml-clock-event-reasons",),
    fix=Fix(
        "look at cooling, inlet temperature and power supply",
        command="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
        kind="hardware",
    ),
)
def throttled(f: Facts, k: Knowledge) -> Result:
    """No thermal or power-brake reason is active now."""

    def slowed(_: Gpu, reasons: list[str]) -> str | None:
        active = [reason for reason in reasons if reason in SLOWING]
        return f"clocks held down: {', '.join(active)}" if active else None

    return each(
        f,
        "throttle",
        slowed,
        good=lambda values: _reasons(values),
        want="no thermal or power-brake slowdown",
    )


def _reasons(values: list[Any]) -> str:
    active = sorted({reason for reasons in values for reason in reasons})
    return f"clock reasons now: {', '.join(active) or 'none'}"


@check(
    "gpu.power-limited",
    title="Power limits are the boards' own",
    severity=WARN,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvidia-smi-manual",),
    fix=Fix(
        "set the default limit unless the rack needs less",
        command="nvidia-smi --query-gpu=index,power.default_limit --format=csv   # then: sudo nvidia-smi -pl WATTS",
        kind="needs-argument",
    ),
)
def power_limited(f: Facts, k: Knowledge) -> Result:
    """The limit in force is not below the default."""

    def lowered(gpu: Gpu, limit: int) -> str | None:
        own = gpu.power_limit_default.value
        return f"power limit {limit // 1000} W, default {own // 1000} W" if limit < own else None

    return each(
        f,
        "power_limit",
        lowered,
        good=lambda values: (
            f"power limit {', '.join(sorted({f'{value // 1000} W' for value in values}))}, the default"
        ),
        want="the default power limit",
    )


@check(
    "gpu.memory-in-use",
    title="No other program holds GPU memory",
    severity=INFO,
    needs=LADDER,
    reads=("nvml.gpus",),
    sources=("nvidia-smi-manual",),
    fix=Fix(
        "count what they hold before sizing an engine's share",
        command="nvidia-smi --query-compute-apps=pid,used_memory,gpu_uuid --format=csv",
    ),
)
def memory_in_use(f: Facts, k: Knowledge) -> Result:
    """No process has a compute context."""

    def held(_: Gpu, processes: list[Any]) -> str | None:
        if not processes:
            return None
        known = [item.memory for item in processes if item.memory is not None]
        size = f", {sum(known) >> 20} MiB" if known else ""
        return f"{counted(len(processes), 'compute context')}{size}"

    return each(
        f,
        "processes",
        held,
        good=lambda _: "no compute context",
        want="no compute process, or a share that leaves room for them",
    )
