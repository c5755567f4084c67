"""Copies of NCCL: which there are, which one runs, and what is known of their versions."""

from __future__ import annotations

import shlex

from doctor.checks.areas.advice import by_family
from doctor.checks.areas.environments import each, gpus, version
from doctor.checks.base import WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.nccl import NcclCopy
from doctor.facts.model import Absent, FactUnknown, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, Pep440Version
from doctor.matrix import query
from doctor.matrix.model import NcclKnownBad

FORCING = ("$VLLM_NCCL_SO_PATH", "$LD_PRELOAD")
"""Variables whose copy is loaded whatever a program brings."""


def versions(facts: Facts) -> dict[str, Pep440Version]:
    """path -> version of every copy: bundled with wheels, and the one the loader's configuration
    gives.
    """
    found = {
        path: version(Pep440Version, text, path)
        for path, text in known_or(facts.nccl.wheels, {}).items()
    }
    text = known_or(facts.nccl.system, "")
    if text:
        found["the system's libnccl"] = version(Pep440Version, text, "nccl.system")
    return found


def listed(found: dict[str, Pep440Version]) -> str:
    """`2.28.9 (/opt/venv/...), 2.28.3 (the system's libnccl)`."""
    return ", ".join(f"{item} ({path})" for path, item in found.items())


@check(
    "nccl.copies-differ",
    title="The system's NCCL and the wheels' are one version",
    severity=WARN,
    reads=("nccl.system", "nccl.wheels", "host.os_release"),
    sources=("nccl-system-copy",),
    fix=Fix(
        say="install the same version on the system, or remove the system's copy if nothing is "
        "built against it; "
        "NCCL_DEBUG=VERSION makes a program say which copy it got",
        command="NCCL_DEBUG=VERSION python3 -c 'import torch; print(torch.cuda.nccl.version())'",
        disturbs="none",
        remedy="nccl",
    ),
)
def _copies_differ(f: Facts, k: Knowledge) -> Result:
    """Which copy runs then depends on how a program was linked and started."""
    wheels = known_or(f.nccl.wheels, {})
    if isinstance(f.nccl.system, Absent):
        return skipped("the system has no NCCL of its own")
    system = f.nccl.system.value
    if not wheels:
        return skipped(f"NCCL {system} of the system is the only copy")
    others = {path: text for path, text in wheels.items() if text != system}
    evidence = [seen("nccl.wheels", text, path) for path, text in wheels.items()]
    if not others:
        return passed(
            f"NCCL {system} on the system and in {len(wheels)} wheel(s)", evidence=evidence
        )
    shown = ", ".join(f"{text} in {path}" for path, text in list(others.items())[:3])
    return failed(
        f"NCCL {system} on the system and {shown}: which one runs depends on how a program was "
        "linked",
        want="one version",
        command=by_family(
            f,
            debian="apt-cache policy libnccl2 libnccl-dev",
            rhel="dnf --showduplicates list libnccl libnccl-devel",
        ),
        evidence=evidence,
    )


@check(
    "nccl.wrong-library",
    title="The NCCL that was asked for is the one that is loaded",
    severity=WARN,
    reads=("nccl.loader", "nccl.named", "nccl.wheels"),
    sources=("nccl-system-copy",),
    fix=Fix(
        say="put the folder of the wanted copy first in LD_LIBRARY_PATH, or upgrade or remove "
        "the other copy",
        command='ldconfig -p | grep libnccl; printf "%s\\n" "$LD_LIBRARY_PATH"',
    ),
)
def _wrong_library(f: Facts, k: Knowledge) -> Result:
    """A copy that a variable names is not older than the wheels' and not hidden by an older one."""
    named = known_or(f.nccl.named, [])
    loader = None if isinstance(f.nccl.loader, Absent) else f.nccl.loader.value
    wheels = known_or(f.nccl.wheels, {})
    for copy in named:
        result = _hidden(copy, loader) or _forced(copy, wheels)
        if result is not None:
            return result
    shadow = _shadow(loader, wheels)
    if shadow is not None:
        return shadow
    if loader is None and not named:
        return skipped("no libnccl outside the wheels")
    which = f"{loader.version or 'of unknown version'} by {loader.why}" if loader else "none"
    return passed(
        f"programs without a copy of their own get NCCL {which}; no newer copy is asked for"
    )


def _hidden(copy: NcclCopy, loader: NcclCopy | None) -> Result | None:
    """The copy that NCCL_HOME and the like name loses to an older one."""
    if copy.why in FORCING or loader is None or loader.path == copy.path:
        return None
    if not _older(loader, copy.version):
        return None
    folder = copy.path.rpartition("/")[0]
    return failed(
        f"{copy.why} names NCCL {copy.version} ({copy.path}), and the loader gives "
        f"{loader.version} ({loader.path}, {loader.why})",
        want=f"NCCL {copy.version}",
        command="export "
        f"LD_LIBRARY_PATH={shlex.quote(folder)}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",
        evidence=[
            seen("nccl.named", copy.version, copy.path),
            seen("nccl.loader", loader.version, loader.path),
        ],
    )


