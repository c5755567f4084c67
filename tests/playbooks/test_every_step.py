"""A whole plan, each of its steps killed as it begins and again at work: every resume goes on, the end is verified, and undo leaves nothing."""

from __future__ import annotations

import json

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import RUNS, Before, fix, parsed, undo
from tests.playbooks.standins.host import DOCTOR, Host
from tests.playbooks.standins.killing import kill_next

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
EVERYTHING = "service,gpu,reboot,irreversible"
FLAGS = ["--no-smoke", "--allow", EVERYTHING, "--format", "json"]
OWN = {"log-opts": {"max-size": "10m"}}
WANTS = {
    "debian": ["--want", "container", "--want", "cuda"],
    "rhel": ["--want", "container", "--want", "driver"],
}
"""Rocky's stub of the CUDA toolkit does not own its folders, and rpm then leaves them."""
DRIVER = {"nvidia_repo", "nouveau_off", "nvidia_driver", "container_toolkit", "shm"}
STEPS = {"debian": DRIVER | {"container_engine", "cuda_toolkit"}, "rhel": DRIVER}
"""At the least."""


def wanting(host: Host) -> None:
    """More than a driver is wrong: shared memory is small at every boot, an old NCCL needs it, and Docker has settings of the owner's."""
    library = f"{states.LIB[host.family]}/libnccl.so.2"
    host.run(f"touch {library}.21.5 && ln -s libnccl.so.2.21.5 {library}")
    host.run("echo 'tmpfs /dev/shm tmpfs size=64m,nosuid,nodev 0 0' >>/etc/fstab")
    host.run("mount -o remount,size=64m /dev/shm")
    host.write("/etc/docker/daemon.json", json.dumps(OWN) + "\n")
    if host.family == "rhel":
        states.install_docker(host)  # its own is podman


def doctor(*argv: str) -> list[str]:
    """The command, with what was allowed."""
    return [DOCTOR, *argv, *FLAGS]


def killed_at_every_step(host: Host) -> list[tuple[str, str]]:
    """Fix, kill, resume, kill, ... until a resume comes to the end; the reboot in the middle is the host's own."""
    killed: list[tuple[str, str]] = []
    command = doctor("--fix", *WANTS[host.family])
    for _ in range(60):
        ended = kill_next(host, command, killed)
        if ended.moment is None and '"rebooting":true' in ended.said.replace(" ", ""):
            since = float(host.out("date +%s.%N"))
            host.wait_for_reboot(booted=False)
            ended = kill_next(host, [], killed, since=since)  # the one-shot unit goes on
            host.wait()
            if ended.moment is None:
                return killed
        if ended.moment is None:
            if ended.code == 0:
                return killed
            raise AssertionError(f"{killed}\n{ended.said.partition(chr(10) + '{')[0]}")
        killed.append(ended.moment)
        command = doctor("fix", "--yes", "--resume")
    raise AssertionError(f"it does not come to an end: {killed}")


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_every_step_is_killed_twice_and_nothing_is_lost(start: Start, flavor: str) -> None:
    with start(flavor, gpus=2) as host:
        wanting(host)
        before = Before.of(host)
        killed = killed_at_every_step(host)
        [run] = host.out(f"ls {RUNS}").split()
        done = host.doctor("runs", "show", run, "--format", "json")
        report = parsed(host, done.returncode, done.stdout, done.stderr)
        stand = report.steps()
        assert report.code == 0, report.failures()
        assert set(stand.values()) <= {"verified", "not-applied"}, report.failures()

        lines = host.read(f"{RUNS}/{run}/journal.jsonl").splitlines()
        journal = [json.loads(line) for line in lines]
        assert (journal[0]["what"], journal[-1]["what"]) == ("started", "finished")
        assert journal[-1]["state"] == "done"
        begun = {record["step"] for record in journal if record["what"] == "step-begun"}
        assert begun >= STEPS[host.family]
        assert {id for id, status in stand.items() if status == "verified"} <= begun
        assert set(report.findings().values()) == {"verified"}, report.failures()
        assert {step for step, moment in killed if moment == "begun"} == begun
        assert {step for step, moment in killed if moment == "at work"} == begun

        again = fix(host, *WANTS[host.family], "--allow", EVERYTHING)
        assert again.changed() == 0, again.failures()
        assert OWN.items() <= json.loads(host.read("/etc/docker/daemon.json")).items()
        undo(host, run, "--allow", EVERYTHING)
        host.reboot()
        assert host.findings()["driver.not-installed"]["outcome"] == "fail"
        assert before.left(host) == {}
