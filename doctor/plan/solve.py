"""The solver: which version of each thing serves every want on this host with the least change, or which few premises cannot all hold.

What was not seen is let through while solving, so a conflict is proven whatever it turns out to be; a solution that leans on it is unknown.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from resolvelib import AbstractProvider, BaseReporter, ResolutionImpossible, Resolver

from doctor.plan import driver_picks, engine_picks, image, library_picks
from doctor.plan.host_state import GpuSeen
from doctor.plan.pick import (
    APART,
    CUDA,
    DRIVER,
    ENGINE,
    GPU,
    IMAGE,
    KERNEL,
    LAUNCH,
    NCCL,
    ORDER,
    OS,
    PYTHON,
    TENSORRT,
    TOOLKIT,
    TORCH,
    TRTLLM,
    VLLM,
    VLLM_CPU,
    Need,
    Pick,
    Premise,
    base,
    host,
)
from doctor.plan.roots import root_needs
from doctor.plan.want import ImageWant, PackageWant, Want

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import HostState


NOT_SEEN = GpuSeen(name="a GPU that was not seen", count=0, capability=None)
"""Stands for the GPUs of a host whose bus could not be read."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be solved."""

    state: Any
    matrix: Any
    wants: tuple[Want, ...]
    as_of: datetime.date


class Solution(msgspec.Struct, frozen=True, kw_only=True):
    """A pick for every thing that matters, the needs that shaped it, and what it leans on unseen."""

    picks: dict[str, Any]
    needs: tuple[Any, ...]
    leaning: tuple[tuple[str, str], ...] = ()
    """(what was not seen, the rule that needs it)."""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Premises that cannot all hold; none of them can be left out."""

    premises: tuple[Any, ...]


def solve(problem: Problem, catalog: Catalog | None = None) -> Solution | Conflict:
    """The stack, or the smallest conflict. A catalog that is given can explain the picks of the answer."""
    catalog = catalog or Catalog(problem)
    needs = [
        catalog.about_host(need)
        for need in root_needs(problem.state, problem.matrix, problem.wants)
    ]
    found = resolve(catalog, needs, frozenset())
    if isinstance(found, Solution):
        return found
    return Conflict(premises=tuple(_smallest(catalog, needs)))


class Catalog:
    """Picks of each thing, made when first asked for and kept for every attempt."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        wanted = {need.thing for need in root_needs(problem.state, problem.matrix, problem.wants)}
        self.apart = {VLLM, TRTLLM} <= wanted
        self._picks: dict[str, list[Pick]] = {}
        self._needs: dict[int, tuple[Need, ...]] = {}

    def picks(self, thing: str) -> list[Pick]:
        """Every pick of a thing, the preferred first."""
        if thing not in self._picks:
            made = self._made(thing.removesuffix(APART))
            if thing.endswith(APART) or (thing == TRTLLM and self.apart):
                made = [_apart(pick, thing) for pick in made]
            self._picks[thing] = made
        return self._picks[thing]

    def needs(self, pick: Pick) -> tuple[Need, ...]:
        """What a pick needs."""
        if id(pick) not in self._needs:
            self._needs[id(pick)] = tuple(self.about_host(need) for need in pick.needs())
        return self._needs[id(pick)]

    def about_host(self, need: Need) -> Need:
        """A need about the GPUs or the system rests on what the host is, too."""
        if need.thing == GPU:
            return replace(need, premises=(*need.premises, _gpus_premise(self.problem.state)))
        if need.thing == OS:
            return replace(
                need,
                premises=(
                    *need.premises,
                    host(
                        "os",
                        f"the system is {self.problem.state.os_name or 'not known'}{_with_glibc(self.problem.state)}",
                    ),
                ),
            )
        return need

    def _made(self, thing: str) -> list[Pick]:
        state: HostState = self.problem.state
        matrix: Matrix = self.problem.matrix
        if thing == GPU:
            gpus = state.gpus or ((NOT_SEEN,) if "gpus" in state.unseen else ())
            return [Pick(thing=GPU, version="", data=gpus, installed=True)]
        if thing in (KERNEL, LAUNCH):
            return [Pick(thing=thing, version="", installed=True)]
        if thing == OS:
            return [Pick(thing=OS, version=state.os_name, data=state, installed=True)]
        if thing == DRIVER:
            asked = [
                want.exact
                for want in self.problem.wants
                if isinstance(want, PackageWant) and want.name == "driver" and want.exact
            ]
            return driver_picks.driver_picks(state, matrix, self.problem.as_of, asked)
        if thing == CUDA:
            return library_picks.cuda_picks(state, matrix, self._native_cuda())
        if thing == TOOLKIT:
            return image.toolkit_picks(state, matrix, self.problem.as_of)
        if thing == ENGINE:
            return image.container_engine_picks(state, matrix)
        if thing.startswith(IMAGE + " "):
            ref = thing.removeprefix(IMAGE + " ")
            want = next(w for w in _images(self.problem.wants) if w.ref == ref)
            return image.image_picks(want, state, matrix)
        by_thing = {
            VLLM: engine_picks.vllm_picks,
            VLLM_CPU: engine_picks.vllm_cpu_picks,
            TRTLLM: engine_picks.trtllm_picks,
            TENSORRT: engine_picks.tensorrt_picks,
            TORCH: library_picks.torch_picks,
            NCCL: library_picks.nccl_picks,
        }
        if thing == PYTHON:
            return library_picks.python_picks(state)
        return by_thing[thing](state, matrix)

    def _native_cuda(self) -> Any:
        """The CUDA level of the driver one would take anyway, so that a toolkit is not newer without need."""
        for pick in self.picks(DRIVER):
            row = pick.data[1]
            if row is not None and all(
                need.test(candidate) is not False
                for need in self.needs(pick)
                for candidate in self.picks(need.thing)
            ):
                return row.cuda
        return None


