"""The stand-ins are what they stand in for: they boot, Ansible and the probes take them for the real thing, packages install offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.playbooks.conftest import LINUX, Start
from tests.playbooks.standins import states
from tests.playbooks.standins.host import Host
from tests.playbooks.standins.manifest import differences, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
ALL = (*LINUX, "wsl2")
Shared = Callable[[str], Host]
EXPECTED = {
    "ubuntu2204": ("Ubuntu", "22.04", "Debian", "apt"),
    "ubuntu2404": ("Ubuntu", "24.04", "Debian", "apt"),
    "wsl2": ("Ubuntu", "24.04", "Debian", "apt"),
    "rocky9": ("Rocky", "9.6", "RedHat", "dnf"),
    "rocky10": ("Rocky", "10.0", "RedHat", "dnf"),
}


@pytest.mark.parametrize("flavor", ALL)
def test_boots_with_systemd_and_no_failed_unit(shared: Shared, flavor: str) -> None:
    host = shared(flavor)
    assert host.read("/proc/1/comm").strip() == "systemd"
    assert host.out("systemctl --failed --no-legend") == ""
    assert host.run("systemctl is-system-running").stdout.strip() == "running"


@pytest.mark.parametrize("flavor", ALL)
def test_ansible_takes_it_for_the_distribution_over_ssh(
    shared: Shared, flavor: str, folder: Path
) -> None:
    host = shared(flavor)
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps(host.inventory(folder)))
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible")), "targets", "-i", str(inventory), "-m", "ansible.builtin.setup",
            "-a", "gather_subset=!all,!min,distribution,pkg_mgr,platform", "--tree", str(folder / "facts"),
        ],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "ANSIBLE_HOST_KEY_CHECKING": "True", "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads((folder / "facts" / host.name).read_text())["ansible_facts"]
    seen = tuple(
        facts[f"ansible_{name}"]
        for name in ("distribution", "distribution_version", "os_family", "pkg_mgr")
    )
    assert seen == EXPECTED[flavor]
    assert facts["ansible_kernel"] == host.out(["cat", "/proc/sys/kernel/osrelease"])


@pytest.mark.parametrize("flavor", LINUX)
def test_probe_sees_the_board_and_the_kernel_that_are_laid_out(shared: Shared, flavor: str) -> None:
    facts = shared(flavor).report()["facts"]
    assert isinstance(facts, dict)
    board = facts["pci"]["gpus"]["value"][0]
    assert (board["device"], board["driver"]["value"]) == ("2330", "nouveau")
    assert facts["host"]["container"]["value"] == "none"
    assert facts["kernel"]["running"]["value"] == facts["kernel"]["next_boot"]["value"]
    assert facts["kernel"]["modules"]["value"] == ["nouveau"]


@pytest.mark.parametrize("flavor", LINUX)
def test_bare_host_has_one_error_and_it_is_the_driver(shared: Shared, flavor: str) -> None:
    report = shared(flavor).report()
    rows = report["findings"]
    assert isinstance(rows, list)
    errors = [r["id"] for r in rows if r["outcome"] == "fail" and not r["blocked_by"]]
    assert errors == ["driver.not-installed"]
    assert isinstance(report["next"], dict)
    assert report["next"]["id"] == "driver.not-installed"


def test_wsl_host_is_healthy_through_the_windows_driver(shared: Shared) -> None:
    report = shared("wsl2").report()
    facts = report["facts"]
    assert isinstance(facts, dict)
    assert facts["host"]["hardware"]["value"] == "wsl2"
    rows = report["findings"]
    assert isinstance(rows, list)
    assert [r["id"] for r in rows if r["outcome"] == "fail"] == []
    assert [r["outcome"] for r in rows if r["id"] == "cuda.init-failed"] == ["pass"]


@pytest.mark.parametrize("flavor", LINUX)
def test_driver_installs_from_the_signed_mirror_and_answers_after_the_reboot(
    start: Start, flavor: str
) -> None:
    with start(flavor) as host:
        version = states.install_driver(host, reboot=False)
        assert host.run("nvidia-smi", check=False).returncode == 9
        assert host.out("modinfo -F version nvidia") == version
        first = host.boot_id
        host.reboot()
        assert host.boot_id != first
        assert "NVIDIA H100 80GB HBM3" in host.out("nvidia-smi -L")
        states.hold_driver(host)
        rows = host.findings()
        assert rows["cuda.init-failed"]["outcome"] == "pass"
        assert {name for name, row in rows.items() if row["outcome"] == "fail"} == set()


@pytest.mark.parametrize("flavor", LINUX)
def test_unsigned_and_wrongly_signed_packages_are_refused(shared: Shared, flavor: str) -> None:
    host = shared(flavor)
    url = states.repository(host)
    if host.family == "debian":
        host.write(
            "/etc/apt/sources.list.d/wrong.list",
            f"deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] {url} /\n",
        )
        done = host.run(
            "apt-get update -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/wrong.list -o Dir::Etc::sourceparts=-",
            check=False,
        )
        assert "NO_PUBKEY" in done.stderr + done.stdout
        host.run("rm /etc/apt/sources.list.d/wrong.list")
    else:
        key = f"file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-{'9' if flavor == 'rocky9' else '10'}"
        host.write(
            "/etc/yum.repos.d/wrong.repo",
            f"[wrong]\nname=wrong\nbaseurl={url}\nenabled=0\ngpgcheck=1\ngpgkey={key}\n",
        )
        done = host.run("dnf -q -y --repo wrong install libnccl", check=False)
        assert done.returncode == 1
        assert "GPG check FAILED" in done.stderr + done.stdout
        host.run("rm /etc/yum.repos.d/wrong.repo")


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
@pytest.mark.parametrize(
    "recipe",
    [
        states.nouveau_bound,
        states.library_mismatch,
        states.no_headers,
        states.no_toolkit,
        states.not_registered,
        states.unattended,
    ],
    ids=lambda recipe: recipe.__name__,
)
def test_planted_fault_is_the_finding(
    start: Start, flavor: str, recipe: Callable[[Host], str]
) -> None:
    with start(flavor) as host:
        planted = recipe(host)
        rows = host.findings()
        assert rows[planted]["outcome"] in ("fail", "warn"), rows[planted]
        assert rows[planted]["blocked_by"] is None
        first = [
            name for name, row in rows.items() if row["outcome"] == "fail" and not row["blocked_by"]
        ]
        assert first in ([], [planted])


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_engine_inside_runs_a_container_through_the_toolkit(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        states.install_docker(host)
        assert "nvidia" not in host.out("docker info -f '{{json .Runtimes}}'")
        states.install_toolkit(host)
        assert "nvidia" in host.out("docker info -f '{{json .Runtimes}}'")
        assert host.findings()["container.runtime-not-registered"]["outcome"] == "pass"


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_manifest_sees_every_kind_of_change_and_nothing_else(start: Start, flavor: str) -> None:
    with start(flavor, with_doctor=False) as host:
        before = manifest(host)
        assert differences(before, manifest(host)) == {}
        host.reboot()
        assert differences(before, manifest(host)) == {}
        host.run(
            "echo x >>/etc/fstab; chmod 600 /etc/profile; chown ops /etc/issue; ln -sfn nowhere /etc/standin/link; rm /etc/motd; mkdir /srv/new; setfattr -n user.x -v 1 /etc/shells 2>/dev/null || true"
        )
        changed = differences(before, manifest(host))
        assert {
            "/etc/fstab",
            "/etc/profile",
            "/etc/issue",
            "/etc/standin/link",
            "/etc/motd",
            "/srv/new",
        } <= changed.keys()
        assert len(changed) <= 7
