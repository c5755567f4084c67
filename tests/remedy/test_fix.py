"""A run: what is done, what is left, and what the exit code says."""

from __future__ import annotations

import json

import pytest

from doctor.checks.finding import Severity
from doctor.events import ApprovalNeeded, PlanReady, RebootRequired, StepFinished, StepStarted
from doctor.remedy import lock
from doctor.remedy.fix import InterruptedRunError
from doctor.remedy.runner import RoleResult
from tests.remedy.bench import Bench, Killed, statuses, step_of


def test_a_broken_host_is_fixed_and_verified_and_a_second_run_does_nothing(bench: Bench) -> None:
    bench.note("one")
    bench.note("two", needs=("one",))
    report = bench.fix()
    assert statuses(report) == {"one": "verified", "two": "verified"}
    assert (report.exit_code, report.verdict_before, report.verdict_after) == (
        0,
        "broken",
        "healthy",
    )
    assert bench.ran == ["one", "two"]
    again = bench.fix()
    assert (again.exit_code, again.steps, bench.ran) == (0, [], ["one", "two"])


def test_the_run_folder_tells_the_story(bench: Bench) -> None:
    bench.note("one")
    report = bench.fix()
    run = bench.last()
    assert {"plan.json", "journal.jsonl", "report.json", "saved", "ansible"} <= {
        item.name for item in run.folder.iterdir()
    }
    whats = [json.loads(line)["what"] for line in run.journal.read_text().splitlines()]
    assert whats == ["started", "step-begun", "step-ended", "changed", "finished"]
    assert json.loads(run.report.read_text())["exit_code"] == report.exit_code
    assert run.folder.stat().st_mode & 0o077 == 0
    kinds = [type(event) for event in bench.events]
    assert kinds[0] is PlanReady
    assert StepStarted in kinds
    assert StepFinished in kinds


def test_a_role_that_fails_is_failed_and_what_needs_it_is_not_applied(bench: Bench) -> None:
    bench.note("one")
    bench.note("two", needs=("one",))
    bench.note("three")
    bench.results["one"] = RoleResult(status="failed", failures=["no space left on device"])
    report = bench.fix()
    assert statuses(report) == {"one": "failed", "two": "not-applied", "three": "verified"}
    assert report.exit_code == 4
    assert step_of(report, "one").say == "no space left on device"
    assert step_of(report, "two").say.startswith("needs one")


def test_a_role_that_says_ok_but_cures_nothing_is_failed(bench: Bench) -> None:
    path = bench.note("one")
    played = bench.play

    def undone(*given: object) -> RoleResult:
        result = played(*given)  # type: ignore[arg-type]
        path.write_text("wrong again\n")
        return result

    bench.play = undone  # type: ignore[method-assign]
    report = bench.fix()
    assert statuses(report) == {"one": "failed"}
    assert report.exit_code == 4
    assert report.findings[0].say.startswith("still there")


def test_what_cannot_be_seen_afterwards_is_unverified(bench: Bench) -> None:
    bench.note("one")
    played = bench.play

    def blind(*given: object) -> RoleResult:
        bench.unseen.add("one")
        return played(*given)  # type: ignore[arg-type]

    bench.play = blind  # type: ignore[method-assign]
    report = bench.fix()
    assert statuses(report) == {"one": "unverified"}
    assert report.exit_code == 4


def test_unknown_findings_change_nothing(bench: Bench) -> None:
    bench.note("one")
    bench.unseen.add("one")
    report = bench.fix()
    assert (report.steps, bench.ran, report.exit_code) == ([], [], 3)


def test_a_step_whose_finding_an_earlier_one_cured_is_not_run(bench: Bench) -> None:
    bench.note("one")
    two = bench.note("two", needs=("one",))
    played = bench.play

    def both(*given: object) -> RoleResult:
        two.write_text("right\n")
        return played(*given)  # type: ignore[arg-type]

    bench.play = both  # type: ignore[method-assign]
    report = bench.fix()
    assert bench.ran == ["one"]
    assert report.exit_code == 0
    assert {item.id: item.status for item in report.findings} == {
        "note.one": "verified",
        "note.two": "verified",
    }


def test_a_finding_that_only_shows_up_after_a_fix_is_planned_for(bench: Bench) -> None:
    bench.note("one")
    two = bench.note("two")
    two.write_text("right\n")
    played = bench.play

    def uncovers(*given: object) -> RoleResult:
        if bench.ran == []:
            two.write_text("wrong\n")
        return played(*given)  # type: ignore[arg-type]

    bench.play = uncovers  # type: ignore[method-assign]
    report = bench.fix()
    assert bench.ran == ["one", "two"]
    assert report.exit_code == 0


