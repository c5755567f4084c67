"""Wants and the host as the solver's first needs. Every want gives at least one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.facts.versions import Pep440Version
from doctor.matrix import query
from doctor.plan.image import gpu_need, thing_of
from doctor.plan.pick import (
    CUDA,
    DRIVER,
    ENGINE,
    GPU,
    IMAGE,
    KERNEL,
    LAUNCH,
    TOOLKIT,
    TRTLLM,
    VLLM,
    Need,
    Pick,
    Premise,
    host,
    rule,
)
from doctor.plan.pick import want as asked
from doctor.plan.want import (
    EngineWant,
    ImageWant,
    LaunchWant,
    LockWant,
    ModelWant,
    PackageWant,
    StackWant,
    Want,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import HostState

THING = {"container": TOOLKIT}
"""Names of --want that the solver calls otherwise."""


def root_needs(state: HostState, matrix: Matrix, wants: Sequence[Want]) -> list[Need]:
    """Without a want, a working driver; with wants, what each asks for; and always what the host is."""
    needs: list[Need] = []
    for want in wants:
        needs += _of_want(want, wants, matrix)
    if not wants:
        none = asked("a working driver (nothing else was asked for)")
        needs += [gpu_need(none), Need(DRIVER, lambda pick: True, (none,))]
    return [*needs, *_of_host(state)]


def _of_want(want: Want, wants: Sequence[Want], matrix: Matrix) -> Iterator[Need]:
    premise = asked(want.spec)
    if isinstance(want, PackageWant):
        yield from _package(want, premise)
    elif isinstance(want, ImageWant):
        yield Need(thing_of(want), lambda pick: True, (premise,))
        yield gpu_need(premise)
    elif isinstance(want, EngineWant):
        yield from _engine(want, premise)
    elif isinstance(want, ModelWant):
        yield from _model(want, wants, premise, matrix)
    elif isinstance(want, LaunchWant):
        yield from _launch(want, premise)
    elif isinstance(want, (LockWant, StackWant)):
        yield from _held(want, premise)


def _package(want: PackageWant, premise: Premise) -> Iterator[Need]:
    thing = THING.get(want.name, want.name)
    label = (want.exact or "").partition("+")[2]

    def test(pick: Pick) -> bool:
        if label and thing == VLLM:
            return pick.variant == label and want.admits(pick.label)
        if thing in (DRIVER, CUDA) and Pep440Version.maybe(pick.version) is None:
            return not want.range
        return want.admits(pick.label if label else pick.version) and _is_final(want, pick)

    yield Need(thing, test, (premise,))
    if want.name == "container":
        yield Need(ENGINE, lambda pick: True, (premise,))
    if want.name in ("vllm", "tensorrt-llm", "driver", "cuda"):
        yield gpu_need(premise)
        yield Need(DRIVER, lambda pick: True, (premise,))


def _is_final(want: PackageWant, pick: Pick) -> bool:
    """A pre-release only where it is named."""
    parsed = Pep440Version.maybe(pick.version)
    return (
        parsed is None or not parsed.is_prerelease or pick.installed or want.exact == pick.version
    )


def _engine(want: EngineWant, premise: Premise) -> Iterator[Need]:
    engine = want.engine
    yield gpu_need(premise)
    built = engine.tensorrt_llm
    say = f"{want.path} was built by TensorRT-LLM {built}; an engine runs on its own version only"
    yield Need(
        TRTLLM,
        lambda pick: (
            None
            if built is None
            else Pep440Version.parse(pick.version).public == Pep440Version.parse(built).public
        ),
        (premise, rule("engine.version", say)),
        f"the TensorRT-LLM version in {want.path}/config.json",
    )
    capability = engine.capability
    if capability is not None:
        yield Need(
            GPU,
            lambda pick: _each_is(pick, capability),
            (
                premise,
                rule(
                    "engine.capability",
                    f"{want.path} was built for compute capability {capability}; an engine runs on nothing else",
                ),
            ),
            "gpus",
        )


def _each_is(pick: Pick, capability: str) -> bool | None:
    answers = [
        None if gpu.capability is None else gpu.capability.raw == capability for gpu in pick.data
    ]
    return False if False in answers else None if None in answers else True


def _model(
    want: ModelWant, wants: Sequence[Want], premise: Premise, matrix: Matrix
) -> Iterator[Need]:
    """vLLM from the first release that has the architecture, unless another engine is asked for beside it."""
    yield gpu_need(premise)
    if any(isinstance(item, PackageWant) and item.name == TRTLLM for item in wants):
        return
    for name in want.model.architectures:
        row = query.model_architecture(matrix, name)
        if row is None:
            what = f"the matrix does not know since which vLLM release {name} is supported"
            yield Need(
                VLLM,
                lambda pick: None,
                (premise, rule(f"model.{name}", what)),
                f"support for {name}",
            )
            continue
        first, last = row.first_vllm, row.last_vllm
        until = f" to {last}" if last is not None else ""
        yield Need(
            VLLM,
            lambda pick, first=first, last=last: (  # type: ignore[misc]
                Pep440Version.parse(pick.version) >= first
                and (last is None or Pep440Version.parse(pick.version) <= last)
            ),
            (premise, rule("model.architecture", f"{name} is in vLLM from {first} on{until}", row)),
        )


def _launch(want: LaunchWant, premise: Premise) -> Iterator[Need]:
    launch = want.launch
    needs_gpu = False
    for image in launch.image_wants(want.spec):
        yield Need(f"{IMAGE} {image.ref}", lambda pick: True, (premise,))
        needs_gpu = True
    for engine in launch.engines:
        if engine.image is None:
            yield Need(
                VLLM if engine.command == "vllm serve" else TRTLLM, lambda pick: True, (premise,)
            )
            needs_gpu = True
    if needs_gpu:
        yield gpu_need(premise)
    else:
        yield Need(LAUNCH, lambda pick: True, (premise,))


def _held(want: Want, premise: Premise) -> Iterator[Need]:
    yield Need(KERNEL, lambda pick: True, (premise,))


def _of_host(state: HostState) -> Iterator[Need]:
    if state.outside is not None and state.driver is not None:
        yield Need(DRIVER, lambda pick: pick.installed, (host("driver-outside", state.outside),))
