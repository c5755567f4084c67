"""Modules run under the target's Python 3.9, which has no tomllib; ansible-lint's production profile has nothing to say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
EDIT = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules["tomllib"] = None
from module_utils import ini_edit, json_edit, kernel_modules, package_locks, toml_edit
assert toml_edit.tomllib is None
assert toml_edit.edit("[a]\\nb = 1 # c\\n", {"a": {"b": 2, "d": [1.5, "x"]}}) == '[a]\\nb = 2 # c\\nd = [1.5, "x"]\\n'
"""


def pythons() -> list[str]:
    """This Python, and 3.9 where it is installed."""
    old = shutil.which("python3.9")
    works = old and subprocess.run([old, "--version"], capture_output=True).returncode == 0
    return [sys.executable, *([old] if old and works else [])]


@pytest.mark.parametrize("python", pythons())
def test_the_editors_work_without_tomllib(python: str) -> None:
    done = subprocess.run(
        [python, "-I", "-c", EDIT, str(PLAYBOOKS)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("python", pythons())
def test_every_module_compiles(python: str) -> None:
    source = "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 9))"
    for path in [*PLAYBOOKS.glob("library/*.py"), *PLAYBOOKS.glob("module_utils/*.py")]:
        done = subprocess.run(
            [python, "-I", "-c", source, str(path)], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{path}: {done.stderr}"


@pytest.mark.e2e
def test_ansible_lint_has_nothing_to_say() -> None:
    lint = shutil.which("ansible-lint", path=str(Path(sys.executable).parent)) or "ansible-lint"
    done = subprocess.run(
        [lint, "--offline", "--nocolor"], cwd=PLAYBOOKS, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