@pytest.mark.parametrize("disturbs", ["service", "gpu"])
def test_nothing_running_is_disturbed_unasked(bench: Bench, disturbs: str) -> None:
    path = bench.note("one", disturbs=disturbs)
    bench.note("two")
    bench.workload["containers"] = ["vllm (docker)"]
    report = bench.fix()
    assert report.exit_code == 5
    assert path.read_text() == "wrong\n"
    assert statuses(report) == {"one": "not-applied", "two": "verified"}
    assert [item.allow for item in report.stopped] == [disturbs]
    assert any(isinstance(item, ApprovalNeeded) and item.allow == disturbs for item in bench.events)
    assert bench.fix(allow=[disturbs]).exit_code == 0


def test_a_service_is_disturbed_where_nothing_runs(bench: Bench) -> None:
    bench.note("one", disturbs="service")
    assert bench.fix().exit_code == 0


def test_a_warning_that_needs_a_consent_is_left_out(bench: Bench) -> None:
    bench.note("one", disturbs="service", severity=Severity.WARN)
    bench.workload["gpu"] = ["python3 (pid 7)"]
    report = bench.fix()
    assert (report.exit_code, statuses(report)) == (0, {"one": "not-applied"})
    assert "--allow service" in report.steps[0].say


def test_what_cannot_be_undone_needs_a_word(bench: Bench) -> None:
    bench.note("one", undo="none")
    bench.note("two", packages=("libfoo:amd64", "libbar:amd64"))
    bench.results["two"] = RoleResult(status="ok", changed=1, replaces=["libfoo"])
    report = bench.fix()
    assert report.exit_code == 5
    assert [item.allow for item in report.stopped] == ["irreversible", "irreversible"]
    assert "libfoo:amd64" in report.stopped[1].why
    assert "libbar" not in report.stopped[1].why
    assert {(bench.etc / name).read_text() for name in ("one", "two")} == {"wrong\n"}
    assert bench.fix(allow=["irreversible"]).exit_code == 0


def test_packages_without_a_copy_are_no_matter_where_they_stay(bench: Bench) -> None:
    bench.note("one", packages=("gcc:amd64",))
    bench.results["one"] = RoleResult(status="ok", changed=1, replaces=["other"])
    assert bench.fix().exit_code == 0


def test_busy_packages_are_waited_for_with_a_bound(bench: Bench) -> None:
    bench.note("one", packages=("foo",))
    bench.lock_holder = {"pid": "7", "name": "unattended-upgr", "lock": "/var/lib/dpkg/lock"}
    report = bench.fix(allow=["irreversible"])
    assert (report.exit_code, statuses(report)) == (4, {"one": "failed"})
    assert "unattended-upgr (pid 7)" in report.steps[0].say


def test_a_person_is_asked_for_each_step_and_can_say_no_or_stop(bench: Bench) -> None:
    for name in ("one", "three", "two"):
        bench.note(name)
    asked: list[str] = []

    def ask(step: object, busy: str) -> str:
        asked.append(step.id)  # type: ignore[attr-defined]
        return {"one": "no", "three": "yes", "two": "quit"}[asked[-1]]

    report = bench.fix(ask=ask)
    assert asked == ["one", "three", "two"]
    assert statuses(report) == {"one": "not-applied", "three": "verified", "two": "planned"}
    assert report.exit_code == 1


def test_a_dry_run_changes_nothing_and_its_exit_is_the_checks(bench: Bench) -> None:
    path = bench.note("one", disturbs="gpu")
    bench.workload["gpu"] = ["python3 (pid 7)"]
    bench.results["one"] = RoleResult(status="ok", changed=1, diffs=["-wrong\n+right"])
    report = bench.fix(dry_run=True)
    assert report.exit_code == 1
    assert report.dry_run
    assert report.steps[0].diffs == ["-wrong\n+right"]
    assert statuses(report) == {"one": "planned"}
    assert path.read_text() == "wrong\n"
    assert not (bench.last().folder / "journal.jsonl").exists()
    bench.results["one"] = RoleResult(status="failed", failures=["no such package"])
    assert bench.fix(dry_run=True).exit_code == 1


def test_a_reboot_is_only_ordered_when_it_is_allowed(bench: Bench) -> None:
    bench.note("one")
    bench.results["one"] = RoleResult(status="ok", changed=1, reboot="the module is in use")
    bench.unseen_after = True  # type: ignore[attr-defined]
    two = bench.note("two", needs=("one",))
    report = bench.fix()
    assert report.exit_code == 5
    assert [item.allow for item in report.stopped] == ["reboot"]
    assert bench.scheduled == []
    assert two.read_text() == "wrong\n"
    assert any(isinstance(item, RebootRequired) and not item.scheduled for item in bench.events)


def rebooting(bench: Bench) -> None:
    bench.note("one", disturbs="reboot")
    bench.note("two", needs=("one",))
    bench.results["one"] = RoleResult(status="ok", changed=1, reboot="the kernel is the old one")


