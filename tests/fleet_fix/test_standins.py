"""Real hosts over real ssh: waves, a host that cannot be fixed, the breaker, a dry run, a second run, undo, reboots by the controller."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from doctor import resources
from doctor.cli.main import run
from doctor.remedy import state
from tests.playbooks.conftest import Start, fleet, start
from tests.playbooks.standins import installation, pins, states
from tests.playbooks.standins.fixing import Before
from tests.playbooks.standins.fleet import Fleet
from tests.playbooks.standins.host import Host

__all__ = ["fleet", "start"]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]
DOOR = Path(__file__).with_name("door.py")
ONLY = ("--only", "packages.not-locked")
EVERYTHING = "service,gpu,reboot,irreversible"
Fix = Callable[..., dict[str, Any]]


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This side's own records, apart from those of the machine that runs the tests."""
    root = tmp_path / "state"
    monkeypatch.setattr(state, "ROOT", root)
    monkeypatch.chdir(tmp_path)
    return root


@pytest.fixture
def pinned(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This side's matrices and playbooks trust the mirror's key, as those do that are installed on stand-ins."""
    data = tmp_path / "data"
    for kind in (resources.matrices_dir(), resources.playbooks_dir()):
        shutil.copytree(kind, data / kind.name)
    pins.repin(data, installation.own_key(fleet.engine))
    monkeypatch.setattr(resources, "_PACKAGE", data / "doctor")


def inventory(
    folder: Path, *hosts: Host, users: dict[str, str] | None = None, moving: bool = False
) -> str:
    """One inventory of all, with each one's own key. `moving`: they will have other addresses after a reboot."""
    found: dict[str, Any] = {}
    for host in hosts:
        own = folder / host.name
        own.mkdir(exist_ok=True)
        user = (users or {}).get(host.name, "root")
        said: Any = host.inventory(own, user)
        variables = said["all"]["children"]["targets"]["hosts"][host.name]
        del variables["ansible_python_interpreter"]
        if moving:
            known = own / "known_hosts"
            known.write_text(known.read_text().replace(host.address, host.name))
            door = shlex.join([sys.executable, str(DOOR), str(host.engine.socket), host.name])
            variables["ansible_host"] = host.name
            variables["ansible_ssh_common_args"] += f" -o ProxyCommand={shlex.quote(door)}"
        found[host.name] = variables
    path = folder / "inventory.json"
    path.write_text(json.dumps({"all": {"children": {"gpus": {"hosts": found}}}}))
    return str(path)


@pytest.fixture
def fix(capsys: pytest.CaptureFixture[str], control: Path) -> Fix:
    def do(verb: str, *words: str, code: int | None = None) -> dict[str, Any]:
        capsys.readouterr()
        ended = run(["fleet", verb, "--format", "json", *words])
        said = capsys.readouterr()
        try:
            found: dict[str, Any] = json.loads(said.out)
        except ValueError:
            raise AssertionError(f"exit {ended}\n{said.out}\n{said.err}") from None
        assert found["exit_code"] == ended
        if code is not None:
            assert ended == code, json.dumps(found, indent=1)[:6000] + said.err
        return found

    return do


def lines(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {host["name"]: host for host in found["hosts"]}


def status(host: dict[str, Any], id: str) -> str:
    return next((str(item["status"]) for item in host["findings"] if item["id"] == id), "none")


def journal(control: Path, said: dict[str, Any]) -> list[dict[str, Any]]:
    """What is written of a host's run on this side."""
    folder = control / "fleet" / "hosts" / said["name"] / "runs" / said["run"]
    return [json.loads(row) for row in (folder / "journal.jsonl").read_text().splitlines()]


def held(host: Host) -> bool:
    """Whether the driver's packages are kept at their version."""
    if host.family == "debian":
        return "nvidia" in host.out("apt-mark showhold")
    return "nvidia" in host.run("dnf -q versionlock list", check=False).stdout


def with_driver(hosts: list[Host]) -> None:
    """Each with a driver that the next upgrade would change."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(states.install_driver, hosts))


@contextmanager
def several(start: Start, *flavors: str) -> Iterator[list[Host]]:
    with ExitStack() as stack:
        hosts = [stack.enter_context(start(flavor, with_doctor=False)) for flavor in flavors]
        yield sorted(hosts, key=lambda host: host.name)  # as an inventory is read


def test_waves_fix_and_undo_what_a_dry_run_only_shows(
    start: Start, fix: Fix, tmp_path: Path, control: Path
) -> None:
    with several(start, "ubuntu2404", "ubuntu2204", "rocky10") as hosts:
        with_driver(hosts)
        where = ("-i", inventory(tmp_path, *hosts))
        before = [Before.of(host) for host in hosts]

        dry = fix("fix", *where, *ONLY, "--dry-run", "--serial", "3")
        assert dry["exit_code"] in (0, 1)
        for planned in lines(dry).values():
            assert status(planned, "packages.not-locked") == "planned"
            assert any(step["diffs"] for step in planned["steps"])
        assert [then.left(host) for then, host in zip(before, hosts, strict=True)] == [{}, {}, {}]
        assert not (control / "fleet").exists()

        done = fix("fix", *where, *ONLY, "--serial", "1,2")
        assert [wave["hosts"] for wave in done["waves"]] == [
            [hosts[0].name],
            [hosts[1].name, hosts[2].name],
        ]
        for host in hosts:
            said = lines(done)[host.name]
            assert status(said, "packages.not-locked") == "verified", said
            assert said["changed"] > 0
            assert held(host)
            kinds = [record["what"] for record in journal(control, said)]
            assert kinds[0] == "started"
            assert kinds[-1] == "finished"
            assert host.exists(f"/var/lib/gpu-host-doctor/runs/{said['run']}/saved")
            assert (
                host.run("flock -n /var/lib/gpu-host-doctor/lock true", check=False).returncode == 0
            )

        again = fix("fix", *where, *ONLY, "--serial", "3")
        assert {host["changed"] for host in again["hosts"]} == {0}
        assert {step["status"] for host in again["hosts"] for step in host["steps"]} == set()

        fix("undo", done["fix"], *where, code=0)
        assert not any(held(host) for host in hosts)
        assert [then.left(host) for then, host in zip(before, hosts, strict=True)] == [{}, {}, {}]


def test_breaker_stops_at_a_host_without_rights(start: Start, fix: Fix, tmp_path: Path) -> None:
    with several(start, "ubuntu2404", "ubuntu2204", "rocky10") as hosts:
        with_driver(hosts)
        first, guest, last = hosts
        where = ("-i", inventory(tmp_path, *hosts, users={guest.name: "guest"}))
        before = Before.of(last)
        done = fix("fix", *where, *ONLY, "--serial", "1", code=3)
        said = lines(done)
        assert status(said[first.name], "packages.not-locked") == "verified"
        assert said[guest.name]["failed"]
        assert "sudo" in said[guest.name]["reason"]
        assert said[last.name]["state"] == "not-reached"
        assert done["waves"][-1]["tripped"]
        assert guest.name in done["stopped"]
        assert before.left(last) == {}

        done = fix("fix", *where, *ONLY, "--serial", "1", "--max-fail", "100%")
        said = lines(done)
        assert status(said[last.name], "packages.not-locked") == "verified"
        assert said[first.name]["changed"] == 0
        assert done["stopped"] == ""


def test_host_that_is_gone_is_said_and_its_neighbour_is_fixed(
    start: Start, fix: Fix, tmp_path: Path
) -> None:
    with several(start, "ubuntu2404", "ubuntu2204") as hosts:
        with_driver(hosts)
        where = ("-i", inventory(tmp_path, *hosts))
        gone, here = hosts
        with gone.offline():
            done = fix("fix", *where, *ONLY, "--serial", "2", "--max-fail", "50%", "--deadline", "20", code=3)  # fmt: skip
        said = lines(done)
        assert (said[gone.name]["state"], said[gone.name]["exit_code"]) == ("failed", 3)
        assert status(said[here.name], "packages.not-locked") == "verified"
        assert held(here)
        assert done["waves"][0]["failed"] == [gone.name]
        assert not done["waves"][0]["tripped"]


@pytest.mark.usefixtures("pinned")
def test_bare_hosts_get_their_driver_through_reboots_by_the_controller_wave_after_wave(
    start: Start, fix: Fix, tmp_path: Path, control: Path
) -> None:
    with several(start, "rocky9", "ubuntu2204", "ubuntu2404") as hosts:
        how = ("-i", inventory(tmp_path, *hosts, moving=True), "--serial", "1,2", "--allow", EVERYTHING)  # fmt: skip
        boots = [host.boot_id for host in hosts]
        watching = [threading.Thread(target=host.wait_for_reboot, args=(900,)) for host in hosts]
        for thread in watching:
            thread.start()
        done = fix("fix", *how)
        times = []
        for host, thread, boot in zip(hosts, watching, boots, strict=True):
            thread.join(60)
            said = lines(done)[host.name]
            assert status(said, "driver.not-installed") == "verified", json.dumps(said, indent=1)
            assert said["verdict_after"] in ("healthy", "degraded"), json.dumps(said, indent=1)
            assert host.boot_id != boot
            records = journal(control, said)
            assert "rebooted" in [record["what"] for record in records]
            times.append((records[0]["at"], records[-1]["at"]))
        assert done["exit_code"] == 0, json.dumps(done, indent=1)[:6000]
        assert times[0][1] < min(
            begun for begun, _ in times[1:]
        )  # the first proved it for the others
        assert {host["changed"] for host in fix("fix", *how)["hosts"]} == {0}
