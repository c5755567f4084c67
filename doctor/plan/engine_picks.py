"""vLLM, TensorRT-LLM, torch, Python and CUDA toolkits to choose from, what the host has first, each with what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doctor.facts.versions import ComputeCapability, CudaVersion, GlibcVersion, Pep440Version, Specifier
from doctor.matrix import query, want_query
from doctor.matrix.model import TensorRTLLM, Torch, Vllm
from doctor.plan.driver_picks import needs_cuda
from doctor.plan.pick import (
    CUDA,
    GPU,
    NCCL,
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
    from collections.abc import Callable, Iterator, Sequence

    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import GpuSeen, HostState


def find_environment(state: HostState, package: str) -> Any:
    """The Python environment that has a package, the first if several do."""
    return next((env for env in state.pythons if installed_version(env, package)), None)


def installed_version(environment: Any, package: str) -> str | None:
    """A package's version in an environment, under either spelling of its name."""
    packages = environment.packages
    found = packages.get(package) or packages.get(package.replace("-", "_"))
    return str(found) if found else None


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
            picks.append(_vllm(row, parsed, parsed.local if parsed.local == "cu129" else "", state, matrix, environment))
    picks += [_vllm(row, row.version, "", state, matrix) for row in rows]
    floor = matrix.statement("vllm_rules", "vllm.cuda-13-default")
    if floor is not None and floor.versions is not None:
        picks += [
            _vllm(row, row.version, "cu129", state, matrix) for row in rows if row.version.satisfies(floor.versions)
        ]
    return picks


def _vllm(
    row: Vllm | None, version: Pep440Version, variant: str, state: HostState, matrix: Matrix, environment: Any = None
) -> Pick:
    extra = ()
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
    row: Vllm | None, version: Pep440Version, variant: str, environment: Any, state: HostState, matrix: Matrix
) -> Iterator[Need]:
    name = f"vllm {version.public}" + (f"+{variant}" if variant else "")
    if row is None:
        yield Need(OS, lambda pick: None, (rule("vllm.unknown", f"the matrix has no row for {name}"),), "vllm release")
        return
    built = _built_with(row, variant)
    yield least_capability(name, "vllm.compute-capability", row, matrix, state)
    if built is not None:
        yield gpu_known_to(name, built, row, state)
        yield needs_cuda(built, matrix, name, row)
    pinned = row.torch
    yield Need(
        TORCH,
        lambda pick: pick.data[1] is environment
        and (pick.variant == variant or (pick.installed and pick.variant != "cpu"))
        and pinned.contains(pick.version),
        (rule("vllm.torch", f"{name} pins torch{pinned}", row),),
    )
    yield _python(name, "vllm.python", row.requires_python, row, environment)
    floor = row.glibc
    if variant == "cu129":
        statement = matrix.statement("vllm_rules", "vllm.cu129-glibc")
        floor = GlibcVersion.maybe(statement.minimum or "") if statement else None
    if floor is not None:
        yield _glibc(name, "vllm.glibc", floor, row, state)


def _built_with(row: Vllm, variant: str) -> CudaVersion | None:
    if variant == "cu129":
        return CudaVersion("12.9")
    known = [item for item in (row.cuda, row.torch_cuda) if item is not None]
    return max(known) if known else None


def vllm_cpu_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """CPU builds follow vLLM's releases; they need a Python and nothing of the GPU."""
    picks = []
    for environment in state.pythons:
        version = installed_version(environment, "vllm-cpu")
        local = Pep440Version.maybe(installed_version(environment, "vllm") or "")
        if version is None and local is not None and local.local == "cpu":
            version = str(local.public)
        if version is not None:
            picks.append(_vllm_cpu(version, matrix, environment))
    rows = want_query.newest_first(matrix, Vllm)
    return picks + [_vllm_cpu(str(row.version), matrix) for row in rows]


def _vllm_cpu(version: str, matrix: Matrix, environment: Any = None) -> Pick:
    row = query.vllm(matrix, version)
    needs: Callable[[], Sequence[Need]] = tuple
    if row is not None:
        python = _python(f"vllm-cpu {version}", "vllm.python", row.requires_python, row, environment)
        needs = lambda: (python,)  # noqa: E731 - one expression
    return Pick(
        thing=VLLM_CPU,
        version=version,
        data=(row, environment),
        rows=(row,) if row else (),
        installed=environment is not None,
        needs=needs,
    )


# TensorRT-LLM


def trtllm_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """Installed releases, then every release newest first, pre-releases last."""
    picks = []
    for environment in state.pythons:
        version = Pep440Version.maybe(installed_version(environment, "tensorrt-llm") or "")
        if version is not None:
            picks.append(_trtllm(query.tensorrt_llm(matrix, version), version, state, matrix, environment))
    rows = [row for row in want_query.newest_first(matrix, TensorRTLLM) if isinstance(row, TensorRTLLM)]
    return picks + [_trtllm(row, row.version, state, matrix) for row in rows]


