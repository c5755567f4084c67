"""Each role on a host that needs it: the finding goes, the rest stays, and undo brings it back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import faults, states
from tests.playbooks.standins.fixing import Fixed, after_reboot, fix, undo
from tests.playbooks.standins.host import B200, Host, gpu_table

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
EVERYTHING = "service,gpu,reboot,irreversible"
FLAVORS = pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
Fault = Callable[[Host], set[str]]


def wrong(host: Host) -> set[str]:
    """Errors and warnings that nothing else explains."""
    return {
        name
        for name, row in host.findings().items()
        if row["outcome"] in ("fail", "warn") and row["blocked_by"] is None
    }


def only(findings: set[str]) -> list[str]:
    return [word for name in sorted(findings) for word in ("--only", name)]


def cured(host: Host, *plants: Fault, session: str = "") -> Fixed:
    """Plant, see, fix, see that nothing is left to do."""
    planted = {name for plant in plants for name in plant(host)}
    with host.session(session):
        assert planted <= wrong(host)
        done = fix(host, *only(planted), "--allow", EVERYTHING)
        if done.code == 5:
            done = after_reboot(host, done.run)
        states_of = {name: done.findings().get(name) for name in planted}
        assert set(states_of.values()) == {"verified"}, (states_of, done.failures())
        assert not planted & wrong(host)
        again = fix(host, *only(planted), "--allow", EVERYTHING)
        assert again.changed() == 0, again.failures()
    return done


@pytest.mark.parametrize("flavor", ["ubuntu2404"])
def test_containers_get_their_devices(start: Start, flavor: str) -> None:
    with start(flavor, gpus=2) as host:
        states.install_driver(host)
        states.install_docker(host)
        states.install_toolkit(host)
        cured(host, faults.cdi_of_another_driver)
        cured(host, faults.cdi_of_files_that_went)
        done = cured(host, faults.docker_of_before)
        undo(host, done.run, "--allow", EVERYTHING)
        assert "container.no-cgroups" in wrong(host)
        fix(host, "--only", "container.no-cgroups", "--allow", EVERYTHING)
        cured(host, faults.systemd_without_links)


@FLAVORS
def test_fabric_manager_is_the_drivers_and_runs(start: Start, flavor: str) -> None:
    with start(flavor, files={"/etc/standin/switches": "0000:1c:00.0\n"}) as host:
        states.install_driver(host)
        done = cured(host, lambda host: {"fabric.manager-missing"})
        assert host.findings()["fabric.not-ready"]["outcome"] == "pass"

        def stopped(host: Host) -> set[str]:
            host.run("systemctl disable -q --now nvidia-fabricmanager")
            return {"fabric.manager-not-running"}

        cured(host, stopped)
        undo(host, done.run, "--allow", EVERYTHING)
        host.run("systemctl disable -q --now nvidia-fabricmanager || true")
        assert "fabric.manager-missing" in wrong(host)

        def another_version(host: Host) -> set[str]:
            old = states.driver_versions()["archive"][-1]
            host.install(
                f"nvidia-fabricmanager={old}-0ubuntu1"
                if host.family == "debian"
                else f"nvidia-fabricmanager-{old}"
            )
            return {"fabric.manager-version"}

        cured(host, another_version)


@FLAVORS
def test_boards_that_only_open_modules_drive_get_them(start: Start, flavor: str) -> None:
    with start(flavor, files={"/etc/standin/gpus": gpu_table(1, B200)}) as host:
        version = states.driver_versions()["archive"][-1]
        states.add_cuda_repository(host)
        if host.family == "debian":
            host.write(
                "/run/standin/pins",
                f"Package: *nvidia* *cuda*\nPin: version {version}-*\nPin-Priority: 1001\n",
            )
            host.run(
                "apt-get -qq -y -o Dir::Etc::preferences=/run/standin/pins install cuda-drivers-580"
            )
        else:
            if flavor == "rocky9":
                host.run("dnf -q -y module enable nvidia-driver:580-dkms")
            host.run(f"dnf -q -y install cuda-drivers-3:{version}")
        host.reboot()
        cured(host, lambda host: {"driver.wrong-module-flavor"})
        assert "NVIDIA B200" in host.out("nvidia-smi -L")


@pytest.mark.parametrize("flavor", ["rocky9", "rocky10"])
def test_dnf_shows_the_driver_and_what_it_needs(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        code = states.CODES[flavor]
        states.fetch(
            host,
            f"{states.repository(host)}/cuda-{code}.repo",
            f"/etc/yum.repos.d/cuda-{code}.repo",
        )
        planted = wrong(host) & {"packages.modular-filtering", "packages.dkms-too-old"}
        assert planted == {
            "packages.dkms-too-old" if flavor == "rocky9" else "packages.modular-filtering"
        }
        done = fix(host, "--allow", EVERYTHING)
        assert done.code == 5, done.failures()
        done = after_reboot(host, done.run)
        assert done.code == 0, done.failures()
        assert {done.findings()[name] for name in planted} == {"verified"}, done.failures()
        assert not wrong(host) & {"packages.modular-filtering", "packages.dkms-too-old"}
