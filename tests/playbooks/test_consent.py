"""Nothing that runs is disturbed unasked, root runs nothing that others can write, and two runs do not meet."""

from __future__ import annotations

import subprocess

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import Before, fix
from tests.playbooks.standins.host import DOCTOR, Host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
SLEEPER = """
set -e
mkdir -p /tmp/image/bin /tmp/image/lib64 /tmp/image/lib/x86_64-linux-gnu
cp /bin/sleep /tmp/image/bin
cp -L /lib64/ld-linux-x86-64.so.2 /tmp/image/lib64
cp -L /lib/x86_64-linux-gnu/libc.so.6 /tmp/image/lib/x86_64-linux-gnu
tar -C /tmp/image -c . | docker import - tiny:1 >/dev/null
docker run -d --name workload tiny:1 /bin/sleep 100000 >/dev/null
"""


def run_a_container(host: Host) -> None:
    """A container of the owner's."""
    host.run(SLEEPER)


def test_running_container_stops_the_fix_until_service_is_allowed(start: Start) -> None:
    with start("ubuntu2404") as host:
        planted = states.not_registered(host)
        states.hold_driver(host)
        host.run("rm /etc/docker/daemon.json && systemctl restart docker")
        run_a_container(host)
        before = Before.of(host)
        done = fix(host)
        assert done.code == 5, done.failures()
        assert [item["allow"] for item in done.data["stopped"]] == ["service"]
        assert "workload" in done.data["stopped"][0]["why"]
        assert host.out("docker ps --format '{{.Names}}'") == "workload"
        assert before.left(host) == {}
        done = fix(host, "--allow", "service")
        assert done.findings()[planted] == "verified", done.failures()


def test_process_on_the_gpu_stops_what_would_disturb_the_driver(start: Start) -> None:
    with start("ubuntu2404") as host:
        states.library_mismatch(host)
        host.run(
            "touch /dev/nvidia-held; setsid -f sleep 10000 3</dev/nvidia-held >/dev/null 2>&1 </dev/null"
        )
        done = fix(host)
        assert done.code == 5, done.failures()
        assert any("sleep" in item["why"] for item in done.data["stopped"]), done.failures()


@pytest.mark.parametrize("what", ["matrices/gpus.yml", "playbooks/remedy.yml", "__init__.py"])
def test_root_refuses_what_a_user_could_have_written(start: Start, what: str) -> None:
    with start("rocky9") as host:
        host.run(
            "cp -a /opt/gpu-host-doctor /opt/mine && sed -i '1s,/opt/gpu-host-doctor,/opt/mine,' /opt/mine/bin/doctor"
        )
        inside = "" if what.startswith("__") else "_data/"
        path = host.out(f"echo /opt/mine/lib/python3*/site-packages/doctor/{inside}{what}")
        for change in (f"chmod o+w {path}", f"chmod o-w {path} && chown guest {path}"):
            host.run(change)
            done = host.run(["/opt/mine/bin/doctor", "--fix"], check=False)
            assert done.returncode == 2, done.stdout + done.stderr
            assert path in done.stderr
            assert "pip install" in done.stderr


def test_second_run_waits_or_says_who_is_at_work(start: Start) -> None:
    with start("ubuntu2404") as host:
        first = subprocess.Popen(
            ["docker", "exec", "-e", "container=", host.name, DOCTOR, "--fix", "--no-smoke"],
            env=host.engine.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        host.run(
            "for n in $(seq 100); do ls /var/lib/gpu-host-doctor/runs/*/plan.json >/dev/null 2>&1 && break; sleep 0.2; done"
        )
        second = host.doctor("--fix", "--no-smoke", timeout=300)
        assert "is changing this host" in second.stderr, second.stderr
        assert second.returncode in (0, 1, 4, 5)
        assert first.wait(timeout=300) in (0, 1, 4, 5)


def test_sudo_that_asks_for_a_password_is_said_and_nothing_is_changed(start: Start) -> None:
    with start("ubuntu2404") as host:
        before = Before.of(host)
        for user in ("asked", "guest"):
            done = fix(host, user=user)
            assert done.code == 4, done.failures()
            assert "sudo" in done.failures()
        left = {
            path: change
            for path, change in before.left(host).items()
            if not path.startswith("/home/")
        }
        assert left == {}


def test_user_with_sudo_fixes_the_same(start: Start) -> None:
    with start("ubuntu2404") as host:
        states.install_driver(host)
        done = fix(host, user="ops")
        assert done.findings()["packages.not-locked"] == "verified", done.failures()
        assert "nvidia-open" in host.out("apt-mark showhold")
