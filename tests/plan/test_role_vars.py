"""A finding that is auto has a role that can be told all it needs: on every host on which the suite shows the check failing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from doctor.checks.base import fix_class
from doctor.checks.finding import Outcome
from doctor.plan.make import make_plan
from doctor.plan.remedy import remedies
from doctor.resources import playbooks_dir
from tests.checks.harness import CASES, checks, description_of, facts_of, findings_of, knowledge
from tests.plan.hosts import wants_of


def by_hand(description: dict[str, Any]) -> bool:
    """Inside a container everything is done on the host; a Docker of somebody else's is theirs."""
    containers = description.get("containers") or {}
    theirs = containers.get("from") in ("snap", "desktop") or containers.get("rootless")
    return description.get("platform") == "container" or bool(theirs)


def cases() -> list[Any]:
    found = []
    for file in sorted(CASES.glob("*.yml")):
        for item in yaml.safe_load(file.read_text(encoding="utf-8")) or []:
            check = checks().get(item["check"])
            if check is not None and not item.get("want") and fix_class(check) == "auto":
                found.append(pytest.param(item, id=f"{file.stem}-{item['check']}-{len(found)}"))
    return found


@pytest.mark.parametrize("case", cases())
def test_an_auto_finding_gets_a_step_with_every_variable(case: dict[str, Any]) -> None:
    description = description_of(case.get("base"), case["fails"])
    findings = list(findings_of(description).values())
    finding = next(item for item in findings if item.id == case["check"])
    if finding.outcome not in (Outcome.FAIL, Outcome.WARN) or finding.blocked_by:
        return  # another finding explains it there
    plan = make_plan(
        facts_of(description),
        findings,
        (),
        knowledge(),
        checks=checks(),
        only=(finding.id,),
    )
    step = next(item for item in plan.steps if finding.id in item.findings)
    if by_hand(description):
        assert step.remedy is None
        assert step.command
        return
    assert step.remedy is not None, step.changes
    role = remedies()[step.remedy]
    assert set(role.vars) <= set(step.vars)
    spec = yaml.safe_load(
        (playbooks_dir() / "roles" / step.remedy / "meta" / "argument_specs.yml").read_text()
    )
    known = spec["argument_specs"]["main"].get("options") or {}
    assert set(step.vars) <= set(known)
    for name, value in step.vars.items():
        kinds = {"str": str, "bool": bool, "list": list, "dict": dict, "int": int, "path": str}
        assert isinstance(value, kinds[known[name]["type"]]), name
        if "choices" in known[name]:
            assert value in known[name]["choices"]


def test_the_toolkit_is_registered_with_the_engine_that_comes_with_the_same_plan() -> None:
    bare = {"distro": "ubuntu-24.04", "gpus": ["NVIDIA H100 80GB HBM3"], "driver": "none"}
    plan = make_plan(facts_of(bare), [], wants_of(("container",)), knowledge(), checks=checks())
    told = {step.id: step.vars for step in plan.steps}
    assert "container_engine" in told
    assert told["container_toolkit"]["container_toolkit_engine"] == "docker"


def test_where_there_is_dnf_the_engine_is_podman_and_nothing_is_registered() -> None:
    bare = {"distro": "rocky-9.6", "gpus": ["NVIDIA H100 80GB HBM3"], "driver": "none"}
    plan = make_plan(facts_of(bare), [], wants_of(("container",)), knowledge(), checks=checks())
    told = {step.id: step.vars for step in plan.steps}
    assert told["container_engine"]["container_engine_packages"] == ["podman"]
    assert told["container_toolkit"]["container_toolkit_engine"] == "none"
    [row] = [item for item in plan.target if item.thing == "container engine"]
    assert row.want.startswith("podman")