def _trtllm(
    row: TensorRTLLM | None, version: Pep440Version, state: HostState, matrix: Matrix, environment: Any = None
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
    row: TensorRTLLM | None, version: Pep440Version, environment: Any, state: HostState, matrix: Matrix
) -> Iterator[Need]:
    name = f"tensorrt-llm {version}"
    if row is None or row.cuda is None:
        what = f"no source says what CUDA {name} is built with"
        yield Need(OS, lambda pick: None, (rule("tensorrt-llm.unknown", what, row),), "tensorrt-llm release")
    known = want_query.tensorrt_llm_architectures(matrix, version)
    yield _listed_capability(name, known)
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
        yield _python(name, "tensorrt-llm.python", row.requires_python, row, environment)
    elif row.python:
        series = {str(item) for item in row.python}
        yield Need(
            PYTHON,
            lambda pick: ".".join(pick.version.split(".")[:2]) in series,
            (rule("tensorrt-llm.python", f"{name} is installed for Python {' and '.join(sorted(series))}", row),),
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


# torch, NCCL


def torch_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """Installed builds, PyPI's default of each release newest first, then the builds of download.pytorch.org, then cu129."""
    picks = []
    for environment in state.pythons:
        version = Pep440Version.maybe(installed_version(environment, "torch") or "")
        if version is not None:
            picks.append(_torch(query.torch(matrix, version), version, version.local, None, state, matrix, environment))
    rows = [row for row in want_query.newest_first(matrix, Torch) if isinstance(row, Torch)]
    picks += [_torch(row, row.version, "", want_query.torch_default_build(matrix, row.version), state, matrix) for row in rows]
    for row in rows:
        for build in query.torch_builds(matrix, row.version):
            picks.append(_torch(row, row.version, build.index, build, state, matrix))
    picks += [_torch(row, row.version, "cu129", None, state, matrix) for row in rows]
    return picks


def _torch(
    row: Torch | None, version: Pep440Version, variant: str, build: Any, state: HostState, matrix: Matrix, environment: Any = None
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
    row: Torch | None, version: Pep440Version, variant: str, build: Any, environment: Any, state: HostState, matrix: Matrix
) -> Iterator[Need]:
    name = f"torch {version.public}" + (f"+{variant}" if variant else "")
    if variant == "cpu" or row is None:
        return
    if variant == "cu129" and environment is None:
        say = f"vLLM's documentation installs {name} from the cu129 index, but no source lists that build"
        yield Need(OS, lambda pick: None, (rule("torch.cu129", say, matrix.statement("vllm_rules", "vllm.cu129-install")),), f"{name} on the cu129 index")
    built = CudaVersion(f"{variant[2:-1]}.{variant[-1]}") if variant.startswith("cu") and variant[2:].isdigit() else row.cuda
    yield needs_cuda(built, matrix, name, row, build)
    yield gpu_known_to(name, built, row, state)
    if build is not None:
        yield _built_for(name, build)
    yield _python(name, "torch.python", row.requires_python, row, environment)
    if row.glibc is not None:
        yield _glibc(name, "torch.glibc", row.glibc, row, state)
    if row.nccl is not None and not variant:
        pinned = row.nccl
        yield Need(NCCL, lambda pick: pinned.contains(pick.version), (rule("torch.nccl", f"{name} pins NCCL{pinned}", row),))


def nccl_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """NCCL comes with torch as a wheel: every pin of a torch release."""
    rows = {row.nccl.exact: row for row in matrix.rows(Torch) if row.nccl is not None and row.nccl.exact is not None}
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
        picks.append(Pick(thing=PYTHON, version=state.system_python, installed=True, reason="the system's Python"))
    for environment in state.pythons:
        if environment.python:
            picks.append(Pick(thing=PYTHON, version=environment.python, data=environment, installed=True))
    row = state.distribution
    named = [row.python, *reversed(row.python_extra)] if row else []
    for version in named:
        if version is not None:
            reason = f"packaged by {row.name if row else 'the distribution'}"
            picks.append(Pick(thing=PYTHON, version=version, data="distribution", rows=(row,), reason=reason))
    for minor in ("3.12", "3.13", "3.11", "3.14", "3.10"):
        reason = "not packaged here as far as the matrix knows: uv python install brings it"
        picks.append(Pick(thing=PYTHON, version=minor, data="elsewhere", reason=reason))
    return picks


def _python(name: str, id: str, specifier: Specifier, row: Any, environment: Any) -> Need:
    """An engine that is installed keeps its own interpreter."""

    def test(pick: Pick) -> bool:
        text = pick.version if pick.version.count(".") > 1 else f"{pick.version}.99"
        return (environment is None or pick.data is environment or not environment.python) and specifier.contains(text)

    return Need(PYTHON, test, (rule(id, f"{name} needs Python {specifier}", row),))


# CUDA toolkits


def cuda_picks(state: HostState, matrix: Matrix, native: CudaVersion | None) -> list[Pick]:
    """Installed toolkits, then the newest that the driver has natively, then the rest newest first."""
    rows = want_query.toolkits_newest_first(matrix)
    picks = [_cuda(CudaVersion(version), True, state, matrix) for version in state.toolkits if CudaVersion.maybe(version)]
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
                (rule("cuda.os", f"{state.os_name} is supported up to CUDA {last}", state.distribution),),
            )

    return Pick(thing=CUDA, version=str(version), data=row, rows=(row,) if row else (), installed=installed, needs=lambda: tuple(needs()))


