"""doctor fix, undo and runs as a user meets them, without changing this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.cli.main import with_fix
from tests.cli.test_command_line import doctor


@pytest.mark.parametrize("verb", [["fix"], ["undo", "20261130T120000-abcdef"]])
def test_a_change_is_never_planned_from_a_recording(verb: list[str], tmp_path: Path) -> None:
    ran = doctor(*verb, "--from", str(tmp_path))
    assert ran.returncode == 2
    assert "live look" in ran.stderr


def test_without_a_terminal_somebody_has_to_say_yes() -> None:
    ran = doctor("fix")
    assert ran.returncode == 2
    assert "--yes" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fix", "--yes", "--allow", "everything"), "everything"),
        (("fix", "--yes", "--only", "no.such-check"), "no.such-check"),
        (("fix", "--yes", "--offline", "/nowhere"), "/nowhere"),
        (("fix", "--yes", "--want", "vlm==1"), "vlm"),
        (("undo", "../x", "--yes"), "../x"),
        (("runs", "show", "20261130T120000-abcdef"), "20261130T120000-abcdef"),
    ],
)
def test_wrong_calls_are_one_sentence(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ran = doctor(*arguments, XDG_STATE_HOME=str(tmp_path))
    assert ran.returncode == 2, ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_plain_fix_flag_is_the_fix_that_asks_nothing() -> None:
    assert with_fix(["--fix", "--dry-run"]) == ["fix", "--headless", "--dry-run"]
    assert with_fix(["--allow", "gpu", "--fix"]) == ["fix", "--headless", "--allow", "gpu"]
    assert with_fix(["check", "--fix"]) == ["check", "--fix"]
    assert with_fix([]) == []
