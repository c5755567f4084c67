"""No plan of an ordinary host has a step that nobody decided: each has a role with all it needs, or a person with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor import engine
from doctor.checks.finding import Finding, Severity
from doctor.cli.sources import open_source
from doctor.facts.model import Unknown
from doctor.facts.tree import AREAS, Facts, decode
from doctor.plan.make import make_plan
from doctor.plan.model import Plan
from doctor.plan.remedy import remedies
from tests.checks.harness import cases, checks, description_of, facts_of, findings_of, knowledge
from tests.plan.hosts import wants_of
from tests.plan.test_laws import WANTS, descriptions, many

HOSTS = sorted(path.parent for path in Path(__file__).parents[1].glob("hosts/*/manifest.json"))
UNDECIDED = "not decided: "


def plan(facts: Facts, findings: list[Finding], specs: tuple[str, ...] = ()) -> Plan:
    return make_plan(facts, findings, wants_of(specs), knowledge(), checks=checks())


def undecided(made: Plan) -> list[tuple[str, str]]:
    return [
        (step.id, text.removeprefix(UNDECIDED))
        for step in made.steps
        for text in step.changes
        if text.startswith(UNDECIDED)
    ]


def unseen(facts: Facts) -> bool:
    return any(
        isinstance(getattr(getattr(facts, area), name), Unknown)
        for area, kind in AREAS.items()
        for name in kind.__struct_fields__
    )


@many
@given(descriptions, st.sampled_from(WANTS))
def test_hosts_and_wants(description: dict[str, Any], specs: tuple[str, ...]) -> None:
    facts = facts_of(description)
    made = plan(facts, list(findings_of(description).values()), specs)
    assert undecided(made) == []
    for step in made.steps:
        role = remedies().get(step.remedy or "")
        assert role is None or set(role.vars) <= set(step.vars)


@pytest.mark.parametrize("state", ["fails", "passes"])
def test_every_fault_that_the_suite_knows(state: str) -> None:
    wrong = {}
    for name, case in cases():
        description = description_of(case.base, getattr(case, state))
        facts = facts_of(description)
        made = plan(facts, list(findings_of(description).values()))
        left = [item for item in undecided(made) if not item[1].startswith("not seen: ")]
        if left or (undecided(made) and not unseen(facts)):
            wrong[name] = undecided(made)
    assert wrong == {}


@pytest.mark.parametrize("folder", HOSTS, ids=lambda path: path.name)
def test_recorded_hosts(folder: Path) -> None:
    opened = open_source(str(folder))
    assert opened.source is not None
    report = engine.check(opened.source, engine.Options(as_of=opened.as_of))
    facts = decode(report.facts)
    left = undecided(plan(facts, report.findings))
    assert all(text.startswith("not seen: ") for _, text in left) and (not left or unseen(facts))


@pytest.mark.parametrize(
    "containers",
    [{"from": "snap"}, {"from": "desktop"}, {"rootless": True}],
    ids=["snap", "desktop", "rootless"],
)
def test_a_docker_of_somebody_elses_is_theirs_with_the_command(containers: dict[str, Any]) -> None:
    description = {
        "gpus": ["NVIDIA H100 80GB HBM3"],
        "driver": "580.95.05",
        "containers": {"docker": "28.3.3", "runtimes": [], **containers},
    }
    findings = findings_of(description)
    made = plan(facts_of(description), list(findings.values()), ("container",))
    assert undecided(made) == []
    for step in made.steps:
        if step.id.startswith("container"):
            assert step.remedy is None
            grave = [id for id in step.findings if findings[id].severity is Severity.ERROR]
            assert step.command or not grave, step
