"""The WSL2 probe: what Windows maps in, and Linux drivers beside it."""

from __future__ import annotations

import pytest

from doctor.probes.areas import wsl
from doctor.probes.areas.wsl import driver_packages, parse_wsl_conf
from doctor.probes.fact import Fact
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate


def probed(**more: object) -> dict[str, Fact]:
    description = {"platform": "wsl2", "gpus": ["NVIDIA GeForce RTX 4090"]}
    return wsl.probe(MemorySource(simulate(description | more)))


def test_outside_wsl2_nothing_applies() -> None:
    facts = wsl.probe(MemorySource(simulate({})))
    assert {fact.state for fact in facts.values()} == {"not-applicable"}


def test_a_healthy_wsl2() -> None:
    facts = probed()
    assert facts["dxg"].value
    assert facts["libcuda_is_link"].value
    assert facts["linux_driver_packages"].value == facts["linux_driver_libraries"].value == []
    assert facts["systemd"].value


@pytest.mark.parametrize(
    ("name", "brings"),
    [
        ("cuda", True),
        ("cuda-12-4", True),
        ("cuda-drivers", True),
        ("cuda-drivers-580", True),
        ("cuda-runtime-12-4", True),
        ("nvidia-driver-580-open", True),
        ("libnvidia-compute-580", True),
        ("nvidia-open", True),
        ("cuda-toolkit-13-0", False),
        ("cuda-cudart-13-0", False),
        ("nvidia-container-toolkit", False),
        ("libnvidia-container1", False),
        ("nvidia-cuda-toolkit", False),
    ],
)
def test_which_packages_bring_a_linux_driver(name: str, brings: bool) -> None:
    assert driver_packages([name]) == ([name] if brings else [])


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("[boot]\nsystemd=true\n", True),
        ("[boot]\nsystemd = true # yes\n", True),
        ("[boot]\nsystemd=false\n", False),
        ("[user]\nsystemd=true\n", False),
        ("[boot]\n#systemd=true\n", False),
        ("", False),
    ],
)
def test_systemd_is_on_only_in_the_boot_section(text: str, on: bool) -> None:
    assert parse_wsl_conf(text) is on


def test_a_folder_that_cannot_be_read_is_unknown() -> None:
    out = simulate({"platform": "wsl2", "gpus": ["NVIDIA GeForce RTX 4090"]})
    out.denied("/usr/lib/wsl/lib")
    assert wsl.probe(MemorySource(out))["lib_dir"].state == "unknown"
