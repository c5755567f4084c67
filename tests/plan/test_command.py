"""`doctor plan` on a recording: exit codes, JSON, lock and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.cli.main import run
from doctor.simulate.simulator import simulate


@pytest.fixture
def host(tmp_path: Path) -> Any:
    def make(**description: Any) -> str:
        folder = tmp_path / f"host-{len(list(tmp_path.iterdir()))}"
        simulate(
            {"distro": "ubuntu-24.04", "gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05"}
            | description
        ).write(folder)
        return str(folder)

    return make


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["plan", "--format", "json", *arguments])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.strip() else {}


def test_exit_codes(host: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = plan(capsys, "--from", host())
    assert (code, answer["status"]) == (0, "satisfied")
    code, answer = plan(capsys, "--from", host(), "--want", "vllm==0.27.1")
    assert (code, answer["status"], answer["conflict"]) == (1, "changes", None)
    code, answer = plan(
        capsys,
        "--from",
        host(
            gpus=["Tesla V100-SXM2-32GB"], driver={"version": "580.95.05", "flavor": "proprietary"}
        ),
        "--want",
        "vllm==0.33.0",
    )
    assert (code, answer["status"], answer["target"]) == (1, "conflict", [])
    assert {"rule", "say", "sources"} == set(answer["conflict"][0])
    assert plan(capsys, "--from", host(), "--want", "vlm")[0] == 2


def test_keys_of_the_contract(host: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer = plan(capsys, "--from", host(), "--want", "vllm==0.27.1")
    assert answer["schema"] == "doctor.plan/1"
    assert {"want", "status", "target", "steps", "conflict"} <= set(answer)
    for row in answer["target"]:
        assert {"thing", "have", "want", "why", "sources"} <= set(row)
    for step in answer["steps"]:
        assert {"id", "remedy", "findings", "disturbs", "undo", "changes"} <= set(step)


def test_a_lock_is_written_and_drift_from_it_is_judged(
    host: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "stack.lock"
    here = host()
    assert plan(capsys, "--from", here, "--lock", str(lock))[0] == 0
    assert json.loads(lock.read_text())["stack"] == {"driver": "580.95.05"}
    assert run(["check", "--from", here, "--lock", str(lock), "--only", "want.lock-drift"]) == 0
    capsys.readouterr()
    other = host(driver="580.105.08")
    run(
        [
            "check",
            "--from",
            other,
            "--lock",
            str(lock),
            "--only",
            "want.lock-drift",
            "--format",
            "json",
        ]
    )
    findings = {item["id"]: item for item in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["want.lock-drift"]["outcome"] == "warn"
    assert "580.105.08" in findings["want.lock-drift"]["message"]


def test_a_conflict_writes_no_lock(
    host: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "stack.lock"
    wants = ["--want", "vllm==0.27.1", "--want", "vllm==0.33.0"]
    assert plan(capsys, "--from", host(), *wants, "--lock", str(lock))[0] == 2
    assert not lock.exists()


def test_a_host_without_gpu_cannot_have_a_driver(
    host: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = plan(capsys, "--from", host(gpus=[], driver="none"))
    assert (code, answer["status"]) == (1, "conflict")
    code, answer = plan(capsys, "--from", host(gpus=[], driver="none"), "--want", "vllm-cpu")
    assert answer["status"] in ("changes", "satisfied")
