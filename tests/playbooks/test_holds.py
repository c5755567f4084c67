"""The owner's holds stay, those of before a run and those made since; ours come with the run and go with its undo."""

from __future__ import annotations

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import fix, undo
from tests.playbooks.standins.host import Host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
LIST = "/etc/dnf/plugins/versionlock.list"


def held(host: Host) -> set[str]:
    """Names of packages that are held, whoever did it."""
    if host.family == "debian":
        return set(host.out("apt-mark showhold").split())
    names = host.out("rpm -qa --qf '%{NAME}\\n'").split()
    lines = [line for line in host.read(LIST).splitlines() if line and not line.startswith("#")]
    return {
        name
        for name in names
        if any(line.startswith(f"{name}-0:") or line.startswith(f"{name}-3:") for line in lines)
    }


def hold(host: Host, name: str) -> None:
    """As the owner does it."""
    host.run(
        f"apt-mark hold {name}" if host.family == "debian" else f"dnf -q versionlock add {name}"
    )


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky10"])
def test_holds_of_the_owner_outlive_the_run_and_its_undo(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        states.install_driver(host)
        if host.family == "rhel":
            host.install("python3-dnf-plugin-versionlock")
        hold(host, "nvidia-persistenced")
        before = host.read(LIST) if host.family == "rhel" else ""
        done = fix(host)
        assert done.findings()["packages.not-locked"] == "verified", done.failures()
        ours = held(host) - {"nvidia-persistenced"}
        assert "nvidia-open" in ours
        hold(host, "dkms")
        undo(host, done.run)
        assert held(host) == {"nvidia-persistenced", "dkms"}
        if host.family == "rhel":
            left = host.read(LIST)
            assert left.startswith(before)
            assert "dkms" in left.removeprefix(before)
            assert "nvidia" not in left.removeprefix(before)
        assert host.findings()["packages.not-locked"]["outcome"] == "warn"
