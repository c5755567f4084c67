"""The published schemas of Kubernetes, GitHub and GitLab take the recipes, and would not take a wrong one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.recipes.fake import HOSTILE, made

WANT = f"want={HOSTILE}"
RELEASES = ("1.28", "1.31", "1.34")
"""Kubernetes releases whose schemas are asked."""


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["kubernetes-job", "kubernetes-daemonset"])
def test_kubernetes_takes_it(name: str, release: str) -> None:
    import kubernetes_validate

    said = yaml.safe_load(made(name, WANT))
    assert kubernetes_validate.validate(said, release, strict=True) == release
    container = said["spec"]["template"]["spec"]["containers"][0]
    container["comand"] = container.pop("command")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(said, release, strict=True)


@pytest.mark.parametrize(
    ("name", "schema", "right", "wrong"),
    [
        ("github-actions", "vendor.github-workflows", "runs-on:", "run-on:"),
        ("gitlab-ci", "vendor.gitlab-ci", "artifacts:", "artefacts:"),
    ],
)
def test_ci_systems_take_it(name: str, schema: str, right: str, wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "ci.yml"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    for text, code in ((made(name, WANT), 0), (made(name, WANT).replace(right, wrong), 1)):
        file.write_text(text)
        ran = subprocess.run(check, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stdout


def test_packer_template_is_hcl() -> None:
    import hcl2

    said = hcl2.loads(made("packer", WANT))
    assert len(said["build"][0]["provisioner"]) == 3
    required = [
        key.strip('"')
        for item in said["variable"]
        for key, known in item.items()
        if "default" not in known
    ]
    assert required == ["host", "user", "key"]
