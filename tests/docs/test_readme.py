"""The README says what is so: generated parts are current, every verb and option it names exists."""

from __future__ import annotations

import re

from doctor.cli.main import group
from tests.docs.generate import README, ROOT, written


def test_generated_parts_are_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert written(text) == text, "python -m tests.docs.generate writes them anew"


def test_every_verb_that_the_readme_shows_exists() -> None:
    text = README.read_text(encoding="utf-8")
    shown = set(re.findall(r"^\$ doctor ([a-z]+)", text, re.MULTILINE))
    commands = group()
    import click

    known = set(commands.list_commands(click.Context(commands)))
    assert shown <= known
    assert {"check", "explain", "diagnose", "plan", "record", "simulate", "matrix"} <= shown


def test_ci_runs_what_the_readme_says() -> None:
    text = README.read_text(encoding="utf-8")
    assert ".venv/bin/python -m pytest" in text
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script


def test_nothing_speaks_of_the_place_it_was_made() -> None:
    import subprocess

    files = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout.split()
    wrong = []
    for name in files:
        if name == "tests/docs/test_readme.py":
            continue
        path = ROOT / name
        if not path.is_file():
            continue
        data = path.read_bytes()
        for word in (
            b"/work/main",
            b"/work/shared",
            b"../shared",
            b"git-farm",
            b"/tmp/lead",
            b"/opt/dv",
            b"/root/.pyenv",
        ):
            if word in data:
                wrong.append((name, word))
    assert wrong == []
