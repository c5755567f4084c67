"""From findings and the target to ordered steps. Pure: roles, facts and values come in, steps go out.

Laws (property tests): a step comes after what it needs; no two steps conflict; a wave has one reboot, at its end; a step has
findings or a target that is not reached; what was not seen changes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from doctor.checks.finding import Finding, Severity
from doctor.plan.model import Step
from doctor.plan.remedy import RANK, Remedy, answering, before
from doctor.plan.role_vars import ByHandError, UndecidedError

ORDER = (
    "release_hold kernel_headers nvidia_repo nouveau_off nvidia_driver fabric_manager driver_lock persistence "
    "container_engine container_toolkit cdi_spec cgroup limits shm cuda_toolkit nccl ld_path wsl engine_env engine_image"
).split()
"""Roles in the order of the stack, where needs leave it open; what has none comes last."""

UNDO = {
    "exact": "doctor undo brings back packages, files and unit states as they were",
    "best-effort": "doctor undo brings back what it can and names the rest",
    "none": "cannot be undone",
}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner has to know beside findings and drafts."""

    remedies: Mapping[str, Remedy]
    family: str | None
    """debian, rhel or wsl2; None: no role is for this host."""
    outside: str | None = None
    """Why nothing can be changed from here: this is a container."""
    named: Mapping[str, str | None] = {}
    """Check id -> the role that the check names."""
    vain: frozenset[str] = frozenset()
    """Ids of findings that the roles would not cure here: they ask for what the target does not change."""
    only: tuple[str, ...] = ()
    """Ids of findings: nothing else is planned but what these need."""


Values = Callable[[Remedy], dict[str, Any]]


def plan_steps(
    drafts: Sequence[Step], findings: Sequence[Finding], setting: Setting, values: Values
) -> list[Step]:
    """The steps, in the order in which they have to happen.

    `drafts` come from the target: what has to change, in words. Findings join the draft of their role or make a step.
    """
    steps = {draft.id: _drafted(draft, setting, values) for draft in drafts}
    for finding in findings:
        if not finding.violated or not finding.counts:
            continue
        asked_for = finding.id in setting.only
        if finding.severity is Severity.INFO and not asked_for:
            continue
        remedy = _remedy(finding, setting)
        named = setting.named.get(finding.id)
        if remedy is None and named in steps:
            _join(steps, steps[named], finding)
            continue
        if remedy is None:
            if finding.severity is Severity.ERROR or asked_for:
                _join(steps, _by_hand(finding), finding)
            continue
        step = steps.get(remedy.name) or _from_remedy(remedy, values)
        if step is None:
            if finding.severity is Severity.ERROR or asked_for:
                _join(steps, _by_hand(finding), finding)
            continue
        if step.remedy is None and finding.fix is not None and step.command is None:
            step = msgspec.structs.replace(step, command=finding.fix.command)
        _join(steps, step, finding)
    chosen = _without_conflicts(steps, setting)
    if setting.only:
        chosen = _asked_for(chosen, setting)
    return _ordered(chosen, setting)


def _remedy(finding: Finding, setting: Setting) -> Remedy | None:
    if setting.outside is not None or finding.id in setting.vain:
        return None
    found = answering(finding.id, setting.named.get(finding.id), setting.remedies.values())
    return found if found is not None and setting.family in found.families else None


def _join(steps: dict[str, Step], step: Step, finding: Finding) -> None:
    """Put the finding under the step; the gravest finding and the first draft say how grave it is."""
    known = step.id in steps
    grave = finding.severity if not known or finding.severity is Severity.ERROR else step.severity
    ids = [*step.findings, *([] if finding.id in step.findings else [finding.id])]
    changes = list(step.changes)
    if not known and step.remedy is not None:
        changes = [finding.message, *changes]
    steps[step.id] = msgspec.structs.replace(step, findings=ids, severity=grave, changes=changes)


def _drafted(draft: Step, setting: Setting, values: Values) -> Step:
    """A draft of the target, with what its role says. A role that is not for this host leaves it to a person."""
    remedy = setting.remedies.get(draft.remedy or "")
    if remedy is None:
        return draft
    if setting.outside is not None or setting.family not in remedy.families:
        return msgspec.structs.replace(draft, remedy=None)
    told = draft.vars or _told(remedy, values)
    if isinstance(told, ByHandError):
        return msgspec.structs.replace(draft, remedy=None, changes=[*draft.changes, str(told)])
    if isinstance(told, UndecidedError):
        return _undecided(draft, told)
    return msgspec.structs.replace(
        draft,
        disturbs=_disturbance(draft, remedy),
        reversible=remedy.undo,
        undo=UNDO[remedy.undo],
        vars=told,
    )


