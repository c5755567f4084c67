"""`doctor tui` says what it cannot do, and what there is to show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from doctor.cli.main import default_arguments, run
from doctor.cli.verbs.tui import _own_arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tui"], "needs a terminal"),
        (["tui", "--demo", "nouveau", "--from", "x"], "both say what to show"),
        (["tui", "--demo", "nouvo", "--read-only"], "did you mean nouveau"),
        (["tui", "--replay", "/no/such", "--read-only"], "No such file"),
        (["tui", "--from", "/no/such", "--read-only"], "/no/such"),
        (["tui", "--demo", "nouveau", "--want", "vllmm", "--read-only"], "vllm"),
        (["tui", "--demo", "flet", "--read-only"], "did you mean fleet"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert said in heard.err


def test_demos_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tui", "--demo", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("healthy-h200 ")
    assert lines[-1].startswith("fleet ")


def test_a_served_session_gets_the_arguments_but_those_of_serving(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = [
        "doctor",
        "tui",
        "--serve",
        "--port",
        "0",
        "--from",
        str(tmp_path),
        "--port=1",
        "--want",
        "vllm",
    ]
    monkeypatch.setattr(sys, "argv", line)
    assert _own_arguments() == ["--serve", "--from", str(tmp_path), "--want", "vllm"]


def test_without_a_terminal_plain_doctor_is_the_check() -> None:
    assert default_arguments() == ["check"]
