"""What checks of driver and GPUs speak of: which machines they are for, which GPUs NVML opened, one judgement per GPU.

No check lives here. A GPU whose answer was not seen makes the finding unknown unless another GPU is at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from doctor.checks.base import Result, failed, passed, seen, skipped
from doctor.facts.areas.nvml import Gpu
from doctor.facts.areas.pci import PciDevice
from doctor.facts.model import Fact, FactUnknown, Known, NotApplicable, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import DriverVersion

T = TypeVar("T")
LADDER = (
    "gpu.not-on-bus",
    "driver.not-installed",
    "driver.not-loaded",
    "driver.library-mismatch",
    "driver.device-node-missing",
)
"""What must hold before NVML can say anything of a GPU; each rung needs the ones below it."""
WSL = "WSL2: the driver lives in Windows"
JETSON = "Jetson: the driver comes with Jetson Linux and the GPU is part of the chip"


def elsewhere(f: Facts) -> Result | None:
    """A skip for machines whose driver is no kernel module of this Linux; None for all others."""
    hardware = f.host.hardware.value
    if hardware == "wsl2":
        return skipped(WSL)
    return skipped(JETSON) if hardware == "jetson" else None


def inside(f: Facts) -> bool:
    """Whether this is a container."""
    return f.host.container.value != "none"


def on_host(f: Facts, say: str) -> str:
    """Advice that must be followed outside the container says so."""
    return f"on the host: {say}" if inside(f) else say


def driver_in_use(f: Facts) -> str:
    """The version that answers: the loaded module's, else the one on disk that would be loaded."""
    loaded = known_or(f.driver.loaded, None)
    return loaded if loaded is not None else f.driver.disk.value


def told(fact: Fact[T]) -> T | None:
    """The value for wording only: a judgement must not rest on it, because not seen looks like not there."""
    return fact.value if isinstance(fact, Known) else None


def same(one: str, other: str) -> bool:
    """All fields of two driver versions alike: 535.104 is not 535.104.05."""
    first, second = DriverVersion.maybe(one), DriverVersion.maybe(other)
    return one == other if first is None or second is None else first == second


def label(gpu: Gpu) -> str:
    """GPU 0 (NVIDIA H200)."""
    name = f" ({gpu.name.value})" if isinstance(gpu.name, Known) else ""
    return f"GPU {gpu.index}{name}"


def opened(f: Facts) -> list[Gpu]:
    """The GPUs that NVML opened, in its order. FactUnknown when NVML did not answer."""
    gpus = sorted(f.nvml.gpus.value.values(), key=lambda gpu: gpu.index)
    return [gpu for gpu in gpus if gpu.opened.value == "ok"]


def works(f: Facts, device: PciDevice) -> bool:
    """Whether NVML opened the device at that address: an observation that outweighs any prediction."""
    if not isinstance(f.nvml.gpus, Known):
        return False
    return any(
        isinstance(gpu.pci, Known)
        and gpu.pci.value == device.address
        and isinstance(gpu.opened, Known)
        and gpu.opened.value == "ok"
        for gpu in f.nvml.gpus.value.values()
    )


def answers(f: Facts, field: str) -> Iterator[tuple[Gpu, Any]]:
    """(gpu, value) of each opened GPU that supports the question; the fact itself where it was not seen."""
    for gpu in opened(f):
        fact = getattr(gpu, field)
        if isinstance(fact, NotApplicable):
            continue
        yield gpu, fact.value if isinstance(fact, Known) else fact


def each(
    f: Facts,
    field: str,
    wrong: Callable[[Gpu, Any], str | None],
    *,
    good: Callable[[list[Any]], str],
    want: str,
    nothing: str = "no GPU here supports the question",
    rows: tuple[Any, ...] = (),
    **fix: Any,
) -> Result:
    """One finding over all GPUs: `wrong` names what is wrong with a value, `good` says of all values what was checked."""
    values: list[Any] = []
    faults: list[tuple[Gpu, Any, str]] = []
    missing: FactUnknown | None = None
    for gpu, value in answers(f, field):
        if hasattr(value, "via"):
            reason = getattr(value, "reason", "not there")
            missing = missing or FactUnknown(f"{label(gpu)}: {reason}", value.via)
            continue
        values.append(value)
        problem = wrong(gpu, value)
        if problem:
            faults.append((gpu, value, problem))
    if faults:
        return failed(
            "; ".join(f"{label(gpu)}: {problem}" for gpu, _, problem in faults),
            want=want,
            evidence=[
                seen(f"nvml.gpus.{gpu.index}.{field}", plain(value)) for gpu, value, _ in faults
            ],
            rows=rows,
            **fix,
        )
    if missing is not None:
        raise missing
    if not values:
        return skipped(nothing)
    return passed(f"{counted(len(values), 'GPU')}: {good(values)}", rows=rows)


def plain(value: Any) -> Any:
    """A value as evidence shows it."""
    import msgspec

    return msgspec.to_builtins(value)


def counted(number: int, noun: str) -> str:
    """1 GPU, 2 GPUs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
