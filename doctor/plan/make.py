"""A plan from facts, findings and wants. Pure: what a plan says depends on nothing but its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.facts.identity import HostName, Unseen
from doctor.facts.model import Known
from doctor.plan.folder import Folder, from_folder, seen
from doctor.plan.host_state import HostState, read_host
from doctor.plan.model import EXIT, Clash, Instead, Plan, Status, Target
from doctor.plan.pick import CUDA, DRIVER, ENGINE, IMAGE, KERNEL, TOOLKIT, TRTLLM, VLLM, VLLM_CPU
from doctor.plan.planner import Setting, plan_steps
from doctor.plan.remedy import Remedy, remedies
from doctor.plan.role_vars import values
from doctor.plan.solve import Catalog, Conflict, Problem, Solution, solve
from doctor.plan.steps import drafts, needs_repository
from doctor.plan.target import rows
from doctor.plan.want import PackageWant, Want

if TYPE_CHECKING:
    from doctor.checks.base import Check
    from doctor.checks.knowledge import Knowledge
    from doctor.facts.tree import Facts
    from doctor.facts.versions import DriverVersion

ANSWERED = frozenset({"want.stack", "want.image-require", "want.kernel-locked"})
"""Checks that ask what the plan itself answers: they are no step's unless they are asked for by name."""

ANOTHER_DRIVER = frozenset(
    "driver.branch-eol driver.gpu-not-supported cuda.driver-too-old cuda.ptx-too-new container.image-cuda "
    "container.require-cuda engine.trtllm-driver engine.vllm-cuda-vs-driver want.image-require".split()
)
"""Checks that only another version of the driver satisfies: where the target keeps the driver, installing it again is in vain."""

INVENTORY = {
    DRIVER: "driver",
    VLLM: "environments",
    VLLM_CPU: "environments",
    TRTLLM: "environments",
    TOOLKIT: "toolkit",
    ENGINE: "docker",
    CUDA: "toolkits",
    KERNEL: "holds",
}
"""What must have been seen before one can say that a thing is not here."""


def make_plan(
    facts: Facts,
    findings: Sequence[Finding],
    wants: Sequence[Want],
    knowledge: Knowledge,
    *,
    host: HostName | None = None,
    checks: dict[str, Check] | None = None,
    only: Sequence[str] = (),
    roles: Mapping[str, Remedy] | None = None,
    folder: Folder | None = None,
) -> Plan:
    """The plan for one host. `roles` stand for those of the playbooks; `folder` for the net, where there is none."""
    facts = seen(facts, folder)
    findings = [item for item in findings if item.id not in ANSWERED or item.id in only]
    state = read_host(facts, knowledge.matrix)
    problem = Problem(
        state=state, matrix=knowledge.matrix, wants=tuple(wants), as_of=knowledge.as_of
    )
    name = host or HostName(
        name=facts.host.name.value if isinstance(facts.host.name, Known) else ""
    )
    catalog = Catalog(problem)
    answer = solve(problem, catalog)
    here = state.driver
    if isinstance(answer, Solution) and here and _needs_newer_driver(answer, findings, only):
        newer = msgspec.structs.replace(problem, wants=(*problem.wants, _newer(here)))
        other = Catalog(newer)
        found = solve(newer, other)
        if isinstance(found, Solution):
            problem, catalog, answer = newer, other, found
    if isinstance(answer, Conflict):
        return _plan(
            problem,
            name,
            "conflict",
            conflict=_clashes(answer, knowledge),
            instead=_instead(problem, answer),
        )
    family = _family(facts, state)
    setting = Setting(
        remedies=remedies() if roles is None else roles,
        family=family,
        outside=state.outside if _in_container(facts) else None,
        named={id: item.fix.role(family) for id, item in (checks or {}).items()},
        only=tuple(only),
    )
    plan = _planned(problem, catalog, answer, knowledge, name, findings, facts, setting, folder)
    return msgspec.structs.replace(plan, want=[want.spec for want in wants])


def _needs_newer_driver(
    solution: Solution, findings: Sequence[Finding], only: Sequence[str]
) -> bool:
    """Whether something that runs here fails for the driver's age, and the target would keep that driver."""
    pick = solution.picks.get(DRIVER)
    return (
        pick is not None
        and pick.installed
        and any(
            item.violated
            and item.counts
            and item.id in ANOTHER_DRIVER
            and (item.severity is Severity.ERROR or item.id in only)
            for item in findings
        )
    )


def _newer(driver: DriverVersion) -> PackageWant:
    """A driver of a later branch than the one that is here."""
    later = f">={driver.branch + 1}"
    return PackageWant(spec=f"driver{later}", name="driver", range=later)


