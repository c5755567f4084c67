"""A host without a network is fixed from a folder that the doctor's own list filled elsewhere; vendors' keys are pinned as ever."""

from __future__ import annotations

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins.fixing import Before, fix, undo
from tests.playbooks.standins.host import NETWORK, Host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]
EVERYTHING = "service,gpu,reboot,irreversible"
FOLDER = "/srv/folder"


def fill(host: Host) -> None:
    """What `doctor plan --offline-list` prints, run where there is a network; here that is a stand-in of the same release."""
    script = host.doctor("plan", "--offline-list").stdout
    assert "get https://developer.download.nvidia.com" in script
    host.write("/root/get.sh", script)
    indexer = "/usr/local/bin/createrepo_c"
    if (
        host.family == "rhel"
    ):  # the stand-ins' mirror has none to install; its own makes the index below
        host.write(indexer, "#!/bin/sh\nexit 0\n", 0o755)
    host.run(f"mkdir -p {FOLDER} && cd {FOLDER} && sh /root/get.sh", timeout=600)
    if host.family == "rhel":
        host.run(["rm", indexer])
        _index(host)
    host.run(f"chown -R root:root {FOLDER} && chmod -R go-w {FOLDER} && rm -f /root/get.sh")


def _index(host: Host) -> None:
    """An index of packages/, made by the mirror's tool."""
    engine, mirror = host.engine, NETWORK + "-mirror"
    place = f"/tmp/{host.name}"
    engine.run("exec", mirror, "mkdir", "-p", place)
    packed = host.run(f"tar -C {FOLDER}/packages -c . | base64 -w0").stdout
    engine.run("exec", "-i", mirror, "sh", "-c", f"base64 -d | tar -C {place} -x", input=packed)
    engine.run("exec", mirror, "createrepo_c", "--quiet", place)
    made = engine.run("exec", mirror, "sh", "-c", f"tar -C {place} -c repodata | base64 -w0").stdout
    host.run(f"base64 -d | tar -C {FOLDER}/packages -x", input=made)
    engine.run("exec", mirror, "rm", "-r", place)


def _digests(host: Host) -> str:
    return host.out(f"find {FOLDER} -type f -exec sha256sum {{}} + | sort")


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_bare_host_gets_its_driver_from_the_folder_and_nothing_else(
    start: Start, flavor: str
) -> None:
    with start(flavor) as host:
        if host.family == "rhel":
            host.install("epel-release")  # as on the machine that fetches; it is installed here too
            host.run("rpm -e epel-release")
        fill(host)
        before, digests = Before.of(host), _digests(host)
        with host.offline():
            done = fix(host, "--offline", FOLDER, "--allow", EVERYTHING)
            assert done.code == 5, done.failures()
            assert done.data["stopped"][0]["rebooting"], done.failures()
            host.wait_for_reboot()
            shown = host.doctor("runs", "show", done.run, "--wait", "300", timeout=420)
            assert shown.returncode == 0, shown.stdout
            assert host.findings()["driver.not-installed"]["outcome"] == "pass"
            named = host.out(
                "cat /etc/apt/sources.list.d/cuda*.list /etc/yum.repos.d/cuda*.repo 2>/dev/null || :"
            )
            assert f"file://{FOLDER}/developer.download.nvidia.com" in named
            assert "https://developer" not in named
            undo(host, done.run, "--allow", EVERYTHING)
            host.reboot()
            assert host.findings()["driver.not-installed"]["outcome"] == "fail"
        assert _digests(host) == digests
        # dnf notes the checksum of a package that it took from a folder in an attribute of the file
        left = before.left(host)
        assert [path for path in left if not path.startswith(f"{FOLDER}/")] == [], left


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_key_of_somebody_elses_in_the_folder_is_refused(start: Start, flavor: str) -> None:
    with start(flavor) as host:
        fill(host)
        host.run(
            "export GNUPGHOME=$(mktemp -d); gpg --batch --quiet --passphrase '' --quick-generate-key x rsa2048 sign never 2>/dev/null;"
            f" for key in $(find {FOLDER}/developer.download.nvidia.com -name '*.pub'); do gpg --armor --export x > $key; done"
        )
        packages = host.packages()
        with host.offline():
            done = fix(host, "--offline", FOLDER, "--allow", EVERYTHING)
        assert done.code == 4, done.failures()
        assert "is pinned: nothing was written" in done.failures()
        assert host.packages() == packages


def test_folder_that_a_user_can_write_is_refused(start: Start) -> None:
    with start("ubuntu2404") as host:
        host.run(f"mkdir -p {FOLDER}/packages && chmod o+w {FOLDER}/packages")
        done = host.doctor("--fix", "--offline", FOLDER)
        assert done.returncode == 2
        assert f"{FOLDER}/packages" in done.stderr
