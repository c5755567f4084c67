"""What checks of environments share: requirements by metadata, interfaces by NCCL's filter, words that end in a shell."""

from __future__ import annotations

import shlex

import pytest

from doctor.checks.areas.environments import holds, pip, unmet, version
from doctor.checks.areas.nccl_network import selected
from doctor.checks.areas.service import drop_in, waits_for_driver
from doctor.facts.areas.fabric import Unit
from doctor.facts.areas.python_env import Environment
from doctor.facts.model import FactUnknown
from doctor.facts.versions import DriverVersion


def test_malformed_version_was_not_seen() -> None:
    with pytest.raises(FactUnknown):
        version(DriverVersion, "not a version", "driver.loaded")
    assert holds(">=1.0", "not a version") is None
    assert holds("nonsense", "1.0") is None


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("torch==2.11.0", False),
        ("torch==2.9.0", True),
        ('torch==2.9.0; platform_machine == "aarch64"', False),
        ('torch==2.9.0; python_version < "3.10"', False),
        ("missing>=1", False),
        ("torch", False),
        ("not a requirement at all !!", False),
    ],
)
def test_requirements_that_are_not_met(line: str, broken: bool) -> None:
    item = Environment(
        path="/opt/venv",
        python="3.12.3",
        packages={"vllm": "0.24.0", "torch": "2.11.0+cu130"},
        requires={"vllm": [line]},
        architectures={"torch": "x86_64"},
    )
    assert bool(list(unmet(item, "vllm"))) is broken


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ("eth", ["eth0", "eth1"]),
        ("=eth0", ["eth0"]),
        ("=eth", []),
        ("^docker,lo", ["eth0", "eth1"]),
        ("^=eth0", ["eth1", "docker0", "lo"]),
        ("ens5", []),
        ("eth1,docker", ["eth1", "docker0"]),
    ],
)
def test_interfaces_that_a_filter_leaves(spec: str, left: list[str]) -> None:
    assert selected(spec, ["eth0", "eth1", "docker0", "lo"]) == left


def test_words_of_a_host_are_quoted() -> None:
    evil = "/opt/a b;touch x"
    command = pip(Environment(path=evil), "torch==2.9.1")
    assert shlex.split(command)[0] == f"{evil}/bin/python3"
    words = shlex.split(drop_in("a$(id).service", "10-x", "[Unit]\\n"))
    assert "/etc/systemd/system/a$(id).service.d/10-x.conf" in words


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        (["network-online.target"], False),
        (["nvidia-persistenced.service"], True),
        (["docker.service"], True),
        (["dev-nvidia0.device"], True),
        ([], False),
    ],
)
def test_order_after_the_driver(after: list[str], waits: bool) -> None:
    unit = Unit(name="x.service", load="loaded", active="active", after=after)
    assert waits_for_driver(unit) is waits