def _in_container(facts: Facts) -> bool:
    inside = facts.host.container
    return isinstance(inside, Known) and inside.value != "none"


def _family(facts: Facts, state: HostState) -> str | None:
    """Which roles are for this host; None where its packages could not be told."""
    if isinstance(facts.host.hardware, Known) and facts.host.hardware.value == "wsl2":
        return "wsl2"
    return {"apt": "debian", "dnf": "rhel"}.get(state.package_manager or "")


def _planned(
    problem: Problem,
    catalog: Catalog,
    solution: Solution,
    knowledge: Knowledge,
    name: HostName,
    findings: Sequence[Finding],
    facts: Facts,
    setting: Setting,
    folder: Folder | None,
) -> Plan:
    target = rows(catalog, solution, knowledge)
    unseen = _unseen(problem.state, solution, target, findings)
    by_thing = {row.thing: row for row in target}

    def told(remedy: Remedy) -> dict[str, Any]:
        return values(remedy.name, remedy.vars, facts, by_thing, knowledge.matrix)

    if not any(row.change for row in target if row.thing == DRIVER):
        setting = msgspec.structs.replace(setting, vain=ANOTHER_DRIVER)
    todo = plan_steps(drafts(catalog, solution, target), findings, setting, told)
    if problem.state.nvidia_repository is not True and needs_repository(todo, problem.state):
        added = drafts(catalog, solution, target, with_repository=True)
        todo = plan_steps(added, findings, setting, told)
    todo = from_folder(todo, folder)
    needed = any(step.severity is Severity.ERROR for step in todo)
    status: Status = "changes" if needed or any(row.change for row in target) else "satisfied"
    if unseen:
        status = "unknown"
    return _plan(problem, name, status, target=target, steps=todo, unseen=unseen)


def _plan(problem: Problem, name: HostName, status: Status, **parts: object) -> Plan:
    plan = Plan(
        host=name,
        judged_as_of=problem.as_of.isoformat(),
        want=[want.spec for want in problem.wants],
        status=status,
        exit_code=EXIT[status],
    )
    return msgspec.structs.replace(plan, **parts)


def _unseen(
    state: HostState, solution: Solution, target: Sequence[Target], findings: Sequence[Finding]
) -> list[Unseen]:
    """What the answer leans on and nobody saw: unknown never becomes satisfied, nor a change that may not be needed."""
    found = dict(solution.leaning)
    for row in target:
        name = "images" if row.thing.startswith(IMAGE + " ") else INVENTORY.get(row.thing)
        if row.change and name in state.unseen:
            found[name] = state.unseen[name]
    if DRIVER in solution.picks and "nvswitches" in state.unseen:
        found["nvswitches"] = state.unseen["nvswitches"]
    if "gpus" in found and "gpus" in state.unseen:
        found["gpus"] = state.unseen["gpus"]
    for finding in findings:
        if (
            finding.outcome is Outcome.UNKNOWN
            and finding.severity is Severity.ERROR
            and finding.counts
        ):
            found.setdefault(finding.id, finding.message)
    return [Unseen(fact=what, reason=reason) for what, reason in found.items()]


def _clashes(conflict: Conflict, knowledge: Knowledge) -> list[Clash]:
    found = []
    for premise in conflict.premises:
        cited = [item for row in premise.rows for item in knowledge.citations_of(row)]
        found.append(
            Clash(
                rule=premise.key if premise.kind != "rule" else premise.id,
                say=premise.say,
                sources=list({item.id: item for item in cited}.values()),
            )
        )
    return found


def _instead(problem: Problem, conflict: Conflict) -> list[Instead]:
    """For each want of the conflict that has a range: what works without it."""
    clashing = {premise.id for premise in conflict.premises if premise.kind == "want"}
    found = []
    for want in problem.wants:
        if want.spec not in clashing or not isinstance(want, PackageWant) or not want.range:
            continue
        relaxed = msgspec.structs.replace(want, range="", spec=want.name)
        others = tuple(relaxed if item is want else item for item in problem.wants)
        answer = solve(msgspec.structs.replace(problem, wants=others))
        thing = "container toolkit" if want.name == "container" else want.name
        if isinstance(answer, Solution) and thing in answer.picks:
            pick = answer.picks[thing]
            spec = f"{want.name}=={pick.label}" if re.match(r"\d", pick.label) else want.name
            lean = f", as far as is known ({answer.leaning[0][1]})" if answer.leaning else ""
            found.append(
                Instead(want=spec, say=f"newest that works: {want.name} {pick.label}{lean}")
            )
    return found