# What GPUs and the C library allow


def _all_gpus(pick: Pick, one: Callable[[GpuSeen], bool | None]) -> bool | None:
    answers = [one(gpu) for gpu in pick.data]
    return False if False in answers else None if None in answers else True


def least_capability(name: str, id: str, row: Vllm, matrix: Matrix, state: HostState) -> Need:
    """The floor of a vLLM release; where CUDA itself dropped the GPU, the premise says so."""
    least = row.min_compute_capability

    def one(gpu: GpuSeen) -> bool | None:
        return None if least is None or gpu.capability is None else gpu.capability >= least

    say = f"{name} needs compute capability {least or 'that no source names'} or newer"
    rows: list[Any] = [row]
    built = _built_with(row, "")
    for gpu in state.gpus:
        family = gpu.family
        if family is None or one(gpu) is not False or built is None or family.last_cuda is None:
            continue
        if built.release > family.last_cuda:
            say += f": it is built with CUDA {built}, which dropped {family.architecture} after {family.last_cuda}"
            rows.append(family)
            break
    rows.append(matrix.statement("vllm_rules", "vllm.compute-capability-floor"))
    return Need(GPU, lambda pick: _all_gpus(pick, one), (rule(id, say, *rows),), "gpus")


def _listed_capability(name: str, known: tuple[Any, tuple[str, ...]] | None) -> Need:
    def one(gpu: GpuSeen) -> bool | None:
        if known is None or gpu.capability is None:
            return None
        return gpu.capability.raw.replace(".", "") in known[1]

    say = f"no source lists the GPUs of {name}"
    if known is not None:
        listed = ", ".join(f"{item[:-1]}.{item[-1]}" for item in known[1])
        say = f"{name} supports compute capability {listed}"
    return Need(GPU, lambda pick: _all_gpus(pick, one), (rule("tensorrt-llm.compute-capability", say, known and known[0]),), "gpus")


def gpu_known_to(name: str, cuda: CudaVersion, row: Any, state: HostState) -> Need:
    """The CUDA release has a target for every GPU: not before its first, not after its last."""

    def one(gpu: GpuSeen) -> bool | None:
        if gpu.family is None:
            return None
        if cuda.release < gpu.family.first_cuda:
            return False
        return gpu.family.last_cuda is None or cuda.release <= gpu.family.last_cuda

    say = f"{name} is built with CUDA {cuda}, which must have every GPU as a target"
    families = []
    for gpu in state.gpus:
        if gpu.family is not None and one(gpu) is False:
            families.append(gpu.family)
            early = cuda.release < gpu.family.first_cuda
            limit = f"{gpu.family.architecture} begins with CUDA {gpu.family.first_cuda}"
            ended = f"{gpu.family.architecture} ends with CUDA {gpu.family.last_cuda}"
            say = f"{name} is built with CUDA {cuda}; {limit if early else ended}"
    return Need(GPU, lambda pick: _all_gpus(pick, one), (rule("cuda.gpu", say, row, *families),), "gpus")


def _built_for(name: str, build: Any) -> Need:
    def one(gpu: GpuSeen) -> bool | None:
        # A build whose targets no source lists is judged by its CUDA release alone.
        return gpu.capability is None or want_query.build_has(build, gpu.capability) is not False

    listed = ", ".join(str(item) for item in build.compute_capabilities) or "no Volta"
    return Need(GPU, lambda pick: _all_gpus(pick, one), (rule("torch.gpu", f"{name} is compiled for {listed}", build),), "gpus")


def _glibc(name: str, id: str, floor: GlibcVersion, row: Any, state: HostState) -> Need:
    def test(pick: Pick) -> bool | None:
        return None if state.glibc is None else state.glibc >= floor

    return Need(OS, test, (rule(id, f"{name} needs glibc {floor} or newer", row),), "glibc")
