"""Rules that only several hosts together can break. Each says of every group whether it holds, does not, or could not be seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import date

import msgspec

from doctor.checks.finding import Citation, Outcome, Severity
from doctor.fleet.likeness import groups_of
from doctor.fleet.model import AcrossHosts, HostLine
from doctor.fleet.traits import ABSENT, GPUS, NOT_APPLICABLE

NOTHING = ("", "none", ABSENT, NOT_APPLICABLE)
SKEW = 5
"""Seconds beyond what the time of asking leaves open; both clocks are read in whole seconds."""
EVERYWHERE = "all hosts"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One claim about hosts together."""

    id: str
    title: str
    severity: Severity
    sources: tuple[str, ...] = ()
    """Ids of sources; a rule that compares and predicts nothing needs none."""
    judge: Callable[[Rule, str, list[HostLine]], Iterator[AcrossHosts]]
    per_group: bool = True


def judge(lines: list[HostLine], judged_as_of: str) -> list[AcrossHosts]:
    """Every rule over every group; a rule that applies to no host of a group says nothing of it."""
    groups = groups_of(lines)
    everywhere = {EVERYWHERE: [line for line in lines if line.state == "audited"]}
    found = [
        said
        for rule in RULES
        for group, members in (groups if rule.per_group else everywhere).items()
        if len(members) > 1
        for said in rule.judge(rule, group, members)
    ]
    return _cited(list(_passes_as_one(found)), judged_as_of)


def _passes_as_one(found: list[AcrossHosts]) -> Iterator[AcrossHosts]:
    """A line per rule for the groups in which it holds."""
    for rule in RULES:
        said = [item for item in found if item.id == rule.id]
        yield from (item for item in said if item.outcome is not Outcome.PASS)
        held = [item for item in said if item.outcome is Outcome.PASS]
        if len(held) > 1:
            message = f"holds in {len(held)} groups"
            yield msgspec.structs.replace(held[0], group=f"{len(held)} groups", message=message)
        yield from held if len(held) == 1 else ()


def _cited(found: list[AcrossHosts], judged_as_of: str) -> list[AcrossHosts]:
    by_id = {rule.id: rule for rule in RULES}
    if not any(by_id[item.id].sources and item.outcome is not Outcome.PASS for item in found):
        return found
    from doctor.checks.knowledge import Knowledge

    knowledge = Knowledge(date.fromisoformat(judged_as_of))
    citations = {
        rule.id: [knowledge.citation(source) for source in rule.sources]
        for rule in RULES
        if rule.sources
    }
    return [_with(item, citations.get(item.id, [])) for item in found]


def _with(item: AcrossHosts, sources: list[Citation]) -> AcrossHosts:
    if item.outcome is Outcome.PASS or not sources:
        return item
    return msgspec.structs.replace(item, sources=sources)


def _same(
    read: Callable[[HostLine], str | None], noun: str, *, of_one_model: bool = False
) -> Callable[[Rule, str, list[HostLine]], Iterator[AcrossHosts]]:
    """Hosts that have the thing have one version of it. `read`: None when it was not seen, "" when there is none.

    `of_one_model`: GPUs of another kind may need another version.
    """

    def by_model(rule: Rule, group: str, members: list[HostLine]) -> Iterator[AcrossHosts]:
        parts: dict[str, list[HostLine]] = defaultdict(list)
        for line in members:
            parts[line.traits.get(GPUS, "GPUs not seen")].append(line)
        for model, part in sorted(parts.items()):
            yield from judged(rule, group if len(parts) == 1 else f"{group} ({model})", part)

    def judged(rule: Rule, group: str, members: list[HostLine]) -> Iterator[AcrossHosts]:
        values: dict[str, list[str]] = defaultdict(list)
        unseen = []
        for line in members:
            value = read(line)
            if value is None:
                unseen.append(line.name)
            elif value not in NOTHING:
                values[value].append(line.name)
        having = sum(map(len, values.values()))
        if len(values) > 1:
            shown = ", ".join(f"{value} on {len(hosts)}" for value, hosts in _ordered(values))
            yield _said(rule, group, f"{len(values)} versions of {noun}: {shown}", values, unseen)
        elif unseen and (having or len(unseen) > 1):
            what = f"{noun} was not seen on {len(unseen)} of {len(members)} hosts"
            yield _said(rule, group, what, values, unseen, Outcome.UNKNOWN)
        elif having > 1:
            yield _said(rule, group, f"{noun} {next(iter(values))} on {having} hosts", {}, [])

    return by_model if of_one_model else judged


def _ordered(values: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))


def _said(
    rule: Rule,
    group: str,
    message: str,
    values: dict[str, list[str]],
    unseen: list[str],
    outcome: Outcome | None = None,
) -> AcrossHosts:
    violated = Outcome.FAIL if rule.severity is Severity.ERROR else Outcome.WARN
    listed = dict(_ordered(values)) | ({"not seen": unseen} if unseen else {})
    return AcrossHosts(
        id=rule.id,
        title=rule.title,
        outcome=outcome or (violated if listed else Outcome.PASS),
        severity=rule.severity,
        message=message,
        group=group,
        values=listed,
    )


