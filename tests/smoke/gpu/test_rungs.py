"""On a real GPU host: the first rungs pass, and under each real fault the ladder stops at `cuda` with the right cause."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="needs a real GPU"),
]
SCRIPT = Path(__file__).with_name("run_rungs.py")
CAUSES = {
    "stub": "cuda.libcuda-stub",
    "compat": "cuda.libcuda-compat",
    "visible": "cuda.visible-devices-empty",
    "uvm": "driver.device-node-missing",
}


def run(fault: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--faults", fault], capture_output=True, text=True, timeout=300
    )
    found: dict[str, Any] = json.loads(ran.stdout)[fault]
    if found.get("error", "").startswith("no "):
        pytest.skip(found["error"])
    return found


@pytest.mark.timeout(320)
def test_the_first_rungs_pass() -> None:
    climbed = run("base")["climbed"]
    assert [stage["outcome"] for stage in climbed["results"]] == ["pass", "pass", "pass"]
    assert climbed["left_behind"] == []


@pytest.mark.timeout(320)
@pytest.mark.parametrize(("fault", "cause"), CAUSES.items())
def test_a_fault_stops_the_ladder_at_cuda(fault: str, cause: str) -> None:
    climbed = run(fault)["climbed"]
    last = climbed["results"][-1]
    assert (last["name"], last["outcome"]) == ("cuda", "fail")
    assert last["finding"]["blocked_by"] == cause


@pytest.mark.timeout(320)
def test_lost_p2p_warns_with_its_reason() -> None:
    stage = run("p2p-off")["climbed"]["results"][-1]
    if stage["numbers"].get("ranks", 1) < 2:
        pytest.skip("one GPU")
    (warning,) = stage["warnings"]
    assert warning["id"] == "smoke.nccl-slow"
    assert "NCCL_P2P_DISABLE=1" in warning["message"]
