"""Pure questions about engines and their libraries. Ask through `query`, which re-exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from doctor.facts.versions import Pep440Version, Specifier
from doctor.matrix.model import (
    EngineEnvironment,
    EngineOption,
    ModelArchitecture,
    Nccl,
    NcclBehaviour,
    NcclFloor,
    NcclKnownBad,
    OptionValues,
    TensorRTLLM,
    Torch,
    TorchBuild,
    Vllm,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from doctor.matrix.matrix import Matrix

_Release = TypeVar("_Release", Vllm, TensorRTLLM, Torch)


def _release(rows: Iterable[_Release], version: Pep440Version | str) -> _Release | None:
    want = (version if isinstance(version, Pep440Version) else Pep440Version.parse(version)).public
    return next((row for row in rows if row.version == want), None)


def _satisfying(
    rows: Iterable[_Release], specifier: str, *, prereleases: bool
) -> tuple[_Release, ...]:
    wanted = Specifier.parse(specifier)
    found = [
        row
        for row in rows
        if wanted.contains(row.version) and (prereleases or not row.version.is_prerelease)
    ]
    return tuple(sorted(found, key=lambda row: row.version, reverse=True))


def vllm(matrix: Matrix, version: Pep440Version | str) -> Vllm | None:
    """A vLLM release; the local label of "0.27.1+cu129" is not looked at."""
    return matrix.find(Vllm, str(version)) or _release(matrix.rows(Vllm), version)


def vllm_satisfying(
    matrix: Matrix, specifier: str, *, prereleases: bool = False
) -> tuple[Vllm, ...]:
    """The vLLM releases in a range, newest first."""
    return _satisfying(matrix.rows(Vllm), specifier, prereleases=prereleases)


def tensorrt_llm(matrix: Matrix, version: Pep440Version | str) -> TensorRTLLM | None:
    """A TensorRT-LLM release."""
    return matrix.find(TensorRTLLM, str(version)) or _release(matrix.rows(TensorRTLLM), version)


def tensorrt_llm_satisfying(
    matrix: Matrix, specifier: str, *, prereleases: bool = False
) -> tuple[TensorRTLLM, ...]:
    """The TensorRT-LLM releases in a range, newest first."""
    return _satisfying(matrix.rows(TensorRTLLM), specifier, prereleases=prereleases)


def torch(matrix: Matrix, version: Pep440Version | str) -> Torch | None:
    """A torch release as PyPI serves it; for +cu128 and the like ask `torch_builds`."""
    return matrix.find(Torch, str(version)) or _release(matrix.rows(Torch), version)


def torch_builds(matrix: Matrix, version: Pep440Version | str) -> tuple[TorchBuild, ...]:
    """The builds of a torch release's series on download.pytorch.org."""
    series = ".".join(str(version).partition("+")[0].split(".")[:2])
    return tuple(row for row in matrix.rows(TorchBuild) if row.torch.raw == series)


def nccl(matrix: Matrix, version: Pep440Version | str) -> Nccl | None:
    """An NCCL release."""
    return matrix.find(Nccl, str(version))


def nccl_known_bad(
    matrix: Matrix, version: Pep440Version | str, platform: str | None = None
) -> tuple[NcclKnownBad, ...]:
    """The known faults of an NCCL version, of one platform and of all where one is named."""
    return tuple(
        row
        for row in matrix.rows(NcclKnownBad)
        if row.versions.contains(version)
        and (platform is None or not row.platforms or platform in row.platforms)
    )


def nccl_behaviour(
    matrix: Matrix, version: Pep440Version | str, ident: str | None = None
) -> tuple[NcclBehaviour, ...]:
    """What an NCCL version does by default, of one kind if asked."""
    return tuple(
        row
        for row in matrix.rows(NcclBehaviour)
        if (ident is None or row.id == ident) and row.versions.contains(version)
    )


def nccl_floor(
    matrix: Matrix, gpu: str, gpus: int, link: str | None = None, op: str = "all_reduce"
) -> tuple[NcclFloor, ...]:
    """The bandwidths known for a topology; most have none, and being below only warns."""
    return tuple(
        row
        for row in matrix.rows(NcclFloor)
        if row.gpu == gpu
        and row.gpus == gpus
        and row.op == op
        and (link is None or row.link == link)
    )


def model_architecture(matrix: Matrix, name: str) -> ModelArchitecture | None:
    """The first vLLM release that registers a model class named by config.json."""
    return matrix.find(ModelArchitecture, name)


def engine_options(matrix: Matrix, command: str, name: str) -> tuple[EngineOption, ...]:
    """Every row about an option ("--block-size") of a command ("vllm serve"), aliases included."""
    return tuple(
        row
        for row in matrix.rows(EngineOption)
        if row.command == command and name in (row.name, *row.aliases)
    )


def engine_option(
    matrix: Matrix, command: str, name: str, version: Pep440Version | str
) -> EngineOption | None:
    """The option if that release of the engine is known to have it."""
    want = version if isinstance(version, Pep440Version) else Pep440Version.parse(version)
    for row in engine_options(matrix, command, name):
        if (row.since is None or row.since <= want) and (row.until is None or want <= row.until):
            return row
    return None


def option_values(
    matrix: Matrix, command: str, name: str, version: Pep440Version | str
) -> OptionValues | None:
    """What an option accepts in a release, and its default."""
    want = version if isinstance(version, Pep440Version) else Pep440Version.parse(version)
    return next(
        (
            row
            for row in matrix.rows(OptionValues)
            if (row.command, row.name) == (command, name)
            and row.since <= want
            and (row.until is None or want <= row.until)
        ),
        None,
    )


def engine_environment(
    matrix: Matrix, engine: str, name: str, version: Pep440Version | str
) -> EngineEnvironment | None:
    """What an engine's release does with an environment variable."""
    want = version if isinstance(version, Pep440Version) else Pep440Version.parse(version)
    return next(
        (
            row
            for row in matrix.rows(EngineEnvironment)
            if (row.engine, row.name) == (engine, name)
            and row.since <= want
            and (row.until is None or want <= row.until)
        ),
        None,
    )
