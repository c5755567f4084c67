"""Exit codes: one enum, one pure function, one table."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from doctor.exit_codes import MEANING, PRECEDENCE, ExitCode, code_for, worst

TABLE = [
    # verdict, unseen checks, --fail-on, code
    ("healthy", 0, "error", 0),
    ("healthy", 7, "error", 0),
    ("healthy", 7, "warn", 0),
    ("healthy", 7, "unknown", 1),
    ("healthy", 0, "unknown", 0),
    ("degraded", 0, "error", 0),
    ("degraded", 0, "warn", 1),
    ("degraded", 0, "unknown", 1),
    ("broken", 0, "error", 1),
    ("broken", 3, "warn", 1),
    ("unknown", 1, "error", 3),
    ("unknown", 1, "warn", 3),
    ("unknown", 1, "unknown", 1),
]


@pytest.mark.parametrize(("verdict", "unseen", "fail_on", "code"), TABLE)
def test_verdict_table(verdict: str, unseen: int, fail_on: str, code: int) -> None:
    assert code_for(verdict, unseen, fail_on) == code


def test_precedence_is_the_documented_one() -> None:
    assert PRECEDENCE == (70, 130, 2, 4, 6, 5, 1, 3, 0)
    assert set(PRECEDENCE) == {int(code) for code in ExitCode}


def test_worst_follows_precedence() -> None:
    for first, second in itertools.product(PRECEDENCE, repeat=2):
        expected = min((first, second), key=PRECEDENCE.index)
        assert worst([first, second]) == expected
    assert worst([]) == ExitCode.HEALTHY


def test_readme_documents_every_code() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for code, meaning in MEANING.items():
        assert f"| {int(code)} | {meaning} |" in readme