def _disturbance(draft: Step, remedy: Remedy) -> Any:
    """The role's own word; only for the driver the host decides: where nouveau has the GPU nothing goes without a reboot."""
    if remedy.disturbs == "gpu" and draft.disturbs == "reboot":
        return "reboot"
    return remedy.disturbs


def _from_remedy(remedy: Remedy, values: Values) -> Step | None:
    """The role's step; None where it is a person's."""
    step = Step(
        id=remedy.name,
        remedy=remedy.name,
        disturbs=remedy.disturbs,
        undo=UNDO[remedy.undo],
        reversible=remedy.undo,
        changes=[remedy.say],
    )
    told = _told(remedy, values)
    if isinstance(told, ByHandError):
        return None
    if isinstance(told, UndecidedError):
        return _undecided(step, told)
    return msgspec.structs.replace(step, vars=told)


def _told(remedy: Remedy, values: Values) -> dict[str, Any] | UndecidedError:
    try:
        return values(remedy)
    except UndecidedError as reason:
        return reason


def _undecided(step: Step, reason: UndecidedError) -> Step:
    """What rests on something unseen is never done by a role."""
    return msgspec.structs.replace(
        step, remedy=None, changes=[*step.changes, f"not decided: {reason}"]
    )


def _by_hand(finding: Finding) -> Step:
    fix = finding.fix
    command = fix.command if fix else None
    disturbs = fix.disturbs if fix and fix.disturbs in RANK else "none"
    return Step(
        id=finding.id,
        remedy=None,
        disturbs=disturbs,  # type: ignore[arg-type]
        undo=f"depends on the step; see doctor explain {finding.id}",
        changes=[
            finding.message,
            fix.say if fix else finding.title,
            *([f"run: {command}"] if command else []),
        ],
        command=command,
    )


def _without_conflicts(steps: Mapping[str, Step], setting: Setting) -> dict[str, Step]:
    """Of two roles that exclude each other the graver stays, then the one lower in the stack; the other is left to a person."""
    kept: dict[str, Step] = {}
    for step in sorted(steps.values(), key=lambda item: (_grave(item), _position(item))):
        clash = next((other for other in kept if _conflict(step.id, other, setting)), None)
        if clash is not None and step.remedy is not None and kept[clash].remedy is not None:
            said = f"not together with {clash}: the two exclude each other"
            step = msgspec.structs.replace(step, remedy=None, changes=[*step.changes, said])
        kept[step.id] = step
    return {id: kept[id] for id in steps}


def _conflict(one: str, other: str, setting: Setting) -> bool:
    def against(name: str) -> list[str]:
        return setting.remedies[name].conflicts if name in setting.remedies else []

    return other in against(one) or one in against(other)


def _asked_for(steps: Mapping[str, Step], setting: Setting) -> dict[str, Step]:
    wanted = {id for id, step in steps.items() if set(step.findings) & set(setting.only)}
    needed = {need for id in wanted for need in _before(id, setting)}
    return {id: step for id, step in steps.items() if id in wanted | needed}


def _before(id: str, setting: Setting) -> frozenset[str]:
    needs = before(id, setting.remedies)
    return needs | {"release_hold"} if id == "nvidia_driver" else needs


def _grave(step: Step) -> int:
    return (Severity.ERROR, Severity.WARN, Severity.INFO).index(step.severity)


def _position(step: Step) -> tuple[int, int, str]:
    place = ORDER.index(step.id) if step.id in ORDER else len(ORDER)
    return place, RANK[step.disturbs], step.id


def _ordered(steps: Mapping[str, Step], setting: Setting) -> list[Step]:
    """Needs first, then the stack, then the least disturbance; waves from the reboots in between."""
    needs = {id: sorted(_before(id, setting) & steps.keys()) for id in steps}
    waves: dict[str, int] = {}
    left = {id: len(needs[id]) for id in steps}
    ready = [(1, _position(steps[id]), id) for id in steps if not left[id]]
    heapq.heapify(ready)
    found: list[Step] = []
    while ready:
        wave, _, id = heapq.heappop(ready)
        waves[id] = wave
        found.append(msgspec.structs.replace(steps[id], needs=needs[id], wave=wave))
        for other in steps:
            if id in needs[other]:
                left[other] -= 1
                if not left[other]:
                    place = max(
                        _wave_after(steps[need], waves, steps[other]) for need in needs[other]
                    )
                    heapq.heappush(ready, (place, _position(steps[other]), other))
    return found


def _wave_after(need: Step, waves: Mapping[str, int], step: Step) -> int:
    """What takes effect with a reboot is there after it; another reboot step can share that reboot."""
    wave = waves[need.id]
    later = need.remedy is not None and need.disturbs == "reboot" and step.disturbs != "reboot"
    return wave + 1 if later else wave