def _apart(pick: Pick, thing: str) -> Pick:
    """A pick of an environment of its own: the torch, NCCL and Python that it needs are not those of vLLM."""

    def needs() -> Iterator[Need]:
        for need in pick.needs():
            own = need.thing in (TORCH, NCCL, PYTHON)
            yield replace(need, thing=need.thing + APART) if own else need

    return replace(pick, thing=thing, needs=lambda: tuple(needs()))


def _gpus_premise(state: HostState) -> Premise:
    if not state.gpus:
        return host("gpus", "there is no NVIDIA GPU on this host")
    named = ", ".join(
        f"{gpu.count}x {gpu.name} (compute capability {gpu.capability})"
        if gpu.count > 1
        else f"{gpu.name} (compute capability {gpu.capability})"
        for gpu in state.gpus
    )
    return Premise(
        "host",
        "gpus",
        f"the host has {named}",
        tuple(gpu.row for gpu in state.gpus if gpu.row is not None),
    )


def _with_glibc(state: HostState) -> str:
    return f" with glibc {state.glibc}" if state.glibc else ""


def _images(wants: Iterable[Want]) -> Iterator[ImageWant]:
    from doctor.plan.want import LaunchWant

    for want in wants:
        if isinstance(want, ImageWant):
            yield want
        elif isinstance(want, LaunchWant):
            yield from want.launch.image_wants(want.spec)


