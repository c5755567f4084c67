"""An image that is wanted by its name and not here is pulled; one that is here stays, however its name is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.checks.finding import Severity
from doctor.facts.model import Absent, Unknown
from doctor.plan.image import is_here, plain
from doctor.plan.make import make_plan
from doctor.plan.model import Plan, Step
from tests.checks.harness import checks, facts_of, findings_of, knowledge
from tests.plan.hosts import wants_of

IMAGE = "nvidia/cuda:13.0.2-base-ubuntu24.04"
OTHER = "registry.example:5000/team/llm:7"
DOCKER = {"docker": "28.5.1", "toolkit": "1.20.0", "runtimes": ["nvidia"]}
HOST: dict[str, Any] = {
    "distro": "ubuntu-24.04",
    "gpus": ["NVIDIA H100 80GB HBM3"],
    "driver": "580.95.05",
    "containers": DOCKER,
}


def plan(*specs: str, facts: Any = None, **containers: Any) -> Plan:
    description = {**HOST, "containers": {**DOCKER, **containers}}
    findings = list(findings_of(description).values())
    return make_plan(
        facts or facts_of(description), findings, wants_of(specs), knowledge(), checks=checks()
    )


def pulling(made: Plan) -> Step | None:
    return next((step for step in made.steps if step.id == "engine_image"), None)


def test_what_is_wanted_and_not_here_is_pulled_in_one_step() -> None:
    made = plan(f"image:{IMAGE}", f"image:{OTHER}")
    step = pulling(made)
    assert step is not None
    assert (step.remedy, step.disturbs) == ("engine_image", "none")
    assert step.vars == {"engine_image_refs": [IMAGE, OTHER]}
    assert step.changes == [f"pull {IMAGE}", f"pull {OTHER}"]


def test_an_image_that_is_not_pulled_yet_breaks_nothing() -> None:
    made = plan(f"image:{IMAGE}")
    step = pulling(made)
    assert step is not None
    assert step.severity is Severity.WARN
    assert (made.status, made.exit_code) == ("satisfied", 0)


def test_what_is_here_is_not_pulled_again() -> None:
    assert pulling(plan(f"image:{IMAGE}", images=[{"ref": IMAGE}])) is None
    assert pulling(plan(f"image:docker.io/{IMAGE}", images=[{"ref": IMAGE}])) is None


def test_a_description_of_an_image_is_judged_and_not_pulled(tmp_path: Path) -> None:
    saved = tmp_path / "inspect.json"
    saved.write_text(json.dumps([{"RepoTags": [IMAGE], "Config": {"Env": []}}]))
    assert pulling(plan(f"image:{saved}")) is None


def test_where_images_were_not_seen_nothing_is_pulled() -> None:
    facts = facts_of(HOST)
    denied = Unknown("permission denied", "/var/run/docker.sock")
    hidden = msgspec.structs.replace(facts.container, images=denied, image_names=denied)
    step = pulling(plan(f"image:{IMAGE}", facts=msgspec.structs.replace(facts, container=hidden)))
    assert step is not None
    assert step.remedy is None
    assert "permission denied" in step.changes[-1]


def test_podmans_images_are_a_persons() -> None:
    facts = facts_of(HOST)
    hidden = msgspec.structs.replace(
        facts.container,
        docker_version=Absent(),
        images=Absent(),
        image_names=Absent(),
        podman_version=msgspec.structs.replace(facts.container.docker_version, value="5.4.0"),
    )
    made = plan(f"image:{IMAGE}", facts=msgspec.structs.replace(facts, container=hidden))
    step = pulling(made)
    assert step is not None
    assert (step.remedy, step.command) == (None, f"sudo podman pull {IMAGE}")


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("ubuntu", "ubuntu:latest"),
        ("docker.io/library/ubuntu:24.04", "ubuntu:24.04"),
        ("localhost:5000/tiny", "localhost:5000/tiny:latest"),
        (OTHER, OTHER),
        (f"a/b:1@{DIGEST}", f"a/b@{DIGEST}"),
        (f"localhost:5000/b@{DIGEST}", f"localhost:5000/b@{DIGEST}"),
    ],
)
def test_names_are_compared_as_the_engine_says_them(ref: str, said: str) -> None:
    assert plain(ref) == said
    assert is_here(ref, [said])
    assert not is_here(ref, [said + "0"])
