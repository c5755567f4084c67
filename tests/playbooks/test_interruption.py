"""A step killed half way, and a host that cannot give what a step needs: resumable, or left as it was, and said."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import RUNS, Fixed, after_reboot, fix, parsed
from tests.playbooks.standins.host import DOCTOR, Host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
EVERYTHING = "service,gpu,reboot,irreversible"


def kill_in(host: Host, step: str, seconds: float) -> bool:
    """Start a fix, and kill all of it `seconds` after a step has begun. Whether it was still at work."""
    started = subprocess.Popen(
        ["docker", "exec", "-e", "container=", host.name, DOCTOR, "--fix", "--no-smoke", "--allow", EVERYTHING],
        env=host.engine.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait = f"""for n in $(seq 600); do
      grep -h '"step-begun"' {RUNS}/*/journal.jsonl 2>/dev/null | grep -q '"{step}"' && break; sleep 0.1
    done"""
    host.run(wait)
    time.sleep(seconds)
    alive = started.poll() is None
    host.run(
        "pkill -9 -f '[g]pu-host-doctor/bin' ; pkill -9 -f '[a]nsible' ; pkill -9 -x apt-get; pkill -9 -x dpkg; pkill -9 -x dnf; true"
    )
    started.wait(timeout=60)
    return alive


@pytest.mark.parametrize(
    ("flavor", "step", "seconds"),
    [
        ("ubuntu2404", "nvidia_repo", 0.5),
        ("ubuntu2404", "nvidia_driver", 1.0),
        ("ubuntu2404", "nvidia_driver", 4.0),
        ("rocky9", "nvidia_driver", 2.0),
        ("rocky9", "nouveau_off", 1.0),
    ],
)
def test_killed_step_is_finished_by_resume(
    start: Start, flavor: str, step: str, seconds: float
) -> None:
    with start(flavor) as host:
        kill_in(host, step, seconds)
        refused = host.doctor("--fix", "--allow", EVERYTHING)
        if refused.returncode == 5 and "interrupted" in refused.stderr:
            assert "--resume" in refused.stderr
        done = host.doctor(
            "fix", "--yes", "--resume", "--allow", EVERYTHING, "--format", "json", timeout=420
        )
        ended = parsed(host, done.returncode, done.stdout, done.stderr)
        if ended.code == 5:
            ended = after_reboot(host, ended.run)
        assert ended.code == 0, ended.failures()
        assert ended.findings()["driver.not-installed"] == "verified"
        if host.family == "debian":
            assert host.out("dpkg --audit") == ""
        assert fix(host, "--allow", EVERYTHING).changed() == 0


def network_dead(host: Host) -> None:
    """No way out. (Disconnected by the caller.)"""


def disk_full(host: Host) -> None:
    """Where packages are downloaded there is no room."""
    cache = "/var/cache/apt/archives" if host.family == "debian" else "/var/cache/dnf"
    host.run(
        f"mount -t tmpfs -o size=64k tmpfs {cache} && dd if=/dev/zero of={cache}/full bs=1k count=60 status=none"
    )


def etc_read_only(host: Host) -> None:
    """/etc cannot be written."""
    host.run("mount --bind /etc /etc && mount -o remount,bind,ro /etc")


def repository_broken(host: Host) -> None:
    """A repository of the owner's that does not answer."""
    if host.family == "debian":
        host.write(
            "/etc/apt/sources.list.d/own.list",
            "deb [trusted=yes] http://archive.ubuntu.com/not-there ./\n",
        )
    else:
        host.write(
            "/etc/yum.repos.d/own.repo",
            "[own]\nname=own\nbaseurl=https://dl.rockylinux.org/not-there\nenabled=1\ngpgcheck=0\n",
        )


CURES = {
    network_dead: "true",
    disk_full: "umount /var/cache/apt/archives 2>/dev/null || umount /var/cache/dnf",
    etc_read_only: "umount /etc",
    repository_broken: "rm -f /etc/apt/sources.list.d/own.list /etc/yum.repos.d/own.repo",
}
"""What its owner does about each; then the next run goes through."""


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
@pytest.mark.parametrize(
    "trouble",
    [network_dead, disk_full, etc_read_only, repository_broken],
    ids=lambda item: item.__name__,
)
def test_trouble_is_a_failed_step_with_its_reason(
    start: Start, flavor: str, trouble: Callable[[Host], None]
) -> None:
    with start(flavor) as host:
        trouble(host)
        packages = host.packages()
        if trouble is network_dead:
            with host.offline():
                done = fix(host, "--allow", EVERYTHING)
        else:
            done = fix(host, "--allow", EVERYTHING)
        if trouble is repository_broken and done.code == 5:
            return  # one repository that does not answer need not stop the others
        assert done.code == 4, done.failures()
        failed = [row for row in done.data["steps"] if row["status"] == "failed"]
        assert failed, done.failures()
        assert failed[0]["failures"][0].strip(), done.failures()
        assert "Traceback" not in json.dumps(done.data["steps"])
        assert not any("nvidia-driver" in name for name in host.packages().keys() - packages.keys())
        host.run(CURES[trouble])
        after = fix(host, "--allow", EVERYTHING)
        assert after.code == 5, after.failures()  # it failed and did not reboot; now it does
        assert after.data["stopped"][0]["rebooting"], after.failures()


def test_wrong_key_is_refused_before_a_package_is_looked_at(start: Start) -> None:
    """The matrix's real fingerprints, and a mirror whose key is another one."""
    with start("ubuntu2404") as host:
        host.run(
            "cp -a /opt/gpu-host-doctor /opt/real && sed -i '1s,/opt/gpu-host-doctor,/opt/real,' /opt/real/bin/doctor"
        )
        rows = host.out(
            "echo /opt/real/lib/python3*/site-packages/doctor/_data/matrices/repositories.yml"
        )
        host.run(
            f"sed -i 's/fingerprint: \"*[0-9A-F]\\{{40\\}}\"*/fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC/' {rows}"
        )
        packages = host.packages()
        done = host.run(
            [
                "/opt/real/bin/doctor",
                "--fix",
                "--no-smoke",
                "--format",
                "json",
                "--allow",
                EVERYTHING,
            ],
            check=False,
        )
        ended = parsed(host, done.returncode, done.stdout, done.stderr)
        assert ended.code == 4, ended.failures()
        assert "EB693B3035CD5710E231E123A4B469963BF863CC" in ended.failures()
        assert host.packages() == packages
        for folder in ("/usr/share/keyrings", "/etc/apt"):
            assert "nvidia" not in host.out(f"find {folder}")


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_package_that_the_owner_holds_is_left(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        old = states.driver_versions()["archive"][0]
        states.install_driver(host, old)
        states.hold_driver(host)
        held = host.packages()
        done: Fixed = fix(host, "--allow", EVERYTHING, "--want", f"driver=={states.newest()}")
        assert done.code == 4, done.failures()
        assert done.steps()["release_hold"] == "failed"
        assert "only its owner lifts a hold" in done.failures()
        assert {name: v for name, v in host.packages().items() if "nvidia" in name} == {
            name: v for name, v in held.items() if "nvidia" in name
        }, done.failures()
