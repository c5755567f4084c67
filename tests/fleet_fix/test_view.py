"""What is said of a fix of many hosts: everything of a host is on its own lines, and nothing of it speaks to the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.cli import fleet_fix_view as view
from doctor.cli.fleet_verbs.fix import written
from doctor.cli.main import run
from doctor.events import Note, StepFinished
from doctor.fleet.fixing.desk import parcel
from doctor.fleet.fixing.remote import template
from doctor.fleet.model import file_name
from doctor.remedy.runner import RoleResult
from doctor.report.text import Look
from tests.fleet_fix.several import Several, broken

PLAIN = Look(color=False, unicode=False, width=80)


def test_text_has_every_host_under_its_wave(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2", "h3"], serial="1")
    broken(fleet)
    fleet.benches()["h2"].results["note_h2"] = RoleResult(
        status="failed", failures=["disk\x1b]0;x\x07 full"]
    )
    text = view.fix(fleet.fix(), PLAIN)
    assert "Wave 1: 1 host\n  ok h1: healthy, 1 changes\n" in text
    assert "Wave 2: 1 host, 1 failed\n  x h2: broken\n" in text
    assert "Not reached: h3" in text
    assert "Stopped: 1 of the 1 hosts of wave 2 failed" in text
    assert f"doctor fleet undo {fleet.id}" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_teller_names_the_host_and_shows_neither_escapes_nor_secrets() -> None:
    heard: list[str] = []
    tell = view.Teller(heard.append)
    tell(StepFinished(host="h1", step="a", status="failed", say="x\x1b[31m token=hunter2swordfish"))
    tell(Note(text="wave 1"))
    assert heard[0].startswith("h1: a: failed: x")
    assert "\x1b" not in heard[0]
    assert "hunter2swordfish" not in heard[0]
    assert heard[1] == "wave 1"


def test_templates_of_a_host_are_found_wherever_they_are() -> None:
    for value in ("{{ lookup('pipe', 'id') }}", "{% for x in y %}", "{# x #}"):
        for inside in (value, [value], {"a": {"b": [value]}}, {value: 1}):
            assert template(inside) == value
    assert template({"a": ["580.95.05", "{x}", 1, None, True]}) == ""


def test_parcel_is_one_archive_that_needs_nothing_of_ours(tmp_path: Path) -> None:
    import subprocess

    archive = tmp_path / "parcel"
    archive.write_bytes(parcel({"run": "20260101T000000-abcdef", "by": "x", "word": "w", "asked": {"do": "release"}}))  # fmt: skip
    ran = subprocess.run(
        ["/bin/sh", str(archive)],
        capture_output=True, text=True, cwd="/", check=True,
    )  # fmt: skip
    assert ran.stdout.startswith("doctor-probe/1 w ")
    assert len(archive.read_bytes()) < 60_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-i", "h1,", "--serial", "0"], "--serial"),
        (["-i", "h1,", "--max-fail", "x"], "--max-fail"),
        (["-i", "h1,", "--allow", "all"], "--allow does not know"),
        (["-i", "nowhere.ini"], "is not there"),
        (["-i", "h1,", "-o", "/dev/null/out"], "cannot make /dev/null/out"),
    ],
)
def test_wrong_calls_are_usage_errors(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from doctor.remedy import state

    monkeypatch.setattr(state, "ROOT", tmp_path / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert run(["fleet", "fix", *words]) == 2
    assert said in capsys.readouterr().err


def test_folder_of_this_machine_says_nothing_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert run(["fleet", "fix", "-i", "h1,", "--want", f"model:{tmp_path}"]) == 2
    assert "is a folder of this machine" in capsys.readouterr().err


def test_recordings_are_never_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from doctor.simulate.simulator import simulate

    simulate({"gpus": ["NVIDIA H100 80GB HBM3"]}).write(tmp_path / "host")
    assert run(["fleet", "fix", "-i", str(tmp_path)]) == 2
    assert "never from recordings" in capsys.readouterr().err


def test_every_host_has_a_file_of_its_own_beside_the_whole(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["fleet-fix", "h1"])
    broken(fleet)
    found = fleet.fix()
    written(found, tmp_path)
    whole = json.loads((tmp_path / "fleet-fix.json").read_text())
    assert whole == json.loads(view.to_json(found))
    files = {
        name: json.loads((tmp_path / file_name(name)).read_text()) for name in ("fleet-fix", "h1")
    }
    assert [files["fleet-fix"], files["h1"]] == whole["hosts"]


def test_json_is_the_contract(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1"])
    broken(fleet)
    said = json.loads(view.to_json(fleet.fix()))
    assert said["schema"] == "doctor.fleet-fix/1"
    assert {"fix", "inventory", "exit_code", "waves", "hosts", "stopped", "counts"} <= set(said)
    assert {"name", "wave", "state", "exit_code", "run", "findings", "steps"} <= set(
        said["hosts"][0]
    )
