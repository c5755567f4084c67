"""The benchmark runs and prints its ratios; the numbers are for people, not for a gate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_benchmark_prints_seconds_and_ratios() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench", "--rounds", "2"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    printed = json.loads(ran.stdout)
    assert {"bare", "version", "only", "recorded", "live"} <= set(printed["seconds"])
    assert all(value > 0 for value in printed["ratios"].values())
