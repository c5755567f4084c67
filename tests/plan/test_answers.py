"""Five real questions. The answers are goldens that the README shows; what makes each true is asserted beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from doctor import engine
from doctor.checks.finding import Finding
from doctor.cli.sources import open_source
from doctor.facts.identity import HostName
from doctor.facts.tree import Facts, decode
from doctor.plan.make import make_plan
from doctor.plan.model import Plan
from doctor.report.plan_text import render
from doctor.report.text import Look
from tests.checks.harness import checks, facts_of, findings_of, knowledge
from tests.plan.hosts import wants_of

ANSWERS = Path(__file__).parent / "answers"
HOSTS = Path(__file__).parents[1] / "hosts"

QUESTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "rtx-4090-rocky-10-driver-535": (
        {"distro": "rocky-10", "gpus": ["NVIDIA GeForce RTX 4090"], "driver": "535.183.01"},
        ("vllm==0.27.1",),
    ),
    "v100-newest-vllm": (
        {"distro": "ubuntu-22.04", "gpus": ["Tesla V100-SXM2-32GB"], "driver": "580.95.05"},
        ("vllm==0.33.0",),
    ),
    "v100-any-vllm": (
        {"distro": "ubuntu-22.04", "gpus": ["Tesla V100-SXM2-32GB"], "driver": "580.95.05"},
        ("vllm",),
    ),
    "h100-driver-550-cuda-13-image": (
        {
            "distro": "ubuntu-24.04",
            "gpus": ["NVIDIA H100 80GB HBM3"],
            "driver": "550.163.01",
            "containers": {"docker": "28.5.1", "toolkit": "1.19.1", "runtimes": ["nvidia"]},
        },
        ("image:nvidia/cuda:13.0.2-base-ubuntu24.04",),
    ),
    "rtx-5090-ubuntu-24.04": (
        {"distro": "ubuntu-24.04", "gpus": ["NVIDIA GeForce RTX 5090"], "driver": "none"},
        (),
    ),
    "h200-tensorrt-llm-1.2.1": (
        {"recording": "h200x2", "distro": "ubuntu-24.04"},
        ("tensorrt-llm==1.2.1",),
    ),
}


def judged(description: dict[str, Any]) -> tuple[Facts, list[Finding]]:
    """A simulated host, or a recorded one."""
    if "recording" not in description:
        return facts_of(description), list(findings_of(description).values())
    opened = open_source(str(HOSTS / description["recording"]))
    assert opened.source is not None
    report = engine.check(opened.source, engine.Options(as_of=opened.as_of))
    return decode(report.facts), report.findings


def answer(name: str) -> Plan:
    description, specs = QUESTIONS[name]
    facts, findings = judged(description)
    return make_plan(
        facts,
        findings,
        wants_of(specs),
        knowledge(),
        host=HostName(name="", distribution=description["distro"]),
        checks=checks(),
    )


def row(plan: Plan, thing: str) -> Any:
    return next(item for item in plan.target if item.thing == thing)


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_answer_is_the_golden(name: str) -> None:
    _, specs = QUESTIONS[name]
    command = " ".join(["$ doctor plan", *(f"--want {item}" for item in specs)])
    text = f"{command}\n{render(answer(name), Look())}\n"
    golden = ANSWERS / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text


def test_rtx_4090_with_535_needs_a_driver_that_runs_cuda_13() -> None:
    plan = answer("rtx-4090-rocky-10-driver-535")
    assert plan.status == "changes"
    driver = row(plan, "driver")
    assert driver.have == "535.183.01"
    assert driver.want.startswith("620.")
    assert "580.65.06" in driver.why
    assert "open kernel modules" in driver.why
    assert row(plan, "torch").want == "2.13.0"
    assert row(plan, "python").want.startswith("3.12")
    assert [step.remedy for step in plan.steps if step.remedy][-1] == "engine_env"


def test_v100_cannot_run_the_newest_vllm_and_the_newest_that_works_is_named() -> None:
    plan = answer("v100-newest-vllm")
    assert plan.status == "conflict"
    assert plan.conflict is not None
    said = " ".join(item.say for item in plan.conflict)
    assert "compute capability 7.0" in said
    assert "7.5" in said
    assert "Volta" in said
    assert [item.want for item in plan.instead] == ["vllm==0.19.1"]
    assert row(answer("v100-any-vllm"), "vllm").want == "0.19.1"


def test_h100_with_550_runs_a_cuda_13_image_by_its_compat_libraries() -> None:
    plan = answer("h100-driver-550-cuda-13-image")
    driver = row(plan, "driver")
    assert not driver.change
    assert "cuda-compat-13-0" in driver.why
    assert "branch 550 has ended" in driver.why


def test_rtx_5090_gets_open_modules_of_the_newest_long_lived_branch() -> None:
    plan = answer("rtx-5090-ubuntu-24.04")
    driver = row(plan, "driver")
    assert (driver.have, driver.want.partition(".")[0]) == (None, "620")
    assert "open kernel modules" in driver.why
    assert any("nvidia-open" in line for step in plan.steps for line in step.changes)
    assert "driver.not-installed" in [id for step in plan.steps for id in step.findings]


def test_h200_keeps_its_driver_for_tensorrt_llm() -> None:
    plan = answer("h200-tensorrt-llm-1.2.1")
    assert not row(plan, "driver").change
    assert row(plan, "tensorrt").want == "10.14.1"
    assert row(plan, "torch").want == "2.9.1+cu130"
    assert "minor-version compatibility" in row(plan, "driver").why


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_every_claim_has_a_source(name: str) -> None:
    plan = answer(name)
    for item in plan.target:
        assert item.sources or item.thing in ("container engine", "kernel"), item.thing
        assert item.why, item.thing
    for clash in plan.conflict or []:
        assert clash.sources or clash.rule.startswith(("want:", "host:")), clash.rule
