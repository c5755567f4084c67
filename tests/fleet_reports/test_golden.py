"""Golden hosts: learned from one or from most, kept as a file that people edit, compared with all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import UsageError
from doctor.fleet import golden
from doctor.fleet.likeness import compare
from tests.fleet_reports.sample import fleet, line

OTHER = {"driver.loaded": "580.82.07"}


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "golden.yml"
    file.write_text(text, encoding="utf-8")
    return file


def test_one_host_is_enough_and_is_not_compared_with_itself(tmp_path: Path) -> None:
    lines = [line("gold"), line("same"), line("odd", traits=OTHER)]
    profile = golden.of_host(lines[0], "2026-11-30")
    outliers, _ = compare(lines, profile)
    assert [(item.host, item.group, item.usual) for item in outliers] == [
        ("odd", "golden: gold", "580.95.05")
    ]
    assert golden.read(_file(tmp_path, golden.write(profile))) == profile


def test_what_was_not_seen_of_a_host_is_not_golden() -> None:
    lines = [line("gold"), line("blind", traits={"driver.loaded": None})]
    outliers, rows = compare(lines, golden.of_host(lines[0], "2026-11-30"))
    assert outliers == []
    assert [row.unseen for row in rows if row.trait == "driver.loaded"] == [["blind"]]


def test_traits_that_the_golden_host_cannot_speak_of_are_left_out() -> None:
    gold = line("gold", traits={"nvml.gpus.vbios": "96"})
    other = line("a100", traits={"nvml.gpus.vbios": "92", "nvml.gpus.name": "8 x A100"})
    outliers, _ = compare([gold, other], golden.of_host(gold, "2026-11-30"))
    assert [item.trait for item in outliers] == ["nvml.gpus.name"]


def test_the_majority_is_learned_per_group_and_alike_groups_share_a_profile() -> None:
    lines = [line(f"{rack}-{place}", rack) for rack in ("r1", "r2") for place in range(4)]
    lines += [line(f"old-{place}", "old", traits=OTHER) for place in range(4)]
    found = golden.of_majority(fleet(*lines))
    assert [(item.groups, item.traits["driver.loaded"]) for item in found.profiles] == [
        (("old",), "580.82.07"),
        (("r1", "r2"), "580.95.05"),
    ]
    assert compare(lines, found)[0] == []


def test_a_group_s_name_is_no_pattern() -> None:
    lines = [line(f"h{place}", "rack[1]*") for place in range(4)]
    (profile,) = golden.of_majority(fleet(*lines)).profiles
    assert golden.Golden(name="x", profiles=[profile]).profile("rack1", []) is None
    assert golden.Golden(name="x", profiles=[profile]).profile("rack[1]*", []) is not None


def test_nothing_is_learned_from_too_few() -> None:
    with pytest.raises(UsageError, match="no group of 4"):
        golden.of_majority(fleet(line("a"), line("b")))


def test_nothing_is_learned_from_a_host_that_was_not_audited() -> None:
    with pytest.raises(UsageError, match="was not audited"):
        golden.of_host(line("late", state="late"), "2026-11-30")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "golden.yml"),
        ("schema: doctor.golden/2\nname: x\nprofiles: []\n", "its schema is"),
        ("name: x\nprofiles: [{traits: {driver.laoded: '1'}}]\n", "no trait is called"),
        ("name: x\nprofiles: [{traits: {driver.loaded: 580}}]\n", "Expected `str`"),
        ("name: x\nprofile: []\n", "golden.yml"),
    ],
)
def test_a_bad_file_says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        golden.read(_file(tmp_path, text))


def test_a_misspelt_trait_names_the_nearest(tmp_path: Path) -> None:
    file = _file(tmp_path, "name: x\nprofiles: [{traits: {driver.laoded: '1'}}]\n")
    with pytest.raises(UsageError) as caught:
        golden.read(file)
    assert "driver.loaded" in caught.value.hint


def test_what_is_chosen_is_a_host_or_a_file(tmp_path: Path) -> None:
    lines = {"gold": line("gold")}
    assert golden.chosen("gold", lines, "2026-11-30").host == "gold"
    file = _file(tmp_path, golden.write(golden.of_host(lines["gold"], "2026-11-30")))
    assert golden.chosen(str(file), {}, "2026-11-30").name == "gold"
    with pytest.raises(UsageError, match="neither a file nor a host"):
        golden.chosen("nobody", lines, "2026-11-30")
