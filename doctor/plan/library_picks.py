"""torch builds, NCCL, Python interpreters and CUDA toolkits to choose from, what the host has first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doctor.facts.versions import CudaVersion, Pep440Version
from doctor.matrix import query, want_query
from doctor.matrix.model import Torch
from doctor.plan.driver_picks import needs_cuda
from doctor.plan.gpu_needs import (
    built_for,
    glibc_need,
    gpu_known_to,
    installed_version,
    machine_need,
    python_need,
)
from doctor.plan.pick import CUDA, NCCL, OS, PYTHON, TORCH, Need, Pick, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import HostState


def torch_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """Installed builds, PyPI's default of each release newest first, then the builds of download.pytorch.org, then cu129."""
    picks = []
    for environment in state.pythons:
        version = Pep440Version.maybe(installed_version(environment, "torch") or "")
        if version is not None:
            picks.append(
                _torch(
                    query.torch(matrix, version),
                    version,
                    version.local,
                    None,
                    state,
                    matrix,
                    environment,
                )
            )
    rows = [row for row in want_query.newest_first(matrix, Torch) if isinstance(row, Torch)]
    picks += [
        _torch(
            row, row.version, "", want_query.torch_default_build(matrix, row.version), state, matrix
        )
        for row in rows
    ]
    for row in rows:
        for build in query.torch_builds(matrix, row.version):
            picks.append(_torch(row, row.version, build.index, build, state, matrix))
    picks += [_torch(row, row.version, "cu129", None, state, matrix) for row in rows]
    return picks


def _torch(
    row: Torch | None,
    version: Pep440Version,
    variant: str,
    build: Any,
    state: HostState,
    matrix: Matrix,
    environment: Any = None,
) -> Pick:
    return Pick(
        thing=TORCH,
        version=str(version.public),
        data=(row, environment),
        rows=tuple(item for item in (row, build) if item is not None),
        installed=environment is not None,
        variant=variant,
        needs=lambda: _torch_needs(row, version, variant, build, environment, state, matrix),
    )


def _torch_needs(
    row: Torch | None,
    version: Pep440Version,
    variant: str,
    build: Any,
    environment: Any,
    state: HostState,
    matrix: Matrix,
) -> Iterator[Need]:
    name = f"torch {version.public}" + (f"+{variant}" if variant else "")
    if variant == "cpu" or row is None:
        return
    if variant == "cu129" and environment is None:
        say = f"vLLM's documentation installs {name} from the cu129 index, but no source lists that build"
        yield Need(
            OS,
            lambda pick: None,
            (rule("torch.cu129", say, matrix.statement("vllm_rules", "vllm.cu129-install")),),
            f"{name} on the cu129 index",
        )
    built = (
        CudaVersion(f"{variant[2:-1]}.{variant[-1]}")
        if variant.startswith("cu") and variant[2:].isdigit()
        else row.cuda
    )
    yield needs_cuda(built, matrix, name, row, build)
    yield gpu_known_to(name, built, row, state)
    if build is not None:
        yield built_for(name, build)
    yield python_need(name, "torch.python", row.requires_python, row, environment)
    yield glibc_need(name, "torch.glibc", row.glibc, row, state, matrix)
    yield machine_need(name, row, state)
    if row.nccl is not None and not variant:
        pinned = row.nccl
        yield Need(
            NCCL,
            lambda pick: pinned.contains(pick.version),
            (rule("torch.nccl", f"{name} pins NCCL{pinned}", row),),
        )


def nccl_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """NCCL comes with torch as a wheel: every pin of a torch release."""
    rows = {
        row.nccl.exact: row
        for row in matrix.rows(Torch)
        if row.nccl is not None and row.nccl.exact is not None
    }
    have = {
        str(version)
        for env in state.pythons
        for name, version in env.packages.items()
        if name.startswith(("nvidia-nccl", "nvidia_nccl"))
    }
    return [
        Pick(thing=NCCL, version=str(version), rows=(row,), installed=str(version) in have)
        for version, row in sorted(rows.items(), key=lambda item: item[0], reverse=True)
    ]


# Python


def python_picks(state: HostState) -> list[Pick]:
    """The system's interpreter, those of environments, those the distribution packages, then ones that uv or pyenv brings."""
    picks = []
    if state.system_python:
        picks.append(
            Pick(
                thing=PYTHON,
                version=state.system_python,
                installed=True,
                reason="the system's Python",
            )
        )
    for environment in state.pythons:
        if environment.python:
            picks.append(
                Pick(thing=PYTHON, version=environment.python, data=environment, installed=True)
            )
    row = state.distribution
    named = [row.python, *reversed(row.python_extra)] if row else []
    for version in named:
        if version is not None:
            reason = f"packaged by {row.name if row else 'the distribution'}"
            picks.append(
                Pick(thing=PYTHON, version=version, data="distribution", rows=(row,), reason=reason)
            )
    for minor in ("3.12", "3.13", "3.11", "3.14", "3.10"):
        reason = "not packaged here as far as the matrix knows: uv python install brings it"
        picks.append(Pick(thing=PYTHON, version=minor, data="elsewhere", reason=reason))
    return picks


# CUDA toolkits


def cuda_picks(state: HostState, matrix: Matrix, native: CudaVersion | None) -> list[Pick]:
    """Installed toolkits, then the newest that the driver has natively, then the rest newest first."""
    rows = want_query.toolkits_newest_first(matrix)
    picks = [
        _cuda(CudaVersion(version), True, state, matrix)
        for version in state.toolkits
        if CudaVersion.maybe(version)
    ]
    ordered = sorted(rows, key=lambda row: int(native is not None and row.cuda.release > native))
    return picks + [_cuda(row.cuda, False, state, matrix) for row in ordered]


def _cuda(version: CudaVersion, installed: bool, state: HostState, matrix: Matrix) -> Pick:
    row = query.toolkit(matrix, version)

    def needs() -> Iterator[Need]:
        yield needs_cuda(version, matrix, f"CUDA toolkit {version}", row)
        yield gpu_known_to(f"CUDA toolkit {version}", version, row, state)
        last = state.distribution.last_cuda if state.distribution else None
        if last is not None and not installed and version.release > last:
            yield Need(
                OS,
                lambda pick: False,
                (
                    rule(
                        "cuda.os",
                        f"{state.os_name} is supported up to CUDA {last}",
                        state.distribution,
                    ),
                ),
            )

    return Pick(
        thing=CUDA,
        version=str(version),
        data=row,
        rows=(row,) if row else (),
        installed=installed,
        needs=lambda: tuple(needs()),
    )
