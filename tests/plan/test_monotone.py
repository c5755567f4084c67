"""Hiding a fact never turns a violated want into a pass or a skip."""

from __future__ import annotations

import msgspec
import pytest

from doctor.checks.base import judge
from doctor.checks.finding import Outcome
from doctor.facts.model import Known, Unknown
from tests.checks.harness import cases, checks, description_of, facts_of, knowledge_of

WANTED = [(name, case) for name, case in cases() if name.startswith("want-")]


@pytest.mark.parametrize("name", [name for name, _ in WANTED])
def test_hiding_a_fact_never_heals(name: str) -> None:
    case = dict(WANTED)[name]
    check = checks()[case.check]
    facts = facts_of(description_of(case.base, case.fails))
    knowledge = knowledge_of("2026-11-30", case.wants("fails"))
    assert judge(check, facts, knowledge).violated
    for path in check.reads:
        area, _, field = path.partition(".")
        old = getattr(facts, area)
        if not isinstance(getattr(old, field), Known):
            continue
        new = msgspec.structs.replace(old, **{field: Unknown("hidden", path)})
        hidden = msgspec.structs.replace(facts, **{area: new})
        outcome = judge(check, hidden, knowledge).outcome
        assert outcome not in (Outcome.PASS, Outcome.SKIP), path


@pytest.mark.parametrize("name", [name for name, _ in WANTED])
def test_nothing_is_judged_without_a_want(name: str) -> None:
    case = dict(WANTED)[name]
    facts = facts_of(description_of(case.base, case.fails))
    finding = judge(checks()[case.check], facts, knowledge_of("2026-11-30", ()))
    assert finding.outcome is Outcome.SKIP


@pytest.mark.parametrize("name", [name for name, _ in WANTED])
def test_a_violation_says_what_was_wanted_and_what_to_do(name: str) -> None:
    case = dict(WANTED)[name]
    facts = facts_of(description_of(case.base, case.fails))
    finding = judge(checks()[case.check], facts, knowledge_of("2026-11-30", case.wants("fails")))
    assert finding.want
    assert finding.sources
    assert finding.fix is not None and finding.fix.command