class _Provider(AbstractProvider):  # type: ignore[type-arg]
    """resolvelib's view of the catalog, with the needs of disabled premises left out."""

    def __init__(self, catalog: Catalog, disabled: frozenset[str]) -> None:
        self.catalog = catalog
        self.disabled = disabled
        self._possible: dict[int, bool] = {}

    def is_possible(self, pick: Pick) -> bool:
        """Whether the GPUs and the system, which nothing can change, allow a pick at all."""
        known = self._possible.get(id(pick))
        if known is None:
            known = self._possible[id(pick)] = all(
                need.test(self.catalog.picks(need.thing)[0]) is not False
                for need in self.get_dependencies(pick)
                if need.thing in (GPU, OS)
            )
        return known

    def identify(self, requirement_or_candidate: Need | Pick) -> str:
        return requirement_or_candidate.thing

    def get_preference(self, identifier: str, *_: Any, **__: Any) -> int:
        name = base(identifier)
        return ORDER.index(name) if name in ORDER else len(ORDER)

    def find_matches(
        self,
        identifier: str,
        requirements: Mapping[str, Iterator[Need]],
        incompatibilities: Mapping[str, Iterator[Pick]],
    ) -> list[Pick]:
        needs = list(requirements[identifier])
        barred = {id(pick) for pick in incompatibilities[identifier]}
        return [
            pick
            for pick in self.catalog.picks(identifier)
            if id(pick) not in barred
            and all(need.test(pick) is not False for need in needs)
            and self.is_possible(pick)
        ]

    def is_satisfied_by(self, requirement: Need, candidate: Pick) -> bool:
        return requirement.test(candidate) is not False

    def get_dependencies(self, candidate: Pick) -> list[Need]:
        return [need for need in self.catalog.needs(candidate) if _enabled(need, self.disabled)]


def _enabled(need: Need, disabled: frozenset[str]) -> bool:
    return not any(premise.key in disabled for premise in need.premises)


def resolve(catalog: Catalog, roots: Sequence[Need], disabled: frozenset[str]) -> Solution | None:
    """A solution without the premises that are disabled, or None where there is none."""
    needs = [need for need in roots if _enabled(need, disabled)]
    try:
        result = Resolver(_Provider(catalog, disabled), BaseReporter()).resolve(
            needs, max_rounds=2000
        )
    except ResolutionImpossible:
        return None
    picks: dict[str, Pick] = dict(result.mapping)
    active = [*needs]
    for pick in picks.values():
        active += [need for need in catalog.needs(pick) if _enabled(need, disabled)]
    leaning = dict.fromkeys(
        (need.unseen or need.thing, need.premises[0].say)
        for need in active
        if need.thing in picks and need.test(picks[need.thing]) is None
    )
    return Solution(picks=picks, needs=tuple(active), leaning=tuple(leaning))


def _smallest(catalog: Catalog, roots: Sequence[Need]) -> list[Premise]:
    """Leave out premises one by one for as long as there is still no solution: what is left is minimal."""
    every = reachable(catalog, roots)
    order = sorted(every, key=lambda key: _rank(every[key]))
    disabled: frozenset[str] = frozenset()
    for key in order:
        if not isinstance(resolve(catalog, roots, disabled | {key}), Solution):
            disabled |= {key}
    return [every[key] for key in reversed(order) if key not in disabled]


def reachable(catalog: Catalog, roots: Sequence[Need]) -> dict[str, Premise]:
    """Every premise that the wants can reach, by key. A rule's words differ from release to release: those of a release
    that was asked for, or that such a release asks for, come first."""
    found: dict[str, Premise] = {}
    for need in _walk(catalog, roots, strictly=True):
        for premise in need.premises:
            found.setdefault(premise.key, premise)
    for need in _walk(catalog, roots, strictly=False):
        for premise in need.premises:
            found.setdefault(premise.key, premise)
    return found


def _walk(catalog: Catalog, roots: Sequence[Need], *, strictly: bool) -> Iterator[Need]:
    """Needs breadth first. Strictly: only of picks that satisfy the need by which the thing was reached."""
    pending = deque(roots)
    done: set[str] = set()
    while pending:
        need = pending.popleft()
        yield need
        if need.thing in done:
            continue
        done.add(need.thing)
        asked = [item for item in roots if item.thing == need.thing]
        if strictly:
            asked.append(need)
        for pick in catalog.picks(need.thing):
            if all(item.test(pick) is not False for item in asked):
                pending.extend(catalog.needs(pick))


def _rank(premise: Premise) -> int:
    """What is left out first: rules that say less; wants and host last, so that they stay in the answer."""
    if premise.kind == "rule":
        return 0 if premise.id in ("cuda.gpu", "driver.flavor", "torch.gpu") else 1
    return 2 if premise.kind == "host" else 3