def _forced(copy: NcclCopy, wheels: dict[str, str]) -> Result | None:
    """A copy that is loaded before the wheel's is older than the wheel's."""
    if copy.why not in FORCING:
        return None
    newer = {path: text for path, text in wheels.items() if _older(copy, text)}
    if not newer:
        return None
    path, text = next(iter(newer.items()))
    return failed(
        f"{copy.why} forces NCCL {copy.version} ({copy.path}) on an environment that brings "
        f"{text} ({path})",
        want=f"NCCL {text}",
        say="unset the variable where the engine is started",
        command=f"unset {shlex.quote(copy.why.lstrip('$'))}",
        evidence=[seen("nccl.named", copy.version, copy.path)],
    )


def _shadow(loader: NcclCopy | None, wheels: dict[str, str]) -> Result | None:
    """A copy of LD_LIBRARY_PATH is older than a wheel's: programs with a run path that is
    searched later get it.
    """
    if loader is None or not loader.why.startswith("LD_LIBRARY_PATH"):
        return None
    newer = {path: text for path, text in wheels.items() if _older(loader, text)}
    if not newer:
        return None
    path, text = next(iter(newer.items()))
    return failed(
        f"LD_LIBRARY_PATH puts NCCL {loader.version} ({loader.path}) before {text} of the wheel "
        f"({path})",
        want=f"NCCL {text}, or no NCCL in LD_LIBRARY_PATH",
        say="take the folder out of LD_LIBRARY_PATH where the engine is started",
        command="unset LD_LIBRARY_PATH",
        evidence=[seen("nccl.loader", loader.version, loader.path)],
    )


def _older(copy: NcclCopy, than: str | None) -> bool:
    """Raises when a version was not seen: an unknown version is not known to be new enough."""
    if copy.version is None or than is None:
        raise FactUnknown("the version of a libnccl was not seen", copy.path)
    return version(Pep440Version, copy.version, copy.path) < version(
        Pep440Version, than, "nccl.wheels"
    )


@check(
    "nccl.known-bad-version",
    title="No copy of NCCL has a known fault on this host",
    severity=WARN,
    reads=("nccl.system", "nccl.wheels", "nvml.gpus", "host.machine"),
    sources=("nccl-system-copy",),
    fix=Fix(
        say="use another NCCL release", command="python3 -m pip index versions nvidia-nccl-cu13"
    ),
)
def _known_bad(f: Facts, k: Knowledge) -> Result:
    """Rows whose platform can be told here; a fault tied to one model or workload is not put on
    every host.
    """
    found = versions(f)
    if not found:
        return skipped("no NCCL was found")
    kinds = _platforms(f, k)
    hits: list[tuple[str, Pep440Version, NcclKnownBad]] = []
    for path, item in found.items():
        for row in query.nccl_known_bad(k.matrix, item):
            if set(row.platforms) & kinds:
                hits.append((path, item, row))
    if not hits:
        return passed(
            f"NCCL {listed(found)}: no known fault on {', '.join(sorted(kinds)) or 'this host'}"
        )
    path, item, row = hits[0]
    cures = "; ".join(row.remedy)
    return failed(
        each([f"NCCL {item} ({path}): {row.problem}" for path, item, row in hits]),
        want=f"a release without it: {cures}",
        say=f"reported ways out: {cures}",
        rows=[row for _, _, row in hits],
    )


def _platforms(f: Facts, k: Knowledge) -> set[str]:
    blackwell = k.matrix.statement("nccl_rules", "nccl.blackwell")
    kinds = {f.host.machine.value} & {"aarch64"}
    for gpu in gpus(f).values():
        capability = version(
            ComputeCapability, gpu.compute_capability.value, "nvml.gpus.compute_capability"
        )
        if blackwell and capability >= ComputeCapability(blackwell.values["compute_capability"]):
            kinds.add("blackwell")
        kinds |= {"gb10"} if "GB10" in known_or(gpu.name, "").split() else set()
        on_switch = known_or(gpu.fabric_state, "not-supported") != "not-supported"
        hopper = capability == ComputeCapability("9.0")
        kinds |= {"hopper-nvswitch"} if hopper and on_switch else set()
    return kinds


@check(
    "nccl.version-for-gpu",
    title="NCCL knows the GPUs' generation",
    severity=WARN,
    reads=("nccl.system", "nccl.wheels", "nvml.gpus"),
    sources=("nccl-2.25.1",),
    fix=Fix(
        say="use a torch that pins a newer NCCL, or install a newer nvidia-nccl wheel beside it",
        command="python3 -m pip install --upgrade torch",
        kind="needs-argument",
    ),
)
def _version_for_gpu(f: Facts, k: Knowledge) -> Result:
    """A release older than the generation has no code for it."""
    row = k.matrix.statement("nccl_rules", "nccl.blackwell")
    found = versions(f)
    boards = gpus(f)
    if not found or row is None or len(boards) < 1:
        return skipped("no NCCL or no GPU was found")
    least = ComputeCapability(row.values["compute_capability"])
    floor = Pep440Version(row.minimum or "")
    capabilities = {
        version(ComputeCapability, gpu.compute_capability.value, "nvml.gpus.compute_capability")
        for gpu in boards.values()
    }
    new = sorted(item for item in capabilities if item >= least)
    if not new:
        return passed(
            f"NCCL {listed(found)} and compute capability "
            f"{', '.join(map(str, sorted(capabilities)))}"
        )
    old = {path: item for path, item in found.items() if item < floor}
    if old:
        return failed(
            f"NCCL {listed(old)} has no code for compute capability {new[0]}",
            want=f"NCCL {floor} or newer",
            rows=(row,),
        )
    return passed(f"NCCL {listed(found)} has code for compute capability {new[-1]}", rows=(row,))
