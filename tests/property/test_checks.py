"""What holds for every check on every host: one finding, never an exception, nothing unseen passes."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.checks.base import Check, judge
from doctor.checks.evaluate import evaluate
from doctor.checks.finding import Finding, Outcome, Severity
from doctor.checks.verdict import verdict
from doctor.exit_codes import code_for
from doctor.facts.model import FactUnknown, Known, Unknown
from doctor.facts.tree import AREAS, Facts, decode, encode, lookup, paths
from tests.checks.harness import checks, knowledge
from tests.property import strategies

GOOD = (Outcome.PASS, Outcome.SKIP)
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def exit_code(findings: list[Finding]) -> int:
    unseen = sum(1 for item in findings if item.outcome is Outcome.UNKNOWN and item.counts)
    return int(code_for(verdict(findings), unseen))


SEVERITIES = (Severity.ERROR, Severity.WARN, Severity.INFO)
"""What explains a finding is at least as severe."""

# declared -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", sorted(checks()))
def test_what_a_check_declares_is_there(id: str) -> None:
    item = checks()[id]
    assert re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9]+(-[a-z0-9]+)*)+", id), "dotted-kebab"
    assert set(item.reads) <= set(paths()), set(item.reads) - set(paths())
    assert len(set(item.reads)) == len(item.reads)
    for need in item.needs:
        assert need in checks(), need
        assert SEVERITIES.index(checks()[need].severity) <= SEVERITIES.index(item.severity), need
    assert item.sources or id.startswith("want."), "a rule without a source"
    for source in item.sources:
        citation = knowledge().citation(source)
        assert citation.url.startswith(("https://", "http://")) or "/" in citation.url
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", citation.as_of)
    assert item.title and item.fix.say
    assert item.fix.disturbs in ("none", "service", "gpu", "reboot")
    assert item.fix.kind in ("manual", "needs-argument", "hardware")


def test_what_checks_need_leads_round_in_no_circle() -> None:
    every = checks()

    def walk(id: str, above: tuple[str, ...]) -> None:
        assert id not in above, above
        for need in every[id].needs:
            walk(need, (*above, id))

    for id in every:
        walk(id, ())


# on any facts ---------------------------------------------------------------------------------------------------------


def judged(facts: Facts) -> list[Finding]:
    findings = evaluate(checks(), facts, knowledge())
    assert [item.id for item in findings] == sorted(checks())
    return findings


@SLOW
@given(facts=strategies.arbitrary_facts())
def test_every_check_gives_one_finding_on_any_facts(facts: Facts) -> None:
    judged(facts)


@SLOW
@given(facts=strategies.mutated_hosts())
def test_every_check_gives_one_finding_on_a_changed_host(facts: Facts) -> None:
    for finding in judged(facts):
        complete(finding)


@pytest.mark.parametrize("state", ["absent", "unknown", "not-applicable"])
def test_a_host_on_which_every_fact_has_one_state(state: str) -> None:
    raw = {"state": state, "via": "v"} if state == "absent" else {"state": state, "reason": "r"}
    facts = decode(
        {area: dict.fromkeys(kind.__struct_fields__, raw) for area, kind in AREAS.items()}
    )
    findings = judged(facts)
    if state == "unknown":
        wrong = [
            item.id for item in findings if item.outcome in GOOD and lookups(checks()[item.id])
        ]
        assert wrong == []
        assert exit_code(findings) != 0


def lookups(item: Check) -> bool:
    """Whether a check looks at the host at all without being asked for something with --want."""
    return bool(item.reads) and not item.wants and not item.id.startswith("want")


def complete(finding: Finding) -> None:
    """A violated finding says what was seen, what is wanted, by which source, and what to do."""
    assert finding.message.strip(), finding.id
    if finding.violated:
        assert finding.evidence, finding.id
        assert finding.want, finding.id
        assert finding.sources and all(item.url and item.as_of for item in finding.sources), (
            finding.id
        )
        assert finding.fix is not None and finding.fix.say, finding.id
        assert finding.fix.command, finding.id
        assert finding.fix.kind in ("auto", "needs-argument", "manual", "hardware"), finding.id


@pytest.mark.parametrize("name", sorted(strategies.host_names()))
def test_findings_of_known_hosts_are_complete(name: str) -> None:
    for finding in judged(strategies.known_host(name)):
        complete(finding)
        if finding.violated and finding.fix and finding.fix.command:
            try:
                shlex.split(finding.fix.command, comments=True)
            except ValueError as error:
                pytest.fail(f"{finding.id}: {finding.fix.command!r}: {error}")


# less seen is never better --------------------------------------------------------------------------------------------


def less_seen(facts: Facts, only: set[str]) -> list[tuple[str, Facts]]:
    """The host with one known fact unseen, each in turn."""
    found = [
        (path, strategies.replaced(facts, path, Unknown("taken away", path)))
        for path in sorted(only)
        if isinstance(lookup(facts, path), Known)
    ]
    return found + (strategies.nested(facts) if "nvml.gpus" in only else [])


@pytest.mark.parametrize("name", sorted(strategies.host_names()))
def test_taking_a_fact_away_never_makes_a_finding_pass(name: str) -> None:
    facts = strategies.known_host(name)
    wrong = []
    for id, item in checks().items():
        before = judge(item, facts, knowledge()).outcome
        if before in GOOD:
            continue
        for path, dim in less_seen(facts, set(item.reads)):
            after = judge(item, dim, knowledge()).outcome
            if after in GOOD:
                wrong.append(f"{id}: {before.value} became {after.value} without {path}")
    assert wrong == []


@SLOW
@given(data=st.data(), facts=strategies.mutated_hosts())
def test_taking_facts_away_never_makes_the_host_healthy(data: st.DataObject, facts: Facts) -> None:
    before = evaluate(checks(), facts, knowledge())
    known = [path for path in paths() if isinstance(lookup(facts, path), Known)]
    if not known:
        return
    away = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=8, unique=True))
    dim = facts
    for path in away:
        dim = strategies.replaced(dim, path, Unknown("taken away", path))
    after = {item.id: item for item in evaluate(checks(), dim, knowledge())}
    wrong = [
        f"{item.id}: {item.outcome.value} became {after[item.id].outcome.value}"
        for item in before
        if item.violated and after[item.id].outcome in GOOD
    ]
    assert wrong == [], away
    if exit_code(before) != 0:
        assert exit_code(list(after.values())) != 0, away


# reads ----------------------------------------------------------------------------------------------------------------


class Watched:
    """Facts that note which of them are asked for."""

    def __init__(self, facts: Facts, asked: set[str]) -> None:
        self._facts = facts
        self._asked = asked

    def __getattr__(self, area: str) -> Any:
        value = getattr(self._facts, area)
        if area not in AREAS:
            return value
        asked = self._asked

        class Area:
            def __getattr__(self, name: str) -> Any:
                asked.add(f"{area}.{name}")
                return getattr(value, name)

        return Area()


def asked_by(item: Check, facts: Facts) -> set[str]:
    asked: set[str] = set()
    with suppress(FactUnknown, ValueError):
        item.judge(Watched(facts, asked), knowledge())  # type: ignore[arg-type]
    return asked


@pytest.mark.parametrize("id", sorted(checks()))
def test_a_check_reads_only_what_it_declares(id: str) -> None:
    item = checks()[id]
    undeclared: set[str] = set()
    for name in strategies.host_names():
        facts = strategies.known_host(name)
        undeclared |= asked_by(item, facts) - set(item.reads)
    assert not undeclared


# the tree -------------------------------------------------------------------------------------------------------------


@SLOW
@given(facts=st.one_of(strategies.arbitrary_facts(), strategies.mutated_hosts()))
def test_facts_survive_their_json(facts: Facts) -> None:
    import json

    assert decode(json.loads(json.dumps(encode(facts)))) == facts
