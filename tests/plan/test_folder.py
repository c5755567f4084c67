"""The folder of an air-gapped host: where things come from changes, and nothing else; what is not in it is left to a person."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from doctor.errors import UsageError
from doctor.facts.model import Known
from doctor.plan.folder import Folder, archive, read_folder
from doctor.plan.folder_list import NAMES, VERSIONS, script
from doctor.plan.make import make_plan
from doctor.plan.model import Plan
from doctor.resources import playbooks_dir
from tests.checks.harness import checks, facts_of, findings_of, knowledge
from tests.plan.hosts import wants_of

H100 = ["NVIDIA H100 80GB HBM3"]
UBUNTU: dict[str, Any] = {"distro": "ubuntu-24.04", "gpus": H100, "driver": "none"}
ROCKY: dict[str, Any] = {"distro": "rocky-9.6", "gpus": H100, "driver": "none"}
DOCKER = {"docker": "28.3.3", "toolkit": "1.20.0", "runtimes": ["nvidia"]}
IMAGE = "vllm/vllm-openai:v0.20.0"
CUDA = "developer.download.nvidia.com/compute/cuda/repos"


def laid_out(root: Path, *paths: str) -> Folder:
    for item in paths:
        path = root / item
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return read_folder(root)


def plan(description: dict[str, Any], folder: Folder | None, *specs: str) -> Plan:
    findings = list(findings_of(description).values())
    return make_plan(
        facts_of(description),
        findings,
        wants_of(specs),
        knowledge(),
        checks=checks(),
        folder=folder,
    )


def vars_of(made: Plan, step: str) -> dict[str, Any]:
    found = next(item for item in made.steps if item.id == step)
    assert found.remedy == step, found.changes
    return found.vars


@pytest.mark.parametrize(
    ("description", "tree"),
    [(UBUNTU, f"{CUDA}/ubuntu2404/x86_64"), (ROCKY, f"{CUDA}/rhel9/x86_64")],
)
def test_the_repository_is_the_folders_and_the_key_stays_pinned(
    tmp_path: Path, description: dict[str, Any], tree: str
) -> None:
    folder = laid_out(tmp_path, f"{tree}/InRelease", f"{tree}/repodata/repomd.xml")
    before, after = plan(description, None), plan(description, folder)
    assert [step.id for step in before.steps] == [step.id for step in after.steps]
    net, own = vars_of(before, "nvidia_repo"), vars_of(after, "nvidia_repo")
    assert own["nvidia_repo_url"] == f"file://{tmp_path}/{tree}/"
    assert own["nvidia_repo_key"].startswith(f"{tmp_path}/{tree}/")
    assert own["nvidia_repo_fingerprint"] == net["nvidia_repo_fingerprint"]
    assert vars_of(before, "nvidia_driver") == vars_of(after, "nvidia_driver")


def test_a_repository_that_the_host_cannot_reach_is_as_good_as_none(tmp_path: Path) -> None:
    tree = f"{CUDA}/ubuntu2404/x86_64"
    host = {**UBUNTU, "repos": ["cuda"]}
    assert "nvidia_repo" not in [step.id for step in plan(host, None).steps]
    folder = laid_out(tmp_path, f"{tree}/InRelease")
    assert vars_of(plan(host, folder), "nvidia_repo")
    facts = facts_of(host)
    rows = facts.packages.repositories
    own = [
        msgspec.structs.replace(row, url=row.url.replace("https:/", f"file://{tmp_path}"))
        for row in rows.value
    ]
    kept = msgspec.structs.replace(facts.packages, repositories=Known(own))
    there = msgspec.structs.replace(facts, packages=kept)
    made = make_plan(there, [], (), knowledge(), folder=folder)
    assert "nvidia_driver" in [step.id for step in made.steps]
    assert "nvidia_repo" not in [step.id for step in made.steps]


def test_what_is_not_in_the_folder_is_left_to_a_person(tmp_path: Path) -> None:
    made = plan(UBUNTU, read_folder(tmp_path), "vllm==0.20.0")
    by_hand = {step.id: step.changes[-1] for step in made.steps if step.remedy is None}
    assert f"{tmp_path}/{CUDA}/ubuntu2404/x86_64/" in by_hand["nvidia_repo"]
    assert f"{tmp_path}/wheels" in by_hand["engine_env"]
    assert "--offline-list" in by_hand["engine_env"]


def test_a_mirror_stands_for_the_vendors(tmp_path: Path) -> None:
    (tmp_path / "mirror.url").write_text("http://mirror.example/gpu/\n")
    told = vars_of(plan(UBUNTU, read_folder(tmp_path)), "nvidia_repo")
    assert told["nvidia_repo_url"] == f"http://mirror.example/gpu/{CUDA}/ubuntu2404/x86_64/"
    assert told["nvidia_repo_key"].startswith("http://mirror.example/gpu/developer")
    (tmp_path / "mirror.url").write_text("http://mirror.example/gpu [trusted=yes]\n")
    with pytest.raises(UsageError, match="no http address"):
        read_folder(tmp_path)


def test_wheels_and_images_come_from_the_folder(tmp_path: Path) -> None:
    host = {**UBUNTU, "driver": "580.95.05", "containers": DOCKER}
    folder = laid_out(tmp_path, "wheels/vllm-0.20.0-cp312.whl", f"images/{archive(IMAGE)}")
    made = plan(host, folder, "vllm==0.20.0", f"image:{IMAGE}")
    assert vars_of(made, "engine_env")["engine_env_wheels"] == f"{tmp_path}/wheels"
    assert vars_of(made, "engine_image") == {
        "engine_image_refs": [IMAGE],
        "engine_image_archives": {IMAGE: f"{tmp_path}/images/{archive(IMAGE)}"},
    }
    made = plan(host, laid_out(tmp_path / "other"), f"image:{IMAGE}")
    [step] = [item for item in made.steps if item.id == "engine_image"]
    assert step.remedy is None
    assert f"/images/{archive(IMAGE)}" in step.changes[-1]


def test_a_path_that_apt_would_read_otherwise_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "a b"
    place.mkdir()
    with pytest.raises(UsageError, match="characters"):
        read_folder(place)


@pytest.mark.parametrize("description", [UBUNTU, ROCKY], ids=["apt", "dnf"])
def test_the_list_names_what_the_plan_needs_and_is_a_script(description: dict[str, Any]) -> None:
    specs = ("vllm==0.20.0", f"image:{IMAGE}")
    made = plan(description, None, *specs)
    text = script(made, facts_of(description), wants_of(specs))
    driver = vars_of(made, "nvidia_driver")
    for word in (
        *driver["nvidia_driver_packages"],
        driver["nvidia_driver_version"],
        vars_of(made, "nvidia_repo")["nvidia_repo_fingerprint"],
        "vllm==0.20.0",
        archive(IMAGE),
        *vars_of(made, "engine_env")["engine_env_python_packages"],
    ):
        assert word in text
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def test_the_list_knows_every_variable_that_names_packages() -> None:
    specs = playbooks_dir().glob("roles/*/meta/argument_specs.yml")
    options = {
        name
        for path in specs
        for name in yaml.safe_load(path.read_text())["argument_specs"]["main"].get("options", {})
    }
    named = {name for name in options if name.endswith("_packages")}
    assert named <= set(NAMES) <= options
    assert set(VERSIONS) <= set(NAMES)
    assert set(VERSIONS.values()) <= options


def test_what_a_host_calls_itself_is_no_line_of_the_script(tmp_path: Path) -> None:
    facts, ran = facts_of({**UBUNTU, "driver": "580.95.05"}), tmp_path / "ran"
    own = msgspec.structs.replace(facts.host, name=Known(f"x\ntouch {ran}\n#"))
    named = msgspec.structs.replace(facts, host=own)
    text = script(make_plan(named, [], (), knowledge()), named, ())
    assert f"touch {ran}" in text
    subprocess.run(["sh"], input=text, text=True, check=True, cwd=tmp_path)
    assert not ran.exists()


def test_a_host_with_nothing_to_do_needs_nothing() -> None:
    host = {**UBUNTU, "driver": "580.95.05"}
    made = make_plan(facts_of(host), [], (), knowledge())
    assert "# nothing" in script(made, facts_of(host), ())


def test_packages_of_nvidia_bring_their_repository_along() -> None:
    host = {**UBUNTU, "driver": {"version": "580.95.05", "from": "distro"}}
    steps = [step.id for step in plan(host, None, "cuda==13.0").steps]
    assert steps.index("nvidia_repo") < steps.index("cuda_toolkit")
