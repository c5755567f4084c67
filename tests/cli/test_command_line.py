"""The command line as a user meets it: data on stdout, talk on stderr, one sentence for a wrong call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from doctor.simulate.simulator import simulate

HEALTHY = {"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05"}


def doctor(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(HEALTHY).write(tmp_path_factory.mktemp("rec") / "healthy")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    description = {**HEALTHY, "driver": {"version": "580.95.05", "loaded": "580.82.07"}}
    return simulate(description).write(tmp_path_factory.mktemp("rec") / "broken")


def test_version() -> None:
    ran = doctor("--version")
    assert ran.returncode == 0
    assert ran.stdout.startswith("doctor ")
    assert ran.stderr == ""


def test_plain_doctor_in_a_pipe_is_check() -> None:
    plain, check = doctor(), doctor("check")
    assert plain.returncode == check.returncode
    assert plain.stdout.splitlines()[0] == check.stdout.splitlines()[0]


def test_healthy_recording(recording: Path) -> None:
    ran = doctor("check", "--from", str(recording), "--format", "json")
    report = json.loads(ran.stdout)
    assert ran.returncode == 0, report["next"]
    assert report["exit_code"] == 0
    assert report["schema"] == "doctor.report/1"
    assert ran.stderr == ""


def test_root_cause_comes_first(broken: Path) -> None:
    ran = doctor("check", "--from", str(broken))
    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    assert "BROKEN" in lines[0]
    errors = [line for line in lines if line.startswith("  ✗ FAIL")]
    assert errors[0].endswith("driver.library-mismatch")
    assert any(line.startswith("Next:") for line in lines)


def test_stdout_is_the_same_json_with_an_output_file(recording: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    ran = doctor("check", "--from", str(recording), "--format", "json", "-o", str(out))
    assert ran.stdout == ""
    assert json.loads(out.read_text())["verdict"]


@pytest.mark.parametrize("name", ["file/report.json", "nowhere/report.json", "x" * 300])
def test_file_that_cannot_be_written_is_a_wrong_call(
    name: str, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ran = doctor("check", "--from", str(recording), "-o", str(tmp_path / name))
    assert ran.returncode == 2, ran.stderr
    assert "cannot write" in ran.stderr


def test_no_color_in_a_pipe_and_80_columns(broken: Path) -> None:
    ran = doctor("check", "--from", str(broken))
    assert "\x1b" not in ran.stdout
    prose = [line for line in ran.stdout.splitlines() if not line.lstrip().startswith("$")]
    too_long = [line for line in prose if len(line) > 80 and " " in line.strip()[: 80 - 8]]
    assert [line for line in too_long if "://" not in line] == []


def test_ascii_output_where_the_encoding_is_ascii(broken: Path) -> None:
    ran = doctor("check", "--from", str(broken), PYTHONIOENCODING="ascii")
    assert ran.returncode == 1
    assert ran.stdout.isascii()
    assert "x FAIL driver.library-mismatch" in ran.stdout


def test_only_selects_and_keeps_the_blocking_cause(broken: Path) -> None:
    ran = doctor("check", "--from", str(broken), "--only", "cuda.init-failed", "--format", "json")
    ids = [finding["id"] for finding in json.loads(ran.stdout)["findings"]]
    assert "cuda.init-failed" in ids
    assert all(id.split(".")[0] in ("cuda", "driver", "gpu", "fabric") for id in ids)


def test_facts_of_a_probe_are_judged_elsewhere(recording: Path, tmp_path: Path) -> None:
    report = json.loads(doctor("check", "--from", str(recording), "--format", "json").stdout)
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps({"schema": "doctor.facts/1", "facts": report["facts"]}))
    again = json.loads(doctor("check", "--from", str(facts), "--format", "json").stdout)
    outcomes = [(item["id"], item["outcome"]) for item in report["findings"]]
    assert [(item["id"], item["outcome"]) for item in again["findings"]] == outcomes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chek"], "Did you mean check?"),
        (["check", "--from", "/nonexistent"], "No such file"),
        (["check", "--only", "nothing.*"], "no check matches"),
        (["explain", "driver.library-mismach"], "did you mean driver.library-mismatch?"),
        (["check", "--as-of", "yesterday"], "is not a date"),
        (["check", "--format", "xml"], "xml"),
        (["check", "--waivers", "/nonexistent.yml"], "No such file"),
        (["check", "--matrix", "/nonexistent"], "/nonexistent"),
    ],
)
def test_wrong_calls_are_one_sentence_and_exit_2(arguments: list[str], says: str) -> None:
    ran = doctor(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.strip().splitlines()) <= 2


def test_explain_says_what_was_read_and_where_it_comes_from(broken: Path) -> None:
    ran = doctor("explain", "driver.library-mismatch", "--from", str(broken))
    assert ran.returncode == 0
    for part in ("Read", "driver.loaded = 580.82.07", "Source", "https://", "Fix", "$ "):
        assert part in ran.stdout


def test_list_names_every_check_once() -> None:
    ran = doctor("check", "--list", "--format", "json")
    checks = json.loads(ran.stdout)["checks"]
    ids = [item["id"] for item in checks]
    assert len(ids) == len(set(ids)) >= 60
    for item in checks:
        assert item["sources"], item["id"]
        assert all(source["url"] for source in item["sources"]), item["id"]


@pytest.mark.parametrize("name", ["facts", "report", "description", "event"])
def test_schemas_are_json_schema(name: str) -> None:
    import jsonschema

    schema = json.loads(doctor("schema", name).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)


def test_reports_fit_their_schema(broken: Path) -> None:
    import jsonschema

    report = json.loads(doctor("check", "--from", str(broken), "--format", "json").stdout)
    jsonschema.validate(report, json.loads(doctor("schema", "report").stdout))
    jsonschema.validate(report["facts"], json.loads(doctor("schema", "facts").stdout))


def test_waived_findings_leave_the_verdict(recording: Path, broken: Path, tmp_path: Path) -> None:
    report = json.loads(doctor("check", "--from", str(recording), "--format", "json").stdout)
    warned = [item["id"] for item in report["findings"] if item["severity"] == "warn"]
    waivers = tmp_path / "waivers.yml"
    entry = "- {id: %s, reason: known, owner: ops, expires: %s}\n"
    waivers.write_text(entry % (warned[0], "2099-01-01"))
    ran = doctor("check", "--from", str(recording), "--waivers", str(waivers), "--format", "json")
    assert ran.returncode == 0
    waived = {item["id"]: item["waived"] for item in json.loads(ran.stdout)["findings"]}
    assert waived[warned[0]] == "known (ops, until 2099-01-01)"
    for id, expires in ((warned[0], "2020-01-01"), ("driver.library-mismatch", "2099-01-01")):
        waivers.write_text(entry % (id, expires))
        ran = doctor("check", "--from", str(broken), "--waivers", str(waivers))
        assert ran.returncode == 2
