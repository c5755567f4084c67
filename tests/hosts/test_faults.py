"""Real faults on a real H200 host: the root cause comes first, though nvidia-smi stays healthy in all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor import engine
from doctor.checks.finding import Outcome
from doctor.cli.sources import open_source
from doctor.report.model import Report

HERE = Path(__file__).resolve().parent


def judged(name: str) -> Report:
    opened = open_source(str(HERE / name))
    assert opened.source is not None
    return engine.check(opened.source, engine.Options(as_of=opened.as_of, label=name))


@pytest.mark.parametrize(
    ("name", "root"),
    [
        ("h200x2-stub", "cuda.libcuda-stub"),
        ("h200x2-compat", "cuda.libcuda-compat"),
        ("h200x2-visible", "cuda.visible-devices-empty"),
        ("h200x2-uvm", "driver.device-node-missing"),
        ("h200x2-shm-cumem", "nccl.cumem-host"),
    ],
)
def test_the_root_cause_is_the_first_and_only_error(name: str, root: str) -> None:
    report = judged(name)
    errors = [item.id for item in report.roots if item.outcome is Outcome.FAIL]
    assert errors == [root]
    assert report.exit_code == 1
    assert report.next is not None
    assert report.next.id == root
    assert report.next.command
    assert report.facts["nvml"]["init"]["value"] == "ok"


def test_a_small_shm_alone_is_a_warning_that_says_when_it_matters() -> None:
    report = judged("h200x2-shm")
    shm = next(item for item in report.findings if item.id == "shm.size")
    assert report.exit_code == 0
    assert shm.outcome is Outcome.WARN
    assert "NCCL_CUMEM_HOST_ENABLE" in shm.message


def test_the_healthy_host() -> None:
    report = judged("h200x2")
    passes = [item for item in report.findings if item.outcome is Outcome.PASS]
    unknown = [item for item in report.findings if item.outcome is Outcome.UNKNOWN]
    warned = {item.id: item for item in report.findings if item.outcome is Outcome.WARN}
    assert len(report.findings) >= 60
    assert len(passes) >= 30
    assert len(unknown) <= 5
    assert not [item.id for item in report.findings if item.outcome is Outcome.FAIL]
    for id, word in (
        ("nccl.copies-differ", "2.28.9"),
        ("cuda.compat-older-than-driver", "580.95.05"),
    ):
        assert word in warned[id].message
        assert warned[id].evidence
