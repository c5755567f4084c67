"""What GPUs, the C library and the interpreter allow: needs that several things share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doctor.facts.versions import CudaVersion, GlibcVersion, Specifier
from doctor.matrix import want_query
from doctor.matrix.model import Vllm
from doctor.plan.pick import GPU, OS, PYTHON, Need, Pick, rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import GpuSeen, HostState


def installed_version(environment: Any, package: str) -> str | None:
    """A package's version in an environment, under either spelling of its name."""
    packages = environment.packages
    found = packages.get(package) or packages.get(package.replace("-", "_"))
    return str(found) if found else None


def built_with(row: Vllm, variant: str = "") -> CudaVersion | None:
    """The CUDA release of a vLLM wheel and the torch that it pins, the newer of the two."""
    if variant == "cu129":
        return CudaVersion("12.9")
    known = [item for item in (row.cuda, row.torch_cuda) if item is not None]
    return max(known) if known else None


def python_need(name: str, id: str, specifier: Specifier, row: Any, environment: Any) -> Need:
    """An engine that is installed keeps its own interpreter."""

    def test(pick: Pick) -> bool:
        text = pick.version if pick.version.count(".") > 1 else f"{pick.version}.99"
        return (
            environment is None or pick.data is environment or not environment.python
        ) and specifier.contains(text)

    return Need(PYTHON, test, (rule(id, f"{name} needs Python {specifier}", row),))


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
    built = built_with(row)
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


def listed_capability(name: str, known: tuple[Any, tuple[str, ...]] | None) -> Need:
    """The compute capabilities that a release names are all that it supports."""

    def one(gpu: GpuSeen) -> bool | None:
        if known is None or gpu.capability is None:
            return None
        return gpu.capability.raw.replace(".", "") in known[1]

    say = f"no source lists the GPUs of {name}"
    if known is not None:
        listed = ", ".join(f"{item[:-1]}.{item[-1]}" for item in known[1])
        say = f"{name} supports compute capability {listed}"
    return Need(
        GPU,
        lambda pick: _all_gpus(pick, one),
        (rule("tensorrt-llm.compute-capability", say, known and known[0]),),
        "gpus",
    )


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
    return Need(
        GPU, lambda pick: _all_gpus(pick, one), (rule("cuda.gpu", say, row, *families),), "gpus"
    )


def built_for(name: str, build: Any) -> Need:
    """A torch build has code for every GPU."""

    def one(gpu: GpuSeen) -> bool | None:
        # A build whose targets no source lists is judged by its CUDA release alone.
        return gpu.capability is None or want_query.build_has(build, gpu.capability) is not False

    listed = ", ".join(str(item) for item in build.compute_capabilities) or "no Volta"
    return Need(
        GPU,
        lambda pick: _all_gpus(pick, one),
        (rule("torch.gpu", f"{name} is compiled for {listed}", build),),
        "gpus",
    )


def glibc_need(
    name: str, id: str, floor: GlibcVersion | None, row: Any, state: HostState, matrix: Matrix
) -> Need:
    """The system's C library is new enough for a wheel. A wheel whose label says nothing is not trusted on an old system."""
    known = matrix.statement("torch_rules", "torch.glibc-floor")
    modern = GlibcVersion.maybe(known.minimum or "") if known is not None else None

    def test(pick: Pick) -> bool | None:
        if state.glibc is None:
            return None
        if floor is not None:
            return state.glibc >= floor
        return True if modern is not None and state.glibc >= modern else None

    say = f"{name} needs glibc {floor} or newer"
    if floor is None:
        say = f"no source says which glibc {name} needs"
    return Need(OS, test, (rule(id, say, row, known),), "glibc")


def machine_need(name: str, row: Any, state: HostState) -> Need:
    """The rows of torch and vLLM are of the wheels for x86-64."""
    say = f"the matrix has {name} for x86-64 only"

    def test(pick: Pick) -> bool | None:
        return True if state.machine in ("x86_64", None) else None

    return Need(OS, test, (rule("wheel.machine", say, row),), f"wheels for {state.machine}")
