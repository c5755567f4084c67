"""Killed at any point: resume converges, and undo brings back what was there before the first attempt."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from doctor.remedy.runner import RoleResult
from tests.remedy.bench import Bench, Killed, statuses

POINTS = ["before_step", "boot_id", "after_step", "role"]


def facts(path: Path) -> tuple[bytes, int, int, int]:
    info = path.lstat()
    return path.read_bytes(), info.st_mode, info.st_uid, info.st_mtime_ns


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("which", ["one", "two"])
def test_resume_converges_and_undo_goes_back_to_the_very_start(
    bench: Bench, point: str, which: str
) -> None:
    before = {name: facts(bench.note(name)) for name in ("one", "two")}
    if which == "two":
        bench.remedies["two"] = bench.remedies["two"].__class__(
            **{
                **{
                    f: getattr(bench.remedies["two"], f)
                    for f in bench.remedies["two"].__struct_fields__
                },
                "needs": ["one"],
            }
        )
    if point == "role":
        bench.kill_in = which
    else:
        bench.kill_at = point
    with pytest.raises(Killed):
        bench.fix()
    report = bench.resume()
    assert statuses(report) == {"one": "verified", "two": "verified"}
    assert report.exit_code == 0
    undone = bench.undo(report.run)
    assert undone.exit_code == 0
    assert {name: facts(bench.etc / name) for name in before} == before
    assert bench.undo(report.run).steps == []


@pytest.mark.parametrize("point", POINTS)
def test_undo_of_a_run_that_was_killed(bench: Bench, point: str) -> None:
    before = facts(bench.note("one"))
    if point == "role":
        bench.kill_in = "one"
    else:
        bench.kill_at = point
    with pytest.raises(Killed):
        bench.fix()
    undone = bench.undo(bench.last().id)
    assert undone.exit_code == 0
    assert facts(bench.etc / "one") == before
    assert bench.fix().exit_code == 0


def test_what_a_killed_step_wrote_is_undone_though_the_resume_left_the_step(bench: Bench) -> None:
    before = facts(bench.note("one", disturbs="gpu"))
    bench.kill_in = "one"
    with pytest.raises(Killed):
        bench.fix()
    done = bench.do

    def begins(op: str, **arguments: object) -> dict[str, object]:
        if op == "before_step":
            bench.workload["gpu"] = ["python3 (pid 7)"]
        return done(op, **arguments)

    bench.do = begins  # type: ignore[method-assign]
    report = bench.resume()
    assert report.exit_code == 5
    assert (bench.etc / "one").read_text() == "half"
    bench.workload["gpu"] = []
    undone = bench.undo(report.run)
    assert [step.status for step in undone.steps] == ["undone"]
    assert facts(bench.etc / "one") == before


def test_undo_killed_half_way_is_done_again(bench: Bench) -> None:
    before = {name: facts(bench.note(name)) for name in ("one", "two")}
    report = bench.fix()
    bench.kill_at = "undo_step"
    with pytest.raises(Killed):
        bench.undo(report.run)
    bench.undo(report.run)
    assert {name: facts(bench.etc / name) for name in before} == before


def test_what_somebody_changed_since_is_left_and_named(bench: Bench) -> None:
    bench.note("one")
    two = bench.note("two")
    before = facts(two)
    report = bench.fix()
    (bench.etc / "one").write_text("the owner's own words\n")
    undone = bench.undo(report.run)
    assert (bench.etc / "one").read_text() == "the owner's own words\n"
    assert facts(two) == before
    left = [part for step in undone.steps for part in step.left]
    assert [part.path for part in left] == [str(bench.etc / "one")]
    assert left[0].why == "somebody changed it since"
    assert undone.steps[-1].say.endswith("1 are left: somebody changed it since")


def test_what_was_not_copied_is_not_said_to_be_somebody_elses(bench: Bench) -> None:
    bench.note("one")
    place = bench.root / "envs"
    place.mkdir()
    touches = bench.remedies["one"].touches.__class__(
        paths=bench.remedies["one"].touches.paths, trees=[str(place)]
    )
    bench.remedies["one"] = msgspec.structs.replace(bench.remedies["one"], touches=touches)
    played = bench.play

    def fills(*given: object) -> RoleResult:
        (place / "more").write_text("x")
        return played(*given)  # type: ignore[arg-type]

    bench.play = fills  # type: ignore[method-assign]
    [step] = bench.undo(bench.fix().run).steps
    assert step.say.endswith("1 are left: it was there before and was not copied")


def test_steps_that_build_on_each_other_are_undone_in_reverse(bench: Bench) -> None:
    path = bench.note("one")
    before = facts(path)
    bench.note("two", needs=("one",))
    bench.remedies["two"] = bench.remedies["two"].__class__(
        name="two",
        say="two",
        answers=["note.two"],
        needs=["one"],
        touches=bench.remedies["two"].touches.__class__(paths=[str(bench.etc)]),
    )
    played = bench.play

    def builds(*given: object) -> RoleResult:
        result = played(*given)  # type: ignore[arg-type]
        if bench.ran[-1] == "two":
            path.chmod(0o600)
            os.symlink("one", bench.etc / "link")
            (bench.etc / "dir").mkdir()
            (bench.etc / "dir" / "file").write_text("x")
        return result

    bench.play = builds  # type: ignore[method-assign]
    report = bench.fix()
    assert report.exit_code == 0
    undone = bench.undo(report.run)
    assert [step.id for step in undone.steps] == ["two", "one"]
    assert facts(path) == before
    assert sorted(item.name for item in bench.etc.iterdir()) == ["one", "two"]


def test_undo_asks_for_the_same_consent(bench: Bench) -> None:
    bench.note("one", disturbs="service")
    report = bench.fix()
    bench.workload["containers"] = ["vllm (docker)"]
    undone = bench.undo(report.run)
    assert undone.exit_code == 5
    assert undone.stopped[0].allow == "service"
    assert (bench.etc / "one").read_text() == "right\n"
    assert bench.undo(report.run, allow=["service"]).exit_code == 0


def test_a_plan_that_was_tampered_with_is_not_gone_on_with(bench: Bench) -> None:
    from doctor.errors import DoctorError

    bench.note("one")
    bench.kill_in = "one"
    with pytest.raises(Killed):
        bench.fix()
    plan = bench.last().plan
    plan.write_text(plan.read_text().replace('"right"', '"evil"'))
    with pytest.raises(DoctorError, match="not the one that was approved"):
        bench.resume()


def test_what_somebody_wrote_between_the_kill_and_the_resume_is_theirs(bench: Bench) -> None:
    path = bench.note("one")
    before = facts(path)
    touches = bench.remedies["one"].touches
    everything = touches.__class__(paths=[str(bench.etc)])
    theirs = bench.root / "elsewhere"
    theirs.write_text("old\n")
    done = bench.do

    def wider(op: str, **arguments: object) -> dict[str, object]:
        if op == "before_step":
            arguments["paths"] = [*everything.paths, str(theirs)]
        return done(op, **arguments)

    bench.do = wider  # type: ignore[method-assign]
    bench.kill_in = "one"
    with pytest.raises(Killed):
        bench.fix()
    theirs.write_text("the owner's own words\n")
    report = bench.resume()
    assert report.exit_code == 0
    bench.undo(report.run)
    assert theirs.read_text() == "the owner's own words\n"
    assert facts(path) == before
