"""What works now and breaks at the next boot or upgrade: a role takes the trap away before it shuts."""

from __future__ import annotations

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import states, traps
from tests.playbooks.standins.fixing import cured

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
FLAVORS = pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])


@pytest.mark.cures("packages.repository-unsigned", "packages.repository-other-release")
@pytest.mark.parametrize(
    "flavor",
    [pytest.param("ubuntu2404", marks=pytest.mark.cures("packages.repository-key")), "rocky9"],
)
def test_repositories_are_those_of_the_release_with_their_key(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        cured(host, traps.signatures_off)
        cured(host, traps.repository_of_another_release)
        if host.family == "debian":
            cured(host, traps.key_taken_away)
        host.run("apt-get -qq update" if host.family == "debian" else "dnf -q makecache")


@pytest.mark.cures("kernel.next-boot-no-module")
@pytest.mark.parametrize(
    "flavor",
    [pytest.param("ubuntu2404", marks=pytest.mark.cures("kernel.nouveau-returns")), "rocky9"],
)
def test_next_boot_has_its_module_and_no_nouveau(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        running = host.out("uname -r")
        cured(host, traps.kernel_without_module)
        if (
            host.family == "debian"
        ):  # on Rocky the running kernel's command line forbids nouveau too
            cured(host, traps.nouveau_allowed)
        host.reboot()
        assert host.out("uname -r") != running
        assert states.newest() in host.out("nvidia-smi")


@pytest.mark.cures("packages.two-driver-repositories")
@FLAVORS
def test_driver_comes_from_one_repository(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        cured(host, traps.driver_offered_twice)