def _nccl(line: HostLine) -> str | None:
    """What programs are given: the wheels' copies, and where there are none the system's."""
    wheels = line.traits.get("nccl.wheels")
    return line.traits.get("nccl.system") if wheels == "none" else wheels


def _branch(line: HostLine) -> str | None:
    version = line.traits.get("driver.loaded")
    return version if version is None or version in NOTHING else version.partition(".")[0]


def _fabric_manager(line: HostLine) -> str | None:
    return line.traits.get("fabric.manager_version")


def _shared(
    things: Callable[[HostLine], Iterable[str]], noun: str
) -> Callable[[Rule, str, list[HostLine]], Iterator[AcrossHosts]]:
    """No two hosts have the same one. Hosts of whom it was not seen say nothing; if that is all, the rule is unknown."""

    def judged(rule: Rule, group: str, members: list[HostLine]) -> Iterator[AcrossHosts]:
        values: dict[str, list[str]] = defaultdict(list)
        seen = 0
        for line in members:
            found = list(things(line)) if line.identity is not None else []
            seen += bool(found)
            for thing in found:
                values[thing].append(line.name)
        twice = {thing: hosts for thing, hosts in values.items() if len(hosts) > 1}
        if twice:
            first = next(iter(twice.values()))
            more = f" ({len(twice)} in all)" if len(twice) > 1 else ""
            yield _said(rule, group, f"{', '.join(first[:4])} have one {noun}{more}", twice, [])
        elif seen > 1:
            yield _said(rule, group, f"{seen} hosts, no {noun} twice", {}, [])

    return judged


def _gpus(line: HostLine) -> Iterable[str]:
    return line.identity.gpus if line.identity else ()


def _boots(line: HostLine) -> Iterable[str]:
    return (line.identity.boot,) if line.identity and line.identity.boot else ()


def _names(line: HostLine) -> Iterable[str]:
    return (line.said_name,) if line.said_name else ()


def _clocks(rule: Rule, group: str, members: list[HostLine]) -> Iterator[AcrossHosts]:
    """Each host's clock against the auditor's."""
    asked = [line for line in members if line.identity is not None]
    seen = {
        line.name: line.identity.ahead
        for line in asked
        if line.identity and line.identity.ahead is not None
    }
    wrong = {name: by for name, by in seen.items() if abs(by) >= SKEW}
    if wrong:
        values: dict[str, list[str]] = defaultdict(list)
        for name, by in sorted(wrong.items(), key=lambda item: -abs(item[1])):
            values[f"{by:+d} s"].append(name)
        worst = max(wrong, key=lambda name: abs(wrong[name]))
        message = f"{len(wrong)} of {len(seen)} clocks differ from this host's, {worst} by {wrong[worst]:+d} s"
        yield _said(rule, group, message, values, [])
    elif seen and len(seen) == len(asked):
        yield _said(rule, group, f"{len(seen)} clocks within {SKEW} s of this host's", {}, [])
    elif asked:
        unseen = [line.name for line in asked if line.name not in seen]
        message = f"the clocks of {len(unseen)} of {len(asked)} hosts were not seen"
        yield _said(rule, group, message, {}, unseen, Outcome.UNKNOWN)


RULES = (
    Rule(
        id="fleet.nccl-mixed",
        title="Hosts of a group have one NCCL version, without which their ranks refuse each other",
        severity=Severity.WARN,
        sources=("nccl-version-check",),
        judge=_same(_nccl, "NCCL"),
    ),
    Rule(
        id="fleet.driver-branch-mixed",
        title="Hosts of a group with the same GPUs run one driver branch",
        severity=Severity.WARN,
        judge=_same(_branch, "the driver branch", of_one_model=True),
    ),
    Rule(
        id="fleet.fabric-manager-mixed",
        title="Hosts of a group with the same GPUs run one fabric manager",
        severity=Severity.WARN,
        judge=_same(_fabric_manager, "the fabric manager", of_one_model=True),
    ),
    Rule(
        id="fleet.clock-skew",
        title="Clocks agree with the auditor's",
        severity=Severity.WARN,
        judge=_clocks,
        per_group=False,
    ),
    Rule(
        id="fleet.one-host-two-names",
        title="No two inventory names lead to one running kernel",
        severity=Severity.WARN,
        judge=_shared(_boots, "running kernel"),
        per_group=False,
    ),
    Rule(
        id="fleet.gpu-on-two-hosts",
        title="No GPU is on two hosts",
        severity=Severity.WARN,
        judge=_shared(_gpus, "GPU"),
        per_group=False,
    ),
    Rule(
        id="fleet.host-name-twice",
        title="No two hosts call themselves the same",
        severity=Severity.INFO,
        judge=_shared(_names, "name"),
        per_group=False,
    ),
)
