"""Drivers to choose from: the host's own first, then the newest long-lived branches, then the rest. Each with what it needs."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from doctor.facts.versions import CudaVersion, DriverVersion
from doctor.matrix import query, want_query
from doctor.plan.pick import DRIVER, GPU, OS, Need, Pick, rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from doctor.matrix.matrix import Matrix
    from doctor.matrix.model import Branch
    from doctor.plan.host_state import GpuSeen, HostState


def driver_picks(
    state: HostState, matrix: Matrix, as_of: datetime.date, asked: Sequence[str]
) -> list[Pick]:
    """Every driver that could be on this host, the one with the least change first. `asked`: exact versions wanted."""
    versions: list[tuple[DriverVersion, bool]] = []
    if state.driver is not None:
        versions.append((state.driver, True))
    branches = [row for row in want_query.branches_newest_first(matrix) if row.latest is not None]
    branches.sort(key=lambda row: _order(row, state, matrix, as_of))
    versions += [(row.latest, False) for row in branches if row.latest is not None]
    versions += [(item, False) for text in asked if (item := DriverVersion.maybe(text)) is not None]
    seen: set[DriverVersion] = set()
    picks = []
    for version, installed in versions:
        if version not in seen:
            seen.add(version)
            picks.append(_pick(version, installed, state, matrix))
    return picks


def _order(row: Branch, state: HostState, matrix: Matrix, as_of: datetime.date) -> tuple[int, ...]:
    """The host's own branch, then the archive the host's driver came from, then long-lived, then newest; ended ones last."""
    ended = row.is_eol(as_of)
    own = state.driver is not None and state.driver.branch == row.branch.number
    return (
        int(ended),
        int(not own),
        int(not (state.driver_origin == "distribution" and in_archive(row, state, matrix))),
        int(not want_query.is_server_branch(row, as_of)),
        -row.branch.number,
    )


def in_archive(row: Branch, state: HostState, matrix: Matrix) -> bool:
    """Whether the distribution's own archive has that branch."""
    if state.distribution is None:
        return False
    return any(
        item.branch == row.branch and item.purpose in ("server", "any")
        for item in query.driver_packages(matrix, state.distribution, archive="distribution")
    )


def _pick(version: DriverVersion, installed: bool, state: HostState, matrix: Matrix) -> Pick:
    row = query.branch(matrix, version)
    return Pick(
        thing=DRIVER,
        version=str(version),
        data=(version, row),
        rows=(row,) if row else (),
        installed=installed,
        needs=lambda: _needs(version, row, installed, state, matrix),
    )


def _needs(
    version: DriverVersion, row: Branch | None, installed: bool, state: HostState, matrix: Matrix
) -> list[Need]:
    needs = [_for_gpus(version, row, installed, state, matrix)]
    if row is not None:
        needs.append(_for_flavor(version, row, state, matrix))
        last = state.distribution.last_cuda if state.distribution else None
        if last is not None and not installed and row.cuda > last:
            needs.append(
                Need(
                    OS,
                    lambda pick: False,
                    (
                        rule(
                            "driver.os",
                            f"NVIDIA's packages for {state.os_name} end with CUDA {last}, driver branch {row.branch} is CUDA {row.cuda}",
                            state.distribution,
                            row,
                        ),
                    ),
                )
            )
    return needs


def _for_gpus(
    version: DriverVersion, row: Branch | None, installed: bool, state: HostState, matrix: Matrix
) -> Need:
    def test(pick: Pick) -> bool | None:
        answers = [_knows(gpu, version, installed, matrix) for gpu in pick.data]
        return False if False in answers else None if None in answers else True

    say = f"driver {version} must know every GPU"
    families = []
    for gpu in state.gpus:
        if gpu.family is not None and _knows(gpu, version, installed, matrix) is False:
            families.append(gpu.family)
            say = f"driver {version} does not know {gpu.name}: {gpu_limit(gpu)}"
    return Need(GPU, test, (rule("driver.gpu", say, row, *families),), "gpus")


def gpu_limit(gpu: GpuSeen) -> str:
    """Which drivers know a GPU, in words."""
    row = gpu.family
    if row is None:
        return "the matrix does not know it"
    first = (
        f"from {row.min_driver or row.first_branch} on"
        if row.min_driver or row.first_branch
        else ""
    )
    last = f"up to branch {row.last_branch}" if row.last_branch is not None else ""
    return f"it is known to drivers {' and '.join(item for item in (first, last) if item) or 'no source names'}"


def _knows(gpu: GpuSeen, version: DriverVersion, installed: bool, matrix: Matrix) -> bool | None:
    """What NVML opened is known to the driver that is here, whatever the matrix says."""
    if installed and (gpu.answered or (gpu.family is not None and gpu.family.integrated)):
        return True
    if gpu.family is not None:
        return query.supports(matrix, gpu.family, version)
    if gpu.capability is None:
        return None
    architecture = query.architecture(matrix, gpu.capability)
    if architecture is None:
        return None
    if architecture.last_branch is not None and version.branch > architecture.last_branch.number:
        return False
    return None


def _for_flavor(version: DriverVersion, row: Branch, state: HostState, matrix: Matrix) -> Need:
    def one(gpu: GpuSeen) -> bool | None:
        if gpu.family is None:
            return True
        answer = query.module_flavor_required(matrix, gpu.family, version)
        return None if answer is None else answer.flavor != "none"

    def test(pick: Pick) -> bool | None:
        answers = [one(gpu) for gpu in pick.data]
        return False if False in answers else None if None in answers else True

    say = f"driver branch {row.branch} has {' and '.join(row.modules)} kernel modules"
    families = []
    for gpu in state.gpus:
        if gpu.family is not None and one(gpu) is False:
            families.append(gpu.family)
            other = "proprietary" if gpu.family.open_modules == "unsupported" else "open"
            say = f"driver branch {row.branch} has only {row.modules[0]} kernel modules; {gpu.name} works only with {other} ones"
    return Need(GPU, test, (rule("driver.flavor", say, row, *families),), "gpus")


def flavor_for(pick: Pick, state: HostState, matrix: Matrix) -> str | None:
    """The kernel-module flavour to install for a driver on these GPUs: open where both would do."""
    version, row = pick.data
    flavors = set(row.modules) if row else {"open", "proprietary"}
    for gpu in state.gpus:
        if gpu.family is None or gpu.family.open_modules is None:
            continue
        answer = query.module_flavor_required(matrix, gpu.family, version)
        if answer is not None and answer.flavor in ("open", "proprietary"):
            flavors &= {answer.flavor}
    return "open" if "open" in flavors else "proprietary" if flavors else None


def needs_cuda(cuda: CudaVersion, matrix: Matrix, by: str, *rows: Any) -> Need:
    """A driver that runs programs built with a CUDA release, natively or by minor-version compatibility."""
    floor = query.min_driver_to_run(matrix, cuda)

    def test(pick: Pick) -> bool | None:
        answer = query.runs(matrix, cuda, pick.data[0])
        return None if answer is None else answer.mode != "refused"

    minimum = f"driver {floor.min_run} or newer" if floor else "a driver the matrix does not name"
    return Need(
        DRIVER,
        test,
        (
            rule(
                f"cuda.driver:{cuda.major}",
                f"{by} is built with CUDA {cuda}, which needs {minimum}",
                floor,
                *rows,
            ),
        ),
        "driver",
        about=cuda,
    )
