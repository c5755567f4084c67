"""`--only` answers for what was asked; what that needs is told only where it explains something that did not pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor import engine
from doctor.checks.finding import Outcome
from doctor.facts.tree import AREAS
from doctor.probes.recordings.recorded import RecordedSource
from doctor.simulate.simulator import simulate

GPU = {"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05"}


class Waiting(RecordedSource):
    """A recording that is asked as a live host is: all at once."""

    may_wait = True


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return simulate(GPU).write(tmp_path / "healthy")


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return simulate({**GPU, "says": {"cuInit": 999}}).write(tmp_path / "broken")


def check(place: Path, only: str, kind: type[RecordedSource] = RecordedSource) -> engine.Report:
    return engine.check(
        kind(str(place)), engine.Options(as_of=engine.date(2026, 11, 30), only=only)
    )


def test_what_passes_needs_no_other_area(healthy: Path) -> None:
    report = check(healthy, "driver.library-mismatch")
    assert [item.id for item in report.findings] == ["driver.library-mismatch"]
    assert report.exit_code == 0
    assert set(report.facts) == {"driver", "nvml", "host"}
    assert report.host.distribution.startswith("Ubuntu")


@pytest.mark.parametrize("only", ["cuda.init-failed", "cuda.*", "*", "driver.*", "gpu.not-on-bus"])
def test_a_recording_gives_the_findings_of_a_full_check(broken: Path, only: str) -> None:
    """Asked in two steps or at once, each finding is the one that the full check has."""
    whole = {
        item.id: item
        for item in engine.check(
            RecordedSource(str(broken)), engine.Options(as_of=engine.date(2026, 11, 30))
        ).findings
    }
    steps, once = check(broken, only), check(broken, only, Waiting)
    assert steps.findings == once.findings
    assert (steps.verdict, steps.exit_code) == (once.verdict, once.exit_code)
    for item in steps.findings:
        if not item.id.startswith("want."):
            assert item == whole[item.id]


def test_what_explains_a_failure_is_told_with_it(tmp_path: Path) -> None:
    place = simulate({"gpus": []}).write(tmp_path / "none")
    report = check(place, "cuda.init-failed")
    by_id = {item.id: item for item in report.findings}
    assert set(by_id) > {"cuda.init-failed"}
    assert by_id["gpu.not-on-bus"].outcome is Outcome.FAIL
    assert by_id["cuda.init-failed"].blocked_by == "gpu.not-on-bus"
    assert report.next is not None and report.next.id == "gpu.not-on-bus"


def test_a_need_that_fails_is_not_told_where_what_was_asked_passes(tmp_path: Path) -> None:
    place = simulate({**GPU, "says": {"cuInit": 999}}).write(tmp_path / "r")
    report = check(place, "gpu.not-on-bus")
    assert [item.id for item in report.findings] == ["gpu.not-on-bus"]
    assert report.exit_code == 0


def test_no_check_reads_no_area(healthy: Path) -> None:
    assert check(healthy, "no.such-check").findings == []
    assert set(engine.areas_of({})) == set()
    assert set(engine.areas_of(engine.every_check())) == set(AREAS)
