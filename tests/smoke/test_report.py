"""The report: verdicts and exit codes, text and JSON, and an engine's log in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.checks.finding import Severity
from doctor.facts.identity import HostName
from doctor.report import smoke_text
from doctor.report.text import Look
from doctor.smoke import model
from doctor.smoke.engine_log import numbers_of, telling_lines
from doctor.smoke.environment import environments_dir
from doctor.smoke.model import SmokeReport, StageResult, fault, stage_of


def finding(id: str = "exited", severity: Severity = Severity.ERROR):  # type: ignore[no-untyped-def]
    return fault(
        "serve",
        id,
        "The engine serves",
        "the server ended\x1b[31m",
        want="a server",
        say="read the log",
        command="tail log",
        severity=severity,
    )


def report(*stages: StageResult, **more: object) -> SmokeReport:
    verdict = model.verdict_of(stages)
    fields = {"doctor": "0", "host": HostName(name="h"), "engine": "vllm-cpu", "level": "load"}
    return SmokeReport(
        **fields,
        verdict=verdict,
        exit_code=int(model.exit_code_of(verdict)),
        next=model.next_of(stages),
        stages=list(stages),
        **more,
    )


@pytest.mark.parametrize(
    ("stages", "verdict", "code"),
    [
        ([model.passed("driver", "ok")], "passed", 0),
        ([model.passed("driver", "ok"), model.failed(finding())], "failed", 6),
        ([model.unseen("driver", "NVML hangs")], "unknown", 3),
        ([model.skipped("driver", "CPU only")], "unknown", 3),
        ([], "unknown", 3),
    ],
)
def test_exit_codes(stages: list[StageResult], verdict: str, code: int) -> None:
    found = report(*stages)
    assert (found.verdict, found.exit_code) == (verdict, code)


def test_text_says_where_it_stopped_and_what_to_do_and_shows_no_control_characters() -> None:
    found = report(model.passed("driver", "ok"), model.failed(finding()), run_folder="/r")
    text = smoke_text.render(found, Look(width=80))
    assert text.splitlines()[0] == "✗ SMOKE FAILED  1 rung passed, stopped at serve in 0 s"
    assert "Next: read the log" in text
    assert "$ tail log" in text
    assert "smoke.serve-exited" in text
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    coloured = smoke_text.render(found, Look(width=80, color=True))
    assert "\x1b[31m✗ FAIL\x1b[0m" in coloured
    assert "ended\\x1b[31m" in coloured


def test_warnings_do_not_break_a_rung() -> None:
    warned = model.passed("serve", "ok", warnings=[finding("no-api-key", Severity.WARN)])
    found = report(warned)
    assert found.exit_code == 0
    assert "1 warning" in smoke_text.render(found, Look())


def test_json_has_the_contract_keys() -> None:
    found = json.loads(smoke_text.to_json(report(model.failed(finding()))))
    assert found["schema"] == "doctor.smoke/1"
    assert {
        "host",
        "engine",
        "level",
        "verdict",
        "exit_code",
        "next",
        "stages",
        "left_behind",
    } <= set(found)
    assert {"name", "outcome", "message", "evidence", "finding", "ms"} <= set(found["stages"][0])


def test_ids_name_their_rung() -> None:
    assert stage_of("smoke.engine-build-no-engine") == "engine-build"
    with pytest.raises(ValueError, match="names no rung"):
        stage_of("smoke.elsewhere")


LOG = """
(APIServer pid=1) INFO 11-30 16:39:06 [x.py:1] starting
(EngineCore pid=2) ERROR 11-30 16:39:50 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-30 16:39:50 [core.py:1510]   File "a.py", line 1, in x
(EngineCore pid=2) ERROR 11-30 16:39:50 [core.py:1510] ValueError: the first cause
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above.
"""


def test_a_log_in_its_telling_lines() -> None:
    assert telling_lines(LOG) == ["ValueError: the first cause"]
    assert telling_lines("one\ntwo\n") == ["one", "two"]
    assert telling_lines("") == []


def test_a_log_in_numbers() -> None:
    assert numbers_of("OSError: address already in use: ('127.0.0.1', 8000)")["port"] == "8000"
    assert numbers_of("nothing") == {}


def test_the_command_refuses_what_contradicts_itself(tmp_path: Path) -> None:
    from doctor.cli.main import run

    assert run(["smoke", "--provision", "--image", "x"]) == 2
    assert run(["smoke", "--engine", "vllm-cpu", "--image", "x"]) == 2
    assert run(["smoke", "--python", str(tmp_path / "none")]) == 2
    assert run(["smoke", "--level", "moon"]) == 2


def test_a_users_environments_are_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert environments_dir() == Path("/s/gpu-host-doctor/envs")
