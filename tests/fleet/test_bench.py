"""A thousand hosts through Ansible: what a host costs must not depend on how many there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import hosts
from tests.processors import of_children

pytestmark = [pytest.mark.bench, pytest.mark.e2e, pytest.mark.timeout(1500)]
SIZES = (100, 300, 1000)
FAULTS: dict[str, dict[str, Any]] = {
    "healthy": {},
    "no-driver": {"driver": "none"},
    "nouveau": {"gpus": [{"name": "NVIDIA H100 80GB HBM3", "bound_to": "nouveau"}]},
    "shm": {"gpus": ["NVIDIA H100 80GB HBM3"] * 8, "shm": {"size": "64M"}},
}


def test_cost_per_host_is_flat(tmp_path: Path) -> None:
    recordings = [hosts.recording(tmp_path, name, **given) for name, given in FAULTS.items()]
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    code = (
        "import sys; from pathlib import Path; from doctor.remedy import state;"
        f"state.ROOT = Path({str(state)!r});"
        "from doctor.cli.main import main; main(sys.argv[1:])"
    )
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(state),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    costs = {}
    for size in SIZES:
        given = {
            f"node{number:04d}": {"doctor_recording": str(recordings[number % len(recordings)])}
            for number in range(size)
        }
        inventory = hosts.inventory(tmp_path / f"{size}.json", given, racks=sorted(given)[::2])
        before, began = of_children(), time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code, "fleet", "audit", "-i", inventory, "-o", tmp_path / f"out-{size}", "--format", "json"],
            capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip
        wall, cpu = time.monotonic() - began, of_children() - before
        assert done.returncode == 1, done.stderr[-3000:]
        fleet = json.loads(done.stdout)
        assert fleet["counts"]["audited"] == size
        assert {line["next"] for line in fleet["hosts"] if "next" in line} >= {
            "driver.not-installed"
        }
        costs[size] = cpu / size
        print(
            f"{size:5} hosts: {wall:6.1f} s, {1000 * wall / size:6.1f} ms a host, {1000 * cpu / size:6.1f} ms of processor a host"
        )
    assert costs[SIZES[-1]] <= 1.3 * costs[SIZES[0]], costs
