"""Broken host -> `doctor --fix` -> a fresh probe passes -> nothing to do -> `doctor undo` -> the fault is back and all else as it was."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.playbooks.conftest import LINUX, Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import Before, after_reboot, fix, undo
from tests.playbooks.standins.host import Host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
EVERYTHING = "service,gpu,reboot,irreversible"
UNIT = "gpu-host-doctor-resume.service"
Recipe = Callable[[Host], str]


def planted_alone(host: Host, planted: str) -> bool:
    """Whether a fault is the finding, and the only error that nothing else explains."""
    rows = host.findings()
    bare = [
        name for name, row in rows.items() if row["outcome"] == "fail" and not row["blocked_by"]
    ]
    seen = rows[planted]["outcome"] in ("fail", "warn") and rows[planted]["blocked_by"] is None
    return seen and bare in ([], [planted])


@pytest.mark.cures("driver.not-installed")
@pytest.mark.parametrize("flavor", LINUX)
def test_bare_host_gets_its_driver_through_a_reboot_and_loses_it_by_undo(
    start: Start, flavor: str
) -> None:
    with start(flavor) as host:
        before = Before.of(host)
        first = host.boot_id
        begun = fix(host, "--allow", EVERYTHING)
        assert begun.code == 5, begun.failures()
        assert begun.data["stopped"][0]["rebooting"], begun.failures()
        ended = after_reboot(host, begun.run)
        assert ended.code == 0, ended.failures()
        assert host.boot_id != first
        assert ended.findings()["driver.not-installed"] == "verified"
        assert not host.exists(f"/etc/systemd/system/{UNIT}")
        assert host.findings()["cuda.init-failed"]["outcome"] == "pass"

        again = fix(host, "--allow", EVERYTHING)
        assert (again.code, again.changed()) == (0, 0), again.failures()

        undo(host, begun.run, "--allow", EVERYTHING)
        host.reboot()
        assert host.findings()["driver.not-installed"]["outcome"] == "fail"
        assert before.left(host) == {}


@pytest.mark.cures("container.runtime-not-registered")
@pytest.mark.parametrize("flavor", LINUX)
def test_runtime_is_registered_with_the_real_engine_and_the_owners_settings_stay(
    start: Start, flavor: str
) -> None:
    with start(flavor) as host:
        planted = states.not_registered(host)
        states.hold_driver(host)
        assert planted_alone(host, planted)
        before = Before.of(host)
        own = json.loads(host.read("/etc/docker/daemon.json"))
        assert "nvidia" not in json.loads(host.out("docker info -f '{{json .Runtimes}}'"))

        done = fix(host)
        assert done.findings()[planted] == "verified", done.failures()
        assert "nvidia" in json.loads(host.out("docker info -f '{{json .Runtimes}}'"))
        now = json.loads(host.read("/etc/docker/daemon.json"))
        assert {key: now[key] for key in own} == own
        assert (fix(host).changed()) == 0

        undo(host, done.run)
        assert "nvidia" not in json.loads(host.out("docker info -f '{{json .Runtimes}}'"))
        assert host.findings()[planted]["outcome"] == "fail"
        assert before.left(host) == {}


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(recipe, marks=pytest.mark.cures(finding), id=recipe.__name__)
        for recipe, finding in (
            (states.nouveau_bound, "driver.gpu-held-by-other-module"),
            (states.library_mismatch, "driver.library-mismatch"),
            (states.no_headers, "kernel.headers-missing"),
            (states.no_toolkit, "container.toolkit-missing"),
        )
    ],
)
def test_driver_that_does_not_run_is_put_right(start: Start, flavor: str, recipe: Recipe) -> None:
    with start(flavor) as host:
        planted = recipe(host)
        assert planted_alone(host, planted)
        done = fix(host, "--allow", EVERYTHING)
        if done.code == 5:
            done = after_reboot(host, done.run)
        assert done.code == 0, done.failures()
        assert done.findings()[planted] == "verified", done.failures()
        assert fix(host, "--allow", EVERYTHING).changed() == 0


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_unattended_upgrades_leave_the_driver_alone_afterwards(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        planted = states.unattended(host)
        assert planted_alone(host, planted)
        before = Before.of(host)
        done = fix(host)
        assert done.findings()[planted] == "verified", done.failures()
        assert fix(host).changed() == 0
        undo(host, done.run)
        assert host.findings()[planted]["outcome"] == "warn"
        assert before.left(host) == {}


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_dry_run_shows_differences_and_changes_nothing(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        before = Before.of(host)
        done = fix(host, "--dry-run", "--allow", EVERYTHING)
        assert done.code == 1, done.failures()
        assert any(row["diffs"] for row in done.data["steps"]), done.failures()
        assert before.left(host) == {}


def test_without_a_new_boot_id_the_step_stays_unverified(start: Start) -> None:
    with start("ubuntu2404") as host:
        begun = fix(host, "--allow", EVERYTHING)
        assert begun.code == 5, begun.failures()
        # As after `systemctl soft-reboot`: new user space, the same kernel with the same modules.
        host.write("/etc/standin/boot-id", host.boot_id + "\n")
        host.write("/etc/standin/kept-modules", "nouveau\n")
        ended = after_reboot(host, begun.run)
        assert (ended.code, ended.data["verdict_after"]) == (4, "broken"), ended.failures()
        assert ended.steps()["nouveau_off"] == "unverified"
        assert ended.findings()["driver.gpu-held-by-other-module"] != "verified"
        assert not host.exists(f"/etc/systemd/system/{UNIT}")
