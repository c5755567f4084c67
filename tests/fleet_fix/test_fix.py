"""A fix of many hosts: waves, the breaker, what is looked at again, and what each exit code is for."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from doctor.errors import UsageError
from doctor.fleet.fixing import run
from doctor.fleet.fixing.host import state_of
from doctor.fleet.fixing.run import checked
from doctor.fleet.fixing.waves import parted, share, too_many
from doctor.fleet.inventory import Inventory
from doctor.remedy.runner import RoleResult
from tests.fleet_fix.several import FakeRemote, Refuses, Several, Vanishes, broken, host

HOSTS = [f"h{number}" for number in range(1, 9)]


@pytest.mark.parametrize(
    ("serial", "sizes"),
    [
        ("1", [1] * 8),
        ("3", [3, 3, 2]),
        ("50%", [4, 4]),
        ("1,25%", [1, 2, 2, 2, 1]),
        ("1,2,100%", [1, 2, 5]),
        ("10%", [1] * 8),
        ("100", [8]),
    ],
)
def test_waves_have_every_host_once(serial: str, sizes: list[int]) -> None:
    waves = parted(HOSTS, serial)
    assert [len(wave) for wave in waves] == sizes
    assert [name for wave in waves for name in wave] == HOSTS


@pytest.mark.parametrize("serial", ["", "0", "-1", "101%", "x", "1,,2", "0%", "1.5"])
def test_other_waves_are_refused(serial: str) -> None:
    with pytest.raises(UsageError, match="--serial"):
        parted(HOSTS, serial)


def test_share_of_failures() -> None:
    assert [share(word) for word in ("0%", "20", "100%")] == [0, 0.2, 1]
    for word in ("", "x", "101%", "-1"):
        with pytest.raises(UsageError, match="--max-fail"):
            share(word)
    assert [too_many(failed, 5, 0.2) for failed in (0, 1, 2)] == [False, False, True]
    assert [too_many(failed, 3, 0.0) for failed in (0, 1)] == [False, True]
    assert not too_many(7, 7, 1.0)


def test_every_host_is_fixed_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    fleet = Several(tmp_path, HOSTS[:4], serial="1,2")
    broken(fleet)
    found = fleet.fix()
    assert found.exit_code == 0
    assert [wave.hosts for wave in found.waves] == [["h1"], ["h2", "h3"], ["h4"]]
    for item in found.hosts:
        assert (item.state, item.verdict_before, item.verdict_after) == (
            "done",
            "broken",
            "healthy",
        )
        assert [finding.status for finding in item.findings] == ["verified"]
        assert (item.changed, item.failed) == (1, False)
        assert (
            fleet.root / "fleet" / "hosts" / item.name / "runs" / item.run / "report.json"
        ).is_file()
        assert fleet.remote(item.name).asked[-1] == "release"
    journal = fleet.root / "fleet" / "fixes" / found.fix / "journal.jsonl"
    said = [json.loads(line) for line in journal.read_text().splitlines()]
    assert next(item["host"] for item in said if item["what"] == "host-ended") == "h1"
    assert said[-1]["what"] == "finished"
    fleet.id += "2"
    again = fleet.fix()
    assert (again.exit_code, {item.changed for item in again.hosts}) == (0, {0})


def test_wave_is_looked_at_once_for_all_and_each_host_after_its_step_and_after_the_wave(
    tmp_path: Path,
) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="2", forks=1)
    broken(fleet, "h1")
    fleet.fix()
    assert sorted(fleet.looked[:2]) == ["h1", "h2"]
    assert fleet.looked[2:] == ["h1", "h1"], "after the step, after the wave; h2 was healthy"


def test_no_more_hosts_are_changed_at_a_time_than_the_wave_or_forks_let(tmp_path: Path) -> None:
    fleet = Several(tmp_path, HOSTS, serial="100%", forks=3)
    broken(fleet)
    fleet.takes = 0.1
    fleet.fix()
    assert fleet.most == 3


def test_breaker_stops_before_the_next_wave_and_says_whom_it_did_not_reach(tmp_path: Path) -> None:
    fleet = Several(tmp_path, HOSTS[:4], serial="2")
    broken(fleet)
    fleet.benches()["h2"].results["note_h2"] = RoleResult(
        status="failed", failures=["disk is full"]
    )
    found = fleet.fix()
    assert found.exit_code == 4
    assert [host(found, name).state for name in HOSTS[:4]] == [
        "done",
        "done",
        "not-reached",
        "not-reached",
    ]
    assert [item.status for item in host(found, "h2").findings] == ["failed"]
    assert host(found, "h1").exit_code == 0
    assert found.waves[0].tripped
    assert found.waves[0].failed == ["h2"]
    assert "h2" in found.stopped
    assert "--max-fail is 0%" in host(found, "h3").reason
    assert fleet.benches()["h3"].ran == []
    assert found.counts["not-reached"] == 2


def test_breaker_stops_within_a_wave(tmp_path: Path) -> None:
    fleet = Several(tmp_path, HOSTS, serial="100%", forks=1, max_fail="20%")
    broken(fleet)
    for name in ("h1", "h2"):
        fleet.benches()[name].results[f"note_{name}"] = RoleResult(status="failed", failures=["no"])
    found = fleet.fix()
    assert [host(found, name).state for name in HOSTS] == ["done", "done"] + ["not-reached"] * 6


def test_some_may_fail(tmp_path: Path) -> None:
    fleet = Several(tmp_path, HOSTS[:4], serial="2", max_fail="50%")
    broken(fleet)
    fleet.benches()["h2"].results["note_h2"] = RoleResult(status="failed", failures=["no"])
    found = fleet.fix()
    assert (found.exit_code, found.stopped) == (4, "")
    assert host(found, "h4").exit_code == 0


def test_unreachable_host_counts_and_never_passes(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2", "h3"], serial="2")
    broken(fleet)
    fleet.remote("h1").up = False
    found = fleet.fix()
    said = host(found, "h1")
    assert (said.state, said.exit_code, said.failed) == ("failed", 3, True)
    assert said.reason == "unreachable: no connection"
    assert host(found, "h3").state == "not-reached"
    assert found.exit_code == 3


def test_unreachable_host_keeps_its_neighbours_waiting_only_where_none_may_fail(
    tmp_path: Path,
) -> None:
    for most, state in (("0%", "not-reached"), ("50%", "done")):
        folder = tmp_path / most
        folder.mkdir()
        fleet = Several(folder, ["h1", "h2"], serial="2", max_fail=most)
        broken(fleet)
        fleet.remote("h1").up = False
        found = fleet.fix()
        assert host(found, "h2").state == state
        assert [item.status for item in host(found, "h2").findings] == ["verified"] * (
            state == "done"
        )
        assert found.waves[0].tripped is (state == "not-reached")
        assert found.exit_code == 3


def test_host_lost_midway_is_not_fixed_and_can_be_gone_on_with(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1"])
    broken(fleet)
    remote = fleet.remote("h1")
    remote.before = Vanishes(remote, "boot_id")
    asked = remote.asked
    found = fleet.fix()
    assert (host(found, "h1").state, host(found, "h1").exit_code) == ("done", 4)
    assert [step.status for step in host(found, "h1").steps] == ["failed"]
    assert "workload" not in asked

    remote.up, remote.before = True, lambda op: None

    def dies(remedy: str) -> None:
        remote.up = False

    remote.before_play = dies
    fleet.id += "2"
    (tmp_path / "h1" / "etc" / "note_h1").write_text("wrong\n")
    found = fleet.fix()
    said = host(found, "h1")
    assert (said.state, said.exit_code) == ("done", 4)

    remote.up, remote.before_play = True, lambda remedy: None
    fleet.asked = msgspec.structs.replace(fleet.asked, resume=True)
    fleet.id += "3"
    found = fleet.fix()
    assert (found.exit_code, host(found, "h1").verdict_after) == (0, "healthy")


def test_what_cannot_be_written_down_there_is_not_begun(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1"])
    broken(fleet)
    fleet.remote("h1").before = Refuses("before_step")
    found = fleet.fix()
    assert found.exit_code == 4
    assert host(found, "h1").steps[0].failures == ["Read-only file system"]
    assert fleet.benches()["h1"].ran == []


def test_host_that_another_run_changes_is_left_for_the_next_time(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="1")
    broken(fleet)
    fleet.remote("h1").taken = "20250101T000000-aaaaaa"
    found = fleet.fix()
    said = host(found, "h1")
    assert (said.exit_code, said.failed) == (5, False)
    assert "20250101T000000-aaaaaa" in said.reason
    assert host(found, "h2").exit_code == 0
    assert found.exit_code == 5


def test_consent_is_asked_of_each_host_just_before_the_step(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="2", forks=1)
    broken(fleet, disturbs="gpu")
    busy = fleet.benches()["h2"]
    remote = fleet.remote("h2")

    def starts(op: str) -> None:
        if op == "workload":
            busy.workload["gpu"] = ["python (pid 7)"]

    remote.before = starts
    found = fleet.fix()
    assert host(found, "h1").exit_code == 0
    said = host(found, "h2")
    assert (said.exit_code, said.failed, said.changed) == (5, False, 0)
    assert said.stopped[0].allow == "gpu"
    assert "python (pid 7)" in said.stopped[0].why
    assert [item.status for item in said.findings] == ["not-applied"]
    assert busy.ran == []
    assert "workload" in remote.asked
    assert "before_step" not in remote.asked
    assert found.exit_code == 5


def test_finding_that_comes_back_once_the_wave_is_done_is_not_verified(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="2", forks=1)
    broken(fleet)

    def breaks_the_other(remedy: str) -> None:
        (tmp_path / "h1" / "etc" / "note_h1").write_text("wrong again\n")

    fleet.remote("h2").before_play = breaks_the_other
    found = fleet.fix()
    said = host(found, "h1")
    assert [item.status for item in said.findings] == ["failed"]
    assert [step.status for step in said.steps] == ["failed"]
    assert (said.exit_code, said.verdict_after, said.failed) == (4, "broken", True)
    assert found.waves[0].failed == ["h1"]


def test_host_that_is_gone_after_its_fix_is_unverified(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="2", forks=1)
    broken(fleet)

    def breaks_the_other(remedy: str) -> None:
        fleet.remote("h1").up = False

    fleet.remote("h2").before_play = breaks_the_other
    found = fleet.fix()
    said = host(found, "h1")
    assert [item.status for item in said.findings] == ["unverified"]
    assert (said.exit_code, said.verdict_after) == (4, "unknown")


def waits(remote: FakeRemote, name: str) -> None:
    """The step takes effect with a reboot: until then its check cannot tell."""
    remote.bench.results[name] = RoleResult(status="ok", changed=1, reboot="a new module")

    def unseen(remedy: str) -> None:
        if remedy == name:
            remote.bench.unseen.add(name)

    remote.before_play = unseen


def test_hosts_are_rebooted_by_the_controller_and_proved_in_another_boot(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1"], allow=["reboot"])
    broken(fleet, disturbs="none")
    bench = fleet.benches()["h1"]
    bench.note("later", needs=("note_h1",))
    waits(fleet.remote("h1"), "note_h1")
    found = fleet.fix()
    said = host(found, "h1")
    assert bench.boot == "boot-1+"
    assert bench.scheduled == []
    assert {step.id: step.status for step in said.steps} == {
        "note_h1": "verified",
        "later": "verified",
    }
    assert (found.exit_code, said.stopped) == (0, [])


def test_host_is_not_rebooted_unasked(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1"])
    broken(fleet)
    waits(fleet.remote("h1"), "note_h1")
    found = fleet.fix()
    assert fleet.benches()["h1"].boot == "boot-1"
    assert (found.exit_code, host(found, "h1").stopped[0].allow) == (5, "reboot")
    assert not host(found, "h1").failed


def test_host_with_people_on_it_is_not_rebooted(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1"], allow=["reboot"])
    broken(fleet)
    waits(fleet.remote("h1"), "note_h1")
    fleet.benches()["h1"].obstacles = ["alice (session 4) is logged in"]
    found = fleet.fix()
    assert fleet.benches()["h1"].boot == "boot-1"
    assert "alice" in host(found, "h1").stopped[0].why


def test_host_that_does_not_come_back_is_not_fixed_and_trips_the_breaker(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="1", allow=["reboot"])
    broken(fleet)
    waits(fleet.remote("h1"), "note_h1")
    fleet.remote("h1").comes_back = False
    found = fleet.fix()
    assert (host(found, "h1").exit_code, host(found, "h2").state) == (4, "not-reached")
    assert "did not come back" in host(found, "h1").stopped[0].why


def test_dry_run_keeps_nothing_and_never_stops(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2", "h3"], serial="1", dry_run=True, allow=["reboot"])
    broken(fleet)
    fleet.benches()["h1"].results["note_h1"] = RoleResult(status="failed", failures=["no"])
    found = fleet.fix()
    assert (found.exit_code, found.dry_run, found.stopped) == (1, True, "")
    assert {item.status for line in found.hosts for item in line.findings} == {"planned"}
    assert {line.run for line in found.hosts} == {""}
    assert list(fleet.root.iterdir()) == []
    for name in fleet.remotes:
        assert fleet.remote(name).asked == []
        assert (tmp_path / name / "etc" / f"note_{name}").read_text() == "wrong\n"


def test_interrupted_fix_begins_nothing_more(tmp_path: Path) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="1")
    broken(fleet)
    fleet.remote("h1").before_play = lambda remedy: fleet.cancel.cancel()
    found = fleet.fix()
    assert found.exit_code == 130
    assert host(found, "h2").state == "not-reached"
    assert fleet.benches()["h2"].ran == []


def test_undo_that_fails_on_one_host_takes_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Several(tmp_path, ["h1", "h2"], serial="2")
    broken(fleet)
    found = fleet.fix()
    assert found.exit_code == 0
    journal = state_of(fleet.root, "h1") / "runs" / host(found, "h1").run / "journal.jsonl"
    journal.unlink()
    journal.mkdir()
    monkeypatch.setattr(run, "default_root", lambda: fleet.root)
    monkeypatch.setattr(run, "Fleet", lambda *given: nullcontext(fleet))
    undone = run.undo(found.fix, fleet.asked, None, fleet.tell, fleet.cancel)
    said = {item.name: (item.exit_code, item.say) for item in undone.hosts}
    assert said["h1"][0] == undone.exit_code == 4
    assert "Is a directory" in said["h1"][1]
    assert (tmp_path / "h1" / "etc" / "note_h1").read_text() == "right\n"
    assert (tmp_path / "h2" / "etc" / "note_h2").read_text() == "wrong\n"


@pytest.mark.parametrize("name", ["h" * 300, "\u00fc" * 100, "..", "../x", "a/b", ".hidden"])
def test_no_name_leaves_the_folder_of_hosts_or_is_too_long_for_it(
    name: str, tmp_path: Path
) -> None:
    place = state_of(tmp_path, name)
    assert place.parent == tmp_path / "fleet" / "hosts"
    assert place.name not in (".", "..")
    assert place != state_of(tmp_path, name + "1")
    place.mkdir(parents=True)


def test_recordings_and_unchecked_keys_are_refused() -> None:
    hosts: dict[str, list[str]] = {"h1": []}
    with pytest.raises(UsageError, match="never from recordings"):
        checked(Inventory(label="", sources=[], hosts=hosts, recordings={"h1": "x"}))
    with pytest.raises(UsageError, match="switches host-key checking off"):
        checked(Inventory(label="", sources=[], hosts=hosts, unsafe={"h1": "ansible_ssh_args"}))
