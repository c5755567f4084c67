"""The wheel that is built is the wheel that is tested: from another folder, with playbooks and matrices inside."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from doctor.recipes.recipe import ENDING, recipes

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return next(out.glob("*.whl"))


def test_wheel_carries_playbooks_and_matrices(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "doctor/_data/matrices/sources.yml" in names
    assert "doctor/_data/playbooks/README.md" in names
    for name in (*recipes(), "parts/provision.sh"):
        assert f"doctor/recipes/{name}{'' if '/' in name else ENDING}" in names
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]


def test_installed_wheel_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    env = tmp_path / "venv"
    venv.create(env, with_pip=True)
    subprocess.run([env / "bin/python", "-m", "pip", "install", "-q", str(wheel)], check=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for arguments, codes in (
        (["--version"], {0}),
        (["check", "--list"], {0}),
        (["matrix", "lint"], {0}),
        (["recipe", "slurm-prolog"], {0}),
        (["check"], {0, 1, 3}),
    ):
        ran = subprocess.run(
            [env / "bin/doctor", *arguments],
            cwd=elsewhere,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode in codes, ran.stderr
        assert ran.stdout
