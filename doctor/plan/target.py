"""The solution as rows: what the host has of each thing, what it should have, why, and who says so."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from doctor.checks.knowledge import Knowledge
from doctor.matrix import query
from doctor.plan import image
from doctor.plan.driver_picks import flavor_for
from doctor.plan.model import Target
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
    base,
)
from doctor.plan.want import EngineWant, LaunchWant, LockWant, ModelWant, StackWant

if TYPE_CHECKING:
    from doctor.plan.host_state import HostState
    from doctor.plan.solve import Catalog, Solution

SHOWN = (DRIVER, CUDA, VLLM, TRTLLM, VLLM_CPU, TENSORRT, TORCH, NCCL, PYTHON, ENGINE, TOOLKIT)
"""Things that get a row, from the driver up."""


def rows(catalog: Catalog, solution: Solution, knowledge: Knowledge) -> list[Target]:
    """One row for each thing of the stack and for every want that is not a thing."""
    maker = _Rows(catalog, solution, knowledge)
    shown = sorted(
        (thing for thing in solution.picks if base(thing) in SHOWN),
        key=lambda thing: (SHOWN.index(base(thing)), thing),
    )
    found = [maker.row(thing) for thing in shown]
    if DRIVER in solution.picks and catalog.problem.state.nvswitches:
        found.insert(1, maker.fabric_manager())
    found += [maker.row(thing) for thing in sorted(solution.picks) if thing.startswith(IMAGE + " ")]
    return found + [
        row for want in catalog.problem.wants if (row := maker.of_want(want)) is not None
    ]


class _Rows:
    def __init__(self, catalog: Catalog, solution: Solution, knowledge: Knowledge) -> None:
        self.catalog = catalog
        self.solution = solution
        self.knowledge = knowledge
        self.state: HostState = catalog.problem.state
        self.as_of: datetime.date = catalog.problem.as_of

    def row(self, thing: str) -> Target:
        """The row of one thing."""
        pick: Pick = self.solution.picks[thing]
        cited = [*pick.rows]
        for need in self.needs_on(thing):
            cited += [row for premise in need.premises for row in premise.rows]
        if thing == DRIVER:
            why, more = self._driver(pick)
            cited += more
        else:
            why = self._why(thing, pick)
        have = self.have(thing)
        return Target(
            thing=thing,
            have=have,
            want=pick.label,
            why=why,
            sources=self._sources(cited),
            change=not pick.installed
            and not thing.startswith(IMAGE + " ")
            and not self._follows(thing),
        )

    def _follows(self, thing: str) -> bool:
        """What a wheel brings is in place when the engine is."""
        if base(thing) not in (NCCL, TENSORRT):
            return False
        carriers = (TRTLLM,) if thing == TENSORRT or thing.endswith(APART) else (VLLM, TORCH)
        found = [self.solution.picks[item] for item in carriers if item in self.solution.picks]
        return any(item.installed for item in found[:1])

    def have(self, thing: str) -> str | None:
        """What the host has of a thing."""
        pick: Pick = self.solution.picks[thing]
        if pick.installed:
            return pick.label
        if thing.startswith(IMAGE + " "):
            return "not pulled"
        return next((item.label for item in self.catalog.picks(thing) if item.installed), None)

    def needs_on(self, thing: str) -> list[Need]:
        """Needs of the solution that a thing has to meet."""
        return [need for need in self.solution.needs if need.thing == thing]

    def _sources(self, rows: list[Any]) -> list[Any]:
        cited = [
            item for row in rows if row is not None for item in self.knowledge.citations_of(row)
        ]
        return list({item.id: item for item in cited}.values())

    def _driver(self, pick: Pick) -> tuple[str, list[Any]]:
        version, branch = pick.data
        parts: list[str] = []
        rows: list[Any] = []
        if pick.installed:
            parts.append("it is here and does all that is wanted")
        elif branch is not None:
            until = f" until {branch.eol}" if branch.eol else ""
            parts.append(
                f"branch {branch.branch} ({branch.kind or 'kind not published'}{until}, CUDA {branch.cuda})"
            )
            parts.append(self._newest(pick))
            flavor = flavor_for(pick, self.state, self.knowledge.matrix)
            if flavor is not None:
                parts.append(f"with the {flavor} kernel modules")
        parts += self._refusals(self._installed(DRIVER), self.needs_on(DRIVER))
        for need in self.needs_on(DRIVER):
            parts += [premise.say for premise in need.premises if premise.kind == "host"]
        parts += self._minor(version)
        for look in self._images():
            judged = image.judge(look, version, self.state.gpus, self.knowledge.matrix)
            rows += judged.rows
            if judged.mode == "forward":
                parts.append(judged.say)
        if branch is not None and branch.is_eol(self.as_of):
            ended = f" in {branch.eol}" if branch.eol else ""
            parts.append(f"branch {branch.branch} has ended{ended}: no more security fixes")
        return "; ".join(part for part in parts if part), rows

    def _minor(self, version: Any) -> list[str]:
        """CUDA releases that the driver runs without having them itself."""
        above = {
            str(need.about): need.about
            for need in self.needs_on(DRIVER)
            if need.about is not None
            and (answer := query.runs(self.knowledge.matrix, need.about, version)) is not None
            and answer.mode == "minor"
        }
        if not above:
            return []
        return [f"CUDA {', '.join(above)} runs by minor-version compatibility: no JIT of newer PTX"]

    def _newest(self, pick: Pick) -> str:
        if self.state.driver is not None and self.state.driver.branch == pick.data[0].branch:
            return "the newest of the branch that is here"
        gpus = " and ".join(gpu.name for gpu in self.state.gpus)
        return f"the newest long-lived branch for {gpus}{' on ' + self.state.os_name if self.state.os_name else ''}"

    def _installed(self, thing: str) -> Pick | None:
        return next((item for item in self.catalog.picks(thing) if item.installed), None)

    def _refusals(self, pick: Pick | None, needs: list[Need]) -> list[str]:
        """Why what is here will not do."""
        if pick is None:
            return []
        reasons: dict[str, str] = {}
        for need in needs:
            if need.test(pick) is False:
                reasons.setdefault(need.premises[0].key, need.premises[0].say)
        for look in self._images() if pick.thing == DRIVER else ():
            judged = image.judge(look, pick.data[0], self.state.gpus, self.knowledge.matrix)
            if judged.satisfied is False:
                reasons["rule:image.driver"] = f"{look.ref} has CUDA {look.cuda}: {judged.say}"
        for need in self.catalog.needs(pick):
            if (
                need.thing in self.solution.picks
                and need.test(self.solution.picks[need.thing]) is False
            ):
                reasons.setdefault(need.premises[0].key, need.premises[0].say)
        return [f"{pick.label} will not do: {'; '.join(reasons.values())}"] if reasons else []

    def _images(self) -> list[Any]:
        return [
            pick.data
            for thing, pick in self.solution.picks.items()
            if thing.startswith(IMAGE + " ") and pick.data is not None
        ]

    def _why(self, thing: str, pick: Pick) -> str:
        asked = [need.premises[0] for need in self.needs_on(thing)]
        parts = [premise.say for premise in asked if premise.say]
        if pick.installed:
            parts.insert(0, "it is here")
        elif pick.reason:
            parts.append(pick.reason)
        if base(thing) in (VLLM, TRTLLM, TORCH, CUDA) and not pick.installed:
            parts += self._refusals(self._installed(thing), self.needs_on(thing))
            parts += self._why_not_newer(thing, pick)
        if pick.variant == "cu129" and thing == VLLM:
            parts.append("the +cu129 wheel, because the driver stays where it is")
        if thing == TOOLKIT:
            parts += self._toolkit(pick)
        if thing.startswith(IMAGE + " ") and pick.data is not None:
            parts.append(f"known by {pick.data.origin}")
        return "; ".join(dict.fromkeys(part for part in parts if part))

    def _why_not_newer(self, thing: str, pick: Pick) -> list[str]:
        """The oldest release above the chosen one that the wants admit, and what refuses it."""
        newer: Pick | None = None
        wanted = [need for need in self.needs_on(thing) if need.premises[0].kind == "want"]
        for item in self.catalog.picks(thing):
            if item is pick:
                break
            if (
                not item.installed
                and item.variant == pick.variant
                and all(need.test(item) is not False for need in wanted)
            ):
                newer = item
        if newer is None:
            return []
        for need in self.catalog.needs(newer):
            chosen = (
                [self.solution.picks[need.thing]]
                if need.thing in (GPU, OS, DRIVER) and need.thing in self.solution.picks
                else []
            )
            if any(need.test(item) is False for item in chosen):
                return [f"newer ones will not do: {need.premises[0].say}"]
        return []

    def _toolkit(self, pick: Pick) -> list[str]:
        floor = self.knowledge.matrix.statement("container_rules", "container.security-floor")
        if floor is None or floor.minimum is None:
            return []
        cves = query.toolkit_cves(self.knowledge.matrix, pick.version)
        if cves:
            return [
                f"below the security floor {floor.minimum}: {', '.join(row.cve for row in cves[:3])}"
            ]
        return [] if pick.installed else ["the newest release"]

    def fabric_manager(self) -> Target:
        """NVSwitch hosts: the fabric manager's version is the driver's."""
        pick: Pick = self.solution.picks[DRIVER]
        rule = self.knowledge.matrix.statement("gpu_rules", "gpu.fabric-manager")
        have = self.state.fabric_manager
        return Target(
            thing="fabric manager",
            have=have,
            want=pick.version,
            why=f"{self.state.nvswitches} NVSwitches: fabric manager's version must equal the driver's",
            sources=self._sources([rule]),
            change=have is None or not have.startswith(pick.version),
        )

    def of_want(self, want: Any) -> Target | None:
        """A row for what was asked for and is no thing of the stack."""
        if isinstance(want, LockWant):
            held = bool(self.state.kernel_held)
            return Target(
                thing=KERNEL,
                have="held" if held else "not held",
                want="held",
                why=f"asked for: {want.spec}",
                change=not held,
            )
        if isinstance(want, ModelWant):
            return self._described("model", want.path, want.model.summary(), want.spec)
        if isinstance(want, EngineWant):
            return self._described("engine", want.path, want.engine.summary(), want.spec)
        if isinstance(want, LaunchWant):
            return self._described(LAUNCH, want.launch.summary(), want.launch.summary(), want.spec)
        if isinstance(want, StackWant):
            return self._described("lock", want.lock.summary(), want.lock.summary(), want.spec)
        return None

    def _described(self, thing: str, have: str, summary: str, spec: str) -> Target:
        why = summary if summary != have else f"asked for: {spec[:60]}"
        return Target(thing=thing, have=have, want=have, why=why)
