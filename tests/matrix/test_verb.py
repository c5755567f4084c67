"""`doctor matrix`: stdout is data, mistakes are exit 2 with one sentence."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .conftest import OVERLAY_SOURCE, write
from .test_refresh import SAVED


def doctor(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "doctor", "matrix", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_lint_counts_rows():
    said = doctor("lint", "--as-of", "2026-12-01", "--format", "json")
    assert said.returncode == 0
    assert said.stderr == ""
    counted = json.loads(said.stdout)
    assert counted["rows"] >= 900
    assert counted["rows"] == sum(counted["tables"].values())
    assert counted["stale"] == []


def test_lint_lists_stale_rows_and_is_still_clean():
    said = doctor("lint", "--as-of", "2030-01-01")
    assert said.returncode == 0
    assert "stale  driver_branches 580: as of 2026-11-30" in said.stdout


def test_lint_of_a_bad_overlay(tmp_path):
    site = write(tmp_path / "site", rows="gpus:\n- {family: x, mames: y}\n")
    said = doctor("lint", "--matrix", str(site))
    assert said.returncode == 2
    assert said.stdout == ""
    assert f'{site}/rows.yml:2:15: unknown key "mames"' in said.stderr
    assert 'did you mean "names"?' in said.stderr


def test_show_a_row_as_it_is_written():
    said = doctor("show", "cuda_toolkits", "12.4.0")
    assert said.stdout.startswith('- {cuda: "12.4.0", label: "12.4 GA", branch: "550"')


def test_show_json():
    rows = json.loads(doctor("show", "gpus", "hopper", "--format", "json").stdout)
    assert rows[0]["compute_capability"] == "9.0"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("show", "gpu"), 'did you mean "gpus"?'),
        (("show", "gpus", "hoper"), 'did you mean "hopper"?'),
        (("why", "hoper"), 'did you mean "hopper"?'),
        (("lint", "--as-of", "tomorrow"), "2026-11-30"),
    ],
)
def test_what_is_not_there(arguments, hint):
    said = doctor(*arguments)
    assert said.returncode == 2
    assert hint in said.stderr
    assert "Traceback" not in said.stderr


def test_why_gives_source_day_basis_and_layer():
    said = doctor("why", "cuda_toolkits", "12.4.0").stdout
    assert 'min_run: "525.60.13"' in said
    assert "stated by its publisher, as of 2026-11-30, vendor layer, cuda.yml:" in said
    assert (
        "https://docs.nvidia.com/cuda/archive/13.2.2/cuda-toolkit-release-notes/index.html" in said
    )
    assert "retrieved 2026-11-30" in said


def test_why_of_an_overlays_row(tmp_path):
    site = write(
        tmp_path / "site",
        sources=OVERLAY_SOURCE,
        rows='nccl_known_bad:\n- {id: our-hang, versions: "==2.28.9", problem: hangs, '
        "sources: [ours], as_of: 2026-11-30, basis: field}\n",
    )
    said = doctor("why", "our-hang", "--matrix", str(site)).stdout
    assert f"site layer, {site}/rows.yml:2" in said
    assert "https://wiki.example/x" in said


def test_refresh_from_saved_metadata():
    said = doctor("refresh", "--from", str(SAVED))
    assert said.returncode == 0
    assert said.stdout == ""
    assert "the registry says what the matrix says" in said.stderr


def test_refresh_from_nowhere(tmp_path):
    said = doctor("refresh", "--from", str(tmp_path / "nowhere"))
    assert said.returncode == 2
