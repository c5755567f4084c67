"""Each rule across hosts fails on one fleet, passes on another, and says of a third that it was not seen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doctor.checks.finding import Outcome, Severity
from doctor.fleet.across import RULES, judge
from doctor.fleet.aggregate import exit_code, verdict
from doctor.fleet.model import AcrossHosts, HostLine, Identity
from tests.fleet_reports.sample import fleet, line

DAY = "2026-11-30"
UUID = "GPU-00000000-0000-4000-8000-00000000000{}"


def _with(name: str, **identity: Any) -> HostLine:
    made = line(name, "rack", said_name=name)
    return msgspec.structs.replace(made, identity=Identity(**identity))


def _traits(name: str, **traits: str | None) -> HostLine:
    return line(
        name, "rack", traits={key.replace("__", "."): value for key, value in traits.items()}
    )


CASES: dict[str, tuple[list[HostLine], list[HostLine]]] = {
    "fleet.nccl-mixed": (
        [_traits("a"), _traits("b", nccl__wheels="2.26.2")],
        [_traits("a"), _traits("b")],
    ),
    "fleet.driver-branch-mixed": (
        [_traits("a"), _traits("b", driver__loaded="570.172.08")],
        [_traits("a"), _traits("b", driver__loaded="580.82.07")],
    ),
    "fleet.fabric-manager-mixed": (
        [_traits("a"), _traits("b", fabric__manager_version="580.82.07")],
        [_traits("a"), _traits("b"), _traits("c", fabric__manager_version="not there")],
    ),
    "fleet.clock-skew": (
        [_with("a", ahead=0), _with("b", ahead=-7)],
        [_with("a", ahead=0), _with("b", ahead=-2)],
    ),
    "fleet.one-host-two-names": (
        [_with("a", boot="x"), _with("b", boot="x")],
        [_with("a", boot="x"), _with("b", boot="y")],
    ),
    "fleet.gpu-on-two-hosts": (
        [_with("a", gpus=[UUID.format(1)]), _with("b", gpus=[UUID.format(2), UUID.format(1)])],
        [_with("a", gpus=[UUID.format(1)]), _with("b", gpus=[UUID.format(2)])],
    ),
    "fleet.host-name-twice": (
        [_with("a"), msgspec.structs.replace(_with("b"), said_name="a")],
        [_with("a"), _with("b")],
    ),
}


def _of(id: str, lines: list[HostLine]) -> AcrossHosts:
    (found,) = [item for item in judge(lines, DAY) if item.id == id]
    return found


def test_every_rule_has_its_cases() -> None:
    assert set(CASES) == {rule.id for rule in RULES}


@pytest.mark.parametrize("id", sorted(CASES))
def test_a_rule_fails_and_passes(id: str) -> None:
    broken, held = CASES[id]
    found = _of(id, broken)
    assert found.outcome is Outcome.WARN
    named = {host for hosts in found.values.values() for host in hosts}
    assert named
    assert named <= {"a", "b"}
    assert _of(id, held).outcome is Outcome.PASS
    assert _of(id, held).values == {}


@pytest.mark.parametrize(
    ("id", "blind"),
    [
        ("fleet.nccl-mixed", _traits("b", nccl__wheels=None)),
        ("fleet.driver-branch-mixed", _traits("b", driver__loaded=None)),
        ("fleet.fabric-manager-mixed", _traits("b", fabric__manager_version=None)),
        ("fleet.clock-skew", _with("b")),
    ],
)
def test_a_host_that_was_not_seen_lets_no_rule_pass(id: str, blind: HostLine) -> None:
    found = _of(id, [_with("a", ahead=0), blind])
    assert found.outcome is Outcome.UNKNOWN
    assert found.values["not seen"] == ["b"]


def test_a_rule_that_predicts_names_its_source_and_the_others_only_compare() -> None:
    found = _of("fleet.nccl-mixed", CASES["fleet.nccl-mixed"][0])
    (source,) = found.sources
    assert source.url.startswith("https://github.com/NVIDIA/nccl/")
    assert all(rule.severity is not Severity.ERROR for rule in RULES)


def test_recordings_say_nothing_of_machines() -> None:
    lines = [line("a", "rack", said_name="simulated"), line("b", "rack", said_name="simulated")]
    said = {item.id for item in judge(lines, DAY)}
    assert not said & {
        "fleet.one-host-two-names",
        "fleet.gpu-on-two-hosts",
        "fleet.host-name-twice",
    }


def test_gpus_of_another_kind_may_need_another_driver() -> None:
    old = {"nvml.gpus.name": "8 x V100", "driver.loaded": "580.95.05"}
    new = {"driver.loaded": "610.43.02"}
    lines = [line(f"old{n}", "rack", traits=old) for n in range(2)]
    lines += [line(f"new{n}", "rack", traits=new) for n in range(2)]
    assert _of("fleet.driver-branch-mixed", lines).outcome is Outcome.PASS


def test_racks_that_are_each_alike_are_mixed_together() -> None:
    lines = [line(f"a{n}", "racka", "cluster") for n in range(4)]
    lines += [line(f"b{n}", "rackb", "cluster", traits={"nccl.wheels": "2.26.2"}) for n in range(4)]
    found = [item for item in judge(lines, DAY) if item.id == "fleet.nccl-mixed"]
    assert [(item.group, item.outcome) for item in found if item.values] == [
        ("cluster", Outcome.WARN)
    ]


def test_the_system_s_nccl_counts_where_there_are_no_wheels() -> None:
    lines = [
        _traits("a", nccl__wheels="none", nccl__system="2.27.3"),
        _traits("b", nccl__wheels="none", nccl__system="2.26.2"),
    ]
    assert _of("fleet.nccl-mixed", lines).outcome is Outcome.WARN


def test_a_broken_rule_makes_a_healthy_fleet_degraded() -> None:
    good, bad = fleet(*CASES["fleet.nccl-mixed"][1]), fleet(*CASES["fleet.nccl-mixed"][0])
    assert (good.verdict, good.exit_code) == ("healthy", 0)
    assert (bad.verdict, bad.exit_code) == ("degraded", 0)


def test_notes_do_not() -> None:
    lines = CASES["fleet.host-name-twice"][0]
    found = [item for item in judge(lines, DAY) if item.id == "fleet.host-name-twice"]
    assert verdict(lines, found) == "healthy"
    assert exit_code(lines, found) == 0


def test_groups_in_which_a_rule_holds_are_one_line() -> None:
    lines = [line(f"{rack}-{place}", rack) for rack in ("r1", "r2", "r3") for place in range(4)]
    found = [item for item in judge(lines, DAY) if item.id == "fleet.nccl-mixed"]
    assert [(item.group, item.message) for item in found] == [("3 groups", "holds in 3 groups")]
