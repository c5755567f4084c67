"""What judges of --want share: which wants there are, which engine version they mean, what a problem is. No check lives here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from doctor.checks.base import Result, failed, passed, unseen
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.nvml import Gpu
from doctor.facts.model import FactUnknown
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, Pep440Version
from doctor.plan.launch import EngineCommand
from doctor.plan.want import LaunchWant, PackageWant, Want

W = TypeVar("W", bound=Want)
GIB = 2**30


class Problem(NamedTuple):
    """One thing that is wrong: what, what was wanted, and what to do where the check's own advice is not exact."""

    say: str
    want: str
    command: str | None = None
    rows: tuple[Any, ...] = ()


def wants(k: Knowledge, kind: type[W]) -> list[W]:
    """The wants of a kind."""
    return [item for item in k.wants if isinstance(item, kind)]


def engines(k: Knowledge) -> list[EngineCommand]:
    """Engine commands of every launch."""
    return [engine for want in wants(k, LaunchWant) for engine in want.launch.engines]


def concluded(
    problems: Sequence[Problem], fine: str, holes: Iterable[str] = (), rows: Sequence[Any] = ()
) -> Result:
    """Fail with every problem; else unknown with what was not seen; else pass with what was checked."""
    if problems:
        first = problems[0]
        return failed(
            "; ".join(item.say for item in problems),
            want="; ".join(dict.fromkeys(item.want for item in problems)),
            command=first.command,
            rows=[row for item in problems for row in item.rows],
        )
    missing = list(holes)
    return unseen("; ".join(missing)) if missing else passed(fine, rows=rows)


def engine_version(
    f: Facts, k: Knowledge, engine: EngineCommand | None, package: str
) -> Pep440Version | None:
    """The release that will run: the image's, the one that is asked for, or the only one installed. None: not known."""
    if engine is not None and engine.version is not None:
        return Pep440Version.maybe(engine.version)
    if engine is not None and engine.image is not None:
        return None
    for want in wants(k, PackageWant):
        if want.name == package and want.exact is not None:
            return Pep440Version.maybe(want.exact)
    names = {package, package.replace("-", "_")}
    found = {
        version
        for item in f.python_env.environments.value
        for name, version in item.packages.items()
        if name in names
    }
    return Pep440Version.maybe(found.pop()) if len(found) == 1 else None


def opened(f: Facts) -> list[Gpu]:
    """The GPUs that NVML names, in its order. FactUnknown when NVML did not answer."""
    return sorted(f.nvml.gpus.value.values(), key=lambda gpu: gpu.index)


def capability(gpu: Gpu) -> ComputeCapability:
    """A GPU's compute capability, or FactUnknown."""
    text = str(gpu.compute_capability.value)
    found = ComputeCapability.maybe(text)
    if found is None:
        raise FactUnknown(f"{text!r} is no compute capability", "nvml.gpus")
    return found


def name_of(gpu: Gpu) -> str:
    """GPU 0 (NVIDIA H200)."""
    return f"GPU {gpu.index} ({gpu.name.value})"


def gib(count: float) -> str:
    """71.2 GiB."""
    return f"{count / GIB:.1f} GiB"
