"""Who differs from whom: only where enough hosts were seen, only from hosts it can be compared with, and never for want of sight."""

from __future__ import annotations

import pytest

from doctor.fleet import likeness
from doctor.fleet.likeness import SMALLEST, compare, groups_of, learned, partition
from doctor.fleet.model import HostLine
from doctor.fleet.trait_list import BY_PATH, TRAITS
from tests.fleet_reports.sample import line

OTHER = {"driver.loaded": "580.82.07"}


def _unlike(*lines: HostLine) -> list[tuple[str, str, str]]:
    outliers, _ = compare(list(lines))
    return [(item.host, item.trait, item.value) for item in outliers]


def test_a_driver_off_by_a_patch_is_found() -> None:
    lines = [line(f"h{place}", "rack") for place in range(5)]
    assert _unlike(*lines) == []
    assert _unlike(*lines, line("odd", "rack", traits=OTHER)) == [
        ("odd", "driver.loaded", "580.82.07")
    ]


def test_three_hosts_have_no_majority_against_one() -> None:
    lines = [line(f"h{place}", "rack") for place in range(SMALLEST - 2)]
    assert _unlike(*lines, line("odd", "rack", traits=OTHER)) == []


@pytest.mark.parametrize(("usual", "other", "found"), [(4, 2, 0), (5, 2, 2), (3, 3, 0)])
def test_two_thirds_must_be_exceeded(usual: int, other: int, found: int) -> None:
    lines = [line(f"a{place}", "rack") for place in range(usual)]
    lines += [line(f"b{place}", "rack", traits=OTHER) for place in range(other)]
    assert len(_unlike(*lines)) == found


def test_what_was_not_seen_is_neither_alike_nor_different_and_is_said() -> None:
    lines = [line(f"h{place}", "rack") for place in range(5)]
    blind = line("blind", "rack", traits={"driver.loaded": None})
    outliers, rows = compare([*lines, blind])
    assert outliers == []
    (row,) = [row for row in rows if row.trait == "driver.loaded"]
    assert (row.hosts, row.seen, row.unseen, row.usual) == (6, 5, ["blind"], "580.95.05")


def test_a_trait_that_most_hosts_hide_has_no_usual_value() -> None:
    lines = [line(f"h{place}", "rack") for place in range(4)]
    blind = [line(f"b{place}", "rack", traits={"driver.loaded": None}) for place in range(4)]
    _, rows = compare([*lines, *blind])
    assert [row.usual for row in rows if row.trait == "driver.loaded"] == [""]


def test_versions_of_another_distribution_are_not_compared() -> None:
    ubuntu = [line(f"u{place}", "rack", traits={"kernel.running": "6.8"}) for place in range(5)]
    rocky = {"kernel.running": "5.14", "host.distribution": "Rocky Linux 9.6"}
    found = _unlike(*ubuntu, line("rocky", "rack", traits=rocky))
    assert found == [("rocky", "host.distribution", "Rocky Linux 9.6")]


def test_hosts_that_were_not_audited_take_no_part() -> None:
    lines = [line(f"h{place}", "rack") for place in range(3)]
    late = line("late", "rack", state="late", traits=OTHER)
    assert "late" not in {
        item.name for found in groups_of([*lines, late]).values() for item in found
    }


def test_a_rack_that_a_rollout_missed_differs_from_its_cluster() -> None:
    lines = [
        line(f"{rack}{place}", f"rack{rack}", "cluster") for rack in "abc" for place in range(4)
    ]
    missed = [line(f"d{place}", "rackd", "cluster", traits=OTHER) for place in range(4)]
    outliers, _ = compare([*lines, *missed])
    assert [(item.host, item.group, item.usual) for item in outliers] == [
        (f"d{place}", "cluster", "580.95.05") for place in range(4)
    ]


def test_a_host_that_differs_in_several_groups_is_told_once_of_the_smallest() -> None:
    lines = [line(f"{rack}{place}", rack, "cluster", "site") for rack in "ab" for place in range(4)]
    outliers, _ = compare([*lines, line("odd", "a", "cluster", "site", traits=OTHER)])
    assert [(item.host, item.group) for item in outliers] == [("odd", "a")]


def test_groups_of_the_same_hosts_are_one() -> None:
    lines = [line(f"h{place}", "h100", "gpus") for place in range(4)]
    assert list(groups_of(lines)) == ["gpus"]


def test_each_host_is_in_one_part_the_smallest_that_is_large_enough() -> None:
    lines = [line(f"h{place}", "site", "rack1", "pair") for place in range(2)]
    lines += [line(f"i{place}", "site", "rack1") for place in range(3)]
    lines += [line(f"j{place}", "site") for place in range(9)]
    found = {name: len(members) for name, members in partition(lines).items()}
    assert found == {"rack1": 5, "site": 9}


def test_without_inventory_groups_alike_hardware_is_a_group() -> None:
    lines = [line(f"h{place}") for place in range(5)]
    other = line("a100", traits={"nvml.gpus.name": "8 x A100"})
    assert learned(lines[0]) == "alike: 8 x H100, Ubuntu 24.04 LTS"
    assert [len(members) for members in groups_of([*lines, other]).values()] == [1, 5]
    assert _unlike(*lines, other) == []


def test_hosts_whose_gpus_were_not_seen_are_not_taken_for_others() -> None:
    blind = line("blind", traits={"nvml.gpus.name": None})
    assert learned(blind) == "alike: not seen, Ubuntu 24.04 LTS"


@pytest.mark.parametrize("path", sorted(BY_PATH))
def test_every_trait_makes_an_outlier_and_none_where_all_agree(path: str) -> None:
    trait = BY_PATH[path]
    agreed = {**dict.fromkeys(trait.given, "same"), path: "a"}
    lines = [line(f"h{place}", "rack", traits=agreed) for place in range(5)]
    odd = line("odd", "rack", traits={**agreed, path: "b"})
    assert _unlike(*lines) == []
    assert ("odd", path, "b") in _unlike(*lines, odd)


def test_what_a_trait_depends_on_is_a_trait() -> None:
    assert {path for trait in TRAITS for path in trait.given} <= set(BY_PATH)


def test_the_usual_values_are_those_of_the_largest_comparable_part() -> None:
    ubuntu = [line(f"u{place}", traits={"kernel.running": "6.8"}) for place in range(9)]
    rocky = {"kernel.running": "5.14", "host.distribution": "Rocky Linux 9.6"}
    lines = [*ubuntu, *(line(f"r{place}", traits=rocky) for place in range(4))]
    assert likeness.usual(lines)["kernel.running"] == "6.8"
