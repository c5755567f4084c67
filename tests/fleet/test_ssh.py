"""Twenty real sshd hosts of four distributions with different faults, and hosts that misbehave behind sshd: one audit finds each, fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.spent import Spent
from tests.fleet.sshd import Plan, started
from tests.playbooks.standins.engine import engine, missing
from tests.playbooks.standins.fleet import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
FLAVORS = ("ubuntu2204", "ubuntu2404", "rocky9", "rocky10")
FORKS = 20
SHARE = 0.6
"""Of what Ansible's own look at the same hosts takes."""
PAIRS = 3
QUIET = 0.1
"""Share of the machine that others may take while the clock is held to."""
LIES = {
    "hangs": "sleep 600",
    "floods": "head -c 100000000 /dev/zero | tr '\\000' x",
    "no-json": "echo 'doctor-probe/1 x y'",
    "drops": "echo doctor-probe; kill -9 $PPID",
}
"""What a host does instead of running the probe."""
LIAR = """#!/bin/bash
case "$2" in *--answer*) {instead}; exit;; esac
exec /bin/bash "$@"
"""
BARE = "mkdir /gone; for place in /usr/bin /usr/local/bin; do mv $place/python3* /gone 2>/dev/null; done; true"


def plans() -> list[Plan]:
    """Five hosts of each distribution, each with another fault."""
    found = []
    for flavor in FLAVORS:
        found += [
            Plan(f"{flavor}-no-gpu", flavor, "gpu.not-on-bus", gpus=0),
            Plan(f"{flavor}-no-driver", flavor, "driver.not-installed"),
            Plan(
                f"{flavor}-nouveau",
                flavor,
                "driver.gpu-held-by-other-module",
                driver=True,
                files={"/etc/standin/kept-modules": "nouveau\n"},
            ),
            Plan(
                f"{flavor}-secure-boot",
                flavor,
                "driver.module-refused",
                driver=True,
                files={"/etc/standin/secure-boot": "on\n"},
            ),
            Plan(f"{flavor}-shm", flavor, "shm.size", driver=True, gpus=2),
        ]
    return found


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with engine() as running:
        yield Fleet(running, tmp_path_factory.mktemp("keys"))


def environment(folder: Path) -> dict[str, str]:
    """A person's, with a state folder of the test's own."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE")},
        "XDG_STATE_HOME": str(folder),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
    }


def audit(folder: Path, *more: str) -> tuple[dict[str, Any], float]:
    code = (
        "import sys; from pathlib import Path; from doctor.remedy import state;"
        f"state.ROOT = Path({str(folder / 'state')!r});"
        "from doctor.cli.main import main; main(sys.argv[1:])"
    )
    began = time.monotonic()
    done = subprocess.run(
        [
            sys.executable, "-c", code, "fleet", "audit", "-i", str(folder / "inventory.json"), "-o", str(folder / "out"),
            "--forks", str(FORKS), "--format", "json", *more,
        ],
        capture_output=True, text=True, env=environment(folder), timeout=300,
    )  # fmt: skip
    spent = time.monotonic() - began
    assert done.stdout, done.stderr
    return json.loads(done.stdout), spent


def setup(folder: Path) -> float:
    """Ansible's own look at the same hosts, with connections of its own: none is left from before."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cp-") as sockets:
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("ansible")), "all", "-i", str(folder / "inventory.json"),
                "-m", "ansible.builtin.setup", "--forks", str(FORKS),
            ],
            capture_output=True, text=True, timeout=300,
            env={**environment(folder), "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets},
        )  # fmt: skip
        spent = time.monotonic() - began
        for socket in Path(sockets).iterdir():
            subprocess.run(
                ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "x"],
                capture_output=True,
                check=False,
            )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return spent


def test_twenty_hosts_of_four_distributions_and_the_time_it_takes(
    stand: Fleet, tmp_path: Path
) -> None:
    asked = plans()
    with started(stand, asked, tmp_path) as hosts:
        spent = Spent(stand.engine, [host.name for host in hosts.values()])
        with spent.on("setup"):
            setup(tmp_path)
        with spent.on("audit"):
            fleet, _ = audit(tmp_path)
        _is_right(fleet, asked)
        for _ in range(PAIRS - 1):
            with spent.on("setup"):
                setup(tmp_path)
            with spent.on("audit"):
                audit(tmp_path)
    print(spent)
    assert spent.processor("audit") <= SHARE * spent.processor("setup"), spent
    if spent.others < QUIET:  # else the clock says what others did
        assert spent.clock("audit") <= SHARE * spent.clock("setup"), spent


def _is_right(fleet: dict[str, Any], asked: list[Plan]) -> None:
    assert fleet["counts"]["audited"] == len(asked), fleet["counts"]
    wrong = {}
    for plan in asked:
        line = next(item for item in fleet["hosts"] if item["name"] == plan.name)
        said = {item["id"] for item in line["findings"] if item["outcome"] in ("fail", "warn")}
        if plan.finding not in said:
            wrong[plan.name] = (plan.finding, line["verdict"], sorted(said))
        assert line["groups"] == [plan.flavor]
        assert line["said_name"] == plan.name
    assert wrong == {}
    assert fleet["verdict"] == "broken"


def test_hosts_that_misbehave_behind_sshd(stand: Fleet, tmp_path: Path) -> None:
    asked = [
        Plan(
            name,
            "ubuntu2404",
            files={"/usr/bin/liar": LIAR.format(instead=what)},
            after="chmod 755 /usr/bin/liar && usermod -s /usr/bin/liar root",
        )
        for name, what in LIES.items()
    ]
    asked += [Plan("no-python", "ubuntu2404", after=BARE), Plan("honest", "ubuntu2404")]
    asked += [
        Plan("paused", "ubuntu2404"),
        Plan("gone", "ubuntu2404"),
        Plan("other-key", "ubuntu2404"),
    ]
    with started(stand, asked, tmp_path) as hosts:
        stand.engine.run("pause", hosts["paused"].name)
        stand.engine.run("kill", hosts["gone"].name)
        address = hosts["other-key"].address
        known = tmp_path / "known_hosts"
        known.write_text(
            "".join(
                line
                for line in known.read_text().splitlines(True)
                if not line.startswith(f"{address} ")
            )
        )
        fleet, spent = audit(tmp_path, "--deadline", "25")
        stand.engine.run("unpause", hosts["paused"].name)
        left = hosts["honest"].out(
            "ls -A /tmp /root/.ansible 2>/dev/null | grep -c -e doctor -e ansible-tmp || true"
        )
    stands = {line["name"]: (line["state"], line.get("reason", "")) for line in fleet["hosts"]}
    assert stands["honest"][0] == "audited"
    assert left == "0"
    assert stands["hangs"][0] == "late"
    assert stands["floods"][0] in ("refused", "late")  # Ansible takes its time over 100 MB
    assert stands["no-json"][0] == "refused"
    assert stands["drops"][0] in ("unreachable", "failed", "refused")
    assert stands["no-python"][0] == "failed" and "needs Python 3.9" in stands["no-python"][1]
    assert stands["paused"][0] in ("unreachable", "late")
    assert stands["gone"][0] == "unreachable"
    assert (
        stands["other-key"][0] == "unreachable"
        and "key verification failed" in stands["other-key"][1]
    )
    for line in fleet["hosts"]:
        if line["name"] != "honest":
            assert (line.get("verdict", "unknown"), line.get("exit_code", 3)) == ("unknown", 3)
    assert spent < 25 + 60
