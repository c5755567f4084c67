"""Commands per family: exact, quoted, and never a guess on a host that was not seen."""

from __future__ import annotations

import pytest

from doctor.checks.areas.advice import (
    blacklist,
    build_module,
    headers_package,
    hold,
    install,
    install_headers,
    rebuild_initramfs,
    remove,
    where,
)
from doctor.facts.areas.host import HostFacts
from doctor.facts.model import Known, Unknown
from doctor.facts.tree import Facts


def host(ident: str, version: str, like: str = "", container: str = "none") -> Facts:
    text = f'ID="{ident}"\nVERSION_ID="{version}"\nID_LIKE="{like}"\n'
    return Facts(host=HostFacts(os_release=Known(value=text), container=Known(value=container)))


UBUNTU = host("ubuntu", "24.04", "debian")
ROCKY = host("rocky", "9.6", "rhel centos fedora")
SLES = host("sles", "15.6")


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (UBUNTU, "sudo apt-get install -y gcc-12"),
        (ROCKY, "sudo dnf install -y gcc-12"),
        (SLES, "sudo zypper install -y gcc-12"),
    ],
)
def test_install(facts: Facts, line: str) -> None:
    assert install(facts, "gcc-12") == line


def test_names_of_a_strangers_host_are_quoted() -> None:
    assert "'x; reboot'" in install(UBUNTU, "x; reboot")
    assert "'$(id)'" in remove(ROCKY, "$(id)")
    assert "'a b'" in build_module("a b")
    assert "'a b'" in rebuild_initramfs(UBUNTU, "a b")


@pytest.mark.parametrize(
    ("facts", "kernel", "packages"),
    [
        (UBUNTU, "6.8.0-85-generic", ["linux-headers-6.8.0-85-generic"]),
        (
            ROCKY,
            "5.14.0-570.12.1.el9_6.x86_64",
            ["kernel-devel-5.14.0-570.12.1.el9_6.x86_64", "kernel-headers"],
        ),
        (
            host("ol", "9.6", "fedora"),
            "6.12.0-105.51.5.el9uek.x86_64",
            ["kernel-uek-devel-6.12.0-105.51.5.el9uek.x86_64"],
        ),
        (
            host("amzn", "2023", "fedora"),
            "6.12.40-64.amzn2023.x86_64",
            ["kernel6.12-devel-6.12.40-64.amzn2023.x86_64"],
        ),
    ],
)
def test_headers_of_exactly_this_kernel(facts: Facts, kernel: str, packages: list[str]) -> None:
    assert headers_package(facts, kernel) == packages
    assert packages[0] in install_headers(facts, kernel)


def test_locks_and_images() -> None:
    assert hold(UBUNTU, "a", "b") == "sudo apt-mark hold a b"
    assert hold(ROCKY, "a") == "sudo dnf versionlock add a"
    assert rebuild_initramfs(UBUNTU) == "sudo update-initramfs -u -k all"
    assert (
        rebuild_initramfs(ROCKY, "5.14.0-1.el9.x86_64")
        == "sudo dracut -f --kver 5.14.0-1.el9.x86_64"
    )


def test_a_blacklist_names_each_module_and_turns_nouveaus_modesetting_off() -> None:
    line = blacklist("nouveau", "nova_core")
    assert "'blacklist nouveau' 'blacklist nova_core' 'options nouveau modeset=0'" in line
    assert "modeset" not in blacklist("nova_core")


def test_a_family_that_was_not_seen_gets_both_lines() -> None:
    line = install(Facts(host=HostFacts(os_release=Unknown(reason="denied"))), "x")
    assert "apt-get install" in line
    assert "dnf install" in line


def test_inside_a_container_the_host_is_named() -> None:
    assert "on the host" in where(host("ubuntu", "24.04", container="docker"))
    assert where(UBUNTU) == ""
