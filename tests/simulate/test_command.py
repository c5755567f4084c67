"""`doctor simulate` writes what every other command reads; a wrong description is exit 2 and one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.cli.main import run
from doctor.exit_codes import ExitCode

BROKEN = """\
distro: rocky-9.6
gpus: [NVIDIA L40S]
driver: {version: "580.95.05", loaded: "580.82.07"}
"""


def simulated(tmp_path: Path, text: str) -> tuple[int, Path]:
    description = tmp_path / "host.yml"
    description.write_text(text)
    recording = tmp_path / "recording"
    return run(["simulate", str(description), "-o", str(recording)]), recording


def test_recording_is_judged_like_a_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, recording = simulated(tmp_path, BROKEN)
    assert code == ExitCode.HEALTHY
    capsys.readouterr()
    assert run(["check", "--from", str(recording), "--format", "json"]) == ExitCode.FINDINGS
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "broken"
    assert report["next"]["id"] == "driver.library-mismatch"
    assert report["judged_as_of"] == "2026-11-30"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpsu: []", "did you mean gpus?"),
        ("distro: [", "not YAML at line"),
        ("driver: 580.95", "put versions in quotes"),
        ("gpus: [{name: H100, bound_to: nvidia}]\ndriver: none", "contradicts itself"),
        ("\x00", "not YAML"),
    ],
)
def test_wrong_description_is_exit_2_and_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    code, recording = simulated(tmp_path, text)
    shown = capsys.readouterr().err
    assert code == ExitCode.USAGE
    assert told in shown
    assert "Traceback" not in shown
    assert not recording.exists()


def test_a_recording_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recording").mkdir()
    (tmp_path / "recording" / "mine").write_text("x")
    code, recording = simulated(tmp_path, BROKEN)
    assert code == ExitCode.USAGE
    assert [path.name for path in recording.iterdir()] == ["mine"]


def test_schema_of_a_description_knows_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema
    import yaml

    from tests.simulate.hosts import hosts

    assert run(["schema", "description"]) == ExitCode.HEALTHY
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for description in hosts().values():
        validator.validate(yaml.safe_load(yaml.safe_dump(description)))
    assert list(validator.iter_errors({"gpsu": []}))