def test_reboot_and_go_on(bench: Bench) -> None:
    rebooting(bench)
    report = bench.fix(allow=["reboot"])
    assert report.exit_code == 5
    assert report.stopped[0].rebooting
    assert bench.scheduled == [{"run_id": report.run, "doctor": "/opt/gpu-host-doctor/bin/doctor"}]
    assert bench.ran == ["one"]
    bench.boot = "boot-2"
    ended = bench.resume(after_reboot=True)
    assert bench.withdrawn == 1
    assert (ended.run, ended.exit_code) == (report.run, 0)
    assert statuses(ended) == {"one": "verified", "two": "verified"}


@pytest.mark.parametrize("failing", ["two", "apart"])
def test_a_host_does_not_reboot_into_half_of_what_was_to_come_with_it(
    bench: Bench, failing: str
) -> None:
    rebooting(bench)
    bench.note("two", needs=("one",), disturbs="reboot")
    bench.note("apart")
    played = bench.play

    def until_the_boot(*given: object) -> RoleResult:
        result = played(*given)  # type: ignore[arg-type]
        (bench.etc / "one").write_text("wrong until the boot\n")
        return result

    bench.play = until_the_boot  # type: ignore[method-assign]
    bench.results[failing] = RoleResult(status="failed", failures=["no route to host"])
    report = bench.fix(allow=["reboot"])
    assert (report.exit_code, statuses(report)[failing]) == (4, "failed")
    assert bool(bench.scheduled) is (failing == "apart")
    if failing == "two":
        assert "Not rebooted: two could not be done" in report.stopped[0].why
        del bench.results["two"]
        assert bench.resume(allow=["reboot"]).stopped[0].rebooting
        assert len(bench.scheduled) == 1


def test_without_a_new_boot_id_nothing_is_proved(bench: Bench) -> None:
    rebooting(bench)
    path = bench.etc / "one"
    played = bench.play

    def later(*given: object) -> RoleResult:
        result = played(*given)  # type: ignore[arg-type]
        path.write_text("wrong until the boot\n")
        return result

    bench.play = later  # type: ignore[method-assign]
    bench.fix(allow=["reboot"])
    ended = bench.resume(after_reboot=True)
    assert bench.withdrawn == 1
    assert statuses(ended)["one"] == "unverified"
    assert ended.exit_code == 4
    assert bench.ran == ["one"]


def test_at_most_two_reboots(bench: Bench) -> None:
    names = ["a", "b", "c", "d"]
    for number, name in enumerate(names):
        bench.note(name, needs=tuple(names[max(0, number - 1) : number]))
        bench.results[name] = RoleResult(status="ok", changed=1, reboot="not yet")
    reports = [bench.fix(allow=["reboot"])]
    for number in (2, 3):
        bench.boot = f"boot-{number}"
        reports.append(bench.resume(after_reboot=True))
    assert bench.ran == ["a", "b", "c"]
    assert [item.stopped[0].rebooting for item in reports] == [True, True, False]
    assert len(bench.scheduled) == 2
    assert "2 times already" in reports[-1].stopped[0].why


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"obstacles": ["ann (session 3) is logged in"]}, "ann (session 3)"),
        ({"obstacles": ["half-configured packages: foo"]}, "half-configured"),
        (
            {
                "facts": {
                    "host": {
                        "container": {"state": "known", "value": "docker"},
                        "name": {"state": "known", "value": "c1"},
                    }
                }
            },
            "docker restart c1",
        ),
        (
            {
                "facts": {
                    "host": {
                        "container": {"state": "known", "value": "none"},
                        "hardware": {"state": "known", "value": "wsl2"},
                    }
                }
            },
            "wsl.exe --shutdown",
        ),
    ],
)
def test_nobody_loses_by_a_reboot(bench: Bench, change: dict[str, object], said: str) -> None:
    rebooting(bench)
    for name, value in change.items():
        setattr(bench, name, value)
    report = bench.fix(allow=["reboot"])
    assert report.exit_code == 5
    assert bench.scheduled == []
    assert said in f"{report.stopped[0].why} {report.stopped[0].command}"


def test_a_second_run_waits_and_then_says_who_is_at_work(bench: Bench) -> None:
    bench.note("one")
    with (
        lock.hold(bench.state.lock, "20261130T120000-abcdef"),
        pytest.raises(lock.LockedError, match="20261130T120000-abcdef"),
    ):
        bench.fix()
    assert bench.fix().exit_code == 0


def test_a_run_that_was_killed_is_not_started_over(bench: Bench) -> None:
    bench.note("one")
    bench.kill_in = "one"
    with pytest.raises(Killed):
        bench.fix()
    with pytest.raises(InterruptedRunError) as error:
        bench.fix()
    assert "--resume" in error.value.hint
