"""Undo lets go what was held here and nothing else: the owner's holds stay, those of before and those of since."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.remedy.host import holds

NAMES = st.sets(st.sampled_from(["a", "b", "c", "d", "e:i386"]))
TEXT = "# the owner's\nkernel-0:5.14.0-1.el9.*\nnvidia-driver-3:580.1-1.el9.*\n"
OWN = {"nvidia-driver": "nvidia-driver-3:580.1-1.el9.*"}


def marked(held: set[str], auto: set[str] | None = None) -> dict[str, list[str]]:
    return {"held": sorted(held), "auto": sorted(auto or ())}


def after(now: set[str], words: dict[str, list[str]]) -> set[str]:
    return (now | set(words.get("hold", []))) - set(words.get("unhold", []))


@given(NAMES, NAMES, NAMES, NAMES)
def test_holds_come_back_and_the_owners_stay(
    owner: set[str], made: set[str], since: set[str], let_go: set[str]
) -> None:
    """The step holds what is not held, and only that is in the record; the owner may hold and let go meanwhile."""
    own = made - owner
    became = owner | own
    now = (became - (let_go - owner)) | since
    words = holds.changes(marked(owner), marked(became), marked(now), own)
    assert after(now, words) == owner | (since - own)
    assert after(became, holds.changes(marked(owner), marked(became), marked(became), own)) == owner


@given(NAMES, NAMES)
def test_what_was_let_go_to_move_a_package_is_held_again(before: set[str], left: set[str]) -> None:
    became = before & left
    words = holds.changes(marked(before), marked(became), marked(became), before)
    assert after(became, words) == before


def test_what_was_installed_for_others_is_so_again() -> None:
    words = holds.changes(
        marked(set(), {"a", "b"}), marked(set(), {"b", "c"}), marked(set(), {"b", "c"}), ()
    )
    assert words == {"auto": ["a"], "manual": ["c"]}


def test_only_our_lines_go_from_a_list_that_somebody_changed(tmp_path: Path) -> None:
    path = tmp_path / "versionlock.list"
    path.write_text(TEXT + "podman-2:5.0-1.el9.*\n")
    path.chmod(0o640)
    assert holds.unlock(b"# the owner's\nkernel-0:5.14.0-1.el9.*\n", OWN, str(path))
    assert path.read_text() == "# the owner's\nkernel-0:5.14.0-1.el9.*\npodman-2:5.0-1.el9.*\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert not holds.unlock(b"", OWN, str(path))
    assert [item.name for item in tmp_path.iterdir()] == ["versionlock.list"]


def test_a_line_that_was_there_before_is_the_owners_even_where_it_says_the_same() -> None:
    assert holds.without(TEXT, TEXT, OWN) == TEXT


@pytest.mark.parametrize(
    ("entry", "held"),
    [
        ("nvidia-driver-3:580.1-1.el9.*", False),
        ("nvidia-driver-3:580.1-1.el9.x86_64", True),
        ("nvidia-driver", True),
        ("nvidia-*", True),
        ("!nvidia-driver-3:580.1-1.el9.*", False),
        ("kernel-0:5.14.0-1.el9.*", False),
        ("# nvidia-driver", False),
    ],
)
def test_locks_of_the_owner_are_told_from_ours(entry: str, held: bool) -> None:
    present = {"nvidia-driver.x86_64": ["3:580.1-1.el9"]}
    assert holds.locked(f"{entry}\n", OWN, present) == ({"nvidia-driver.x86_64"} if held else set())


def test_a_damaged_record_claims_nothing(tmp_path: Path) -> None:
    record = tmp_path / "holds.json"
    for text in ("", "[1]", "{", '"a"'):
        record.write_text(text)
        assert holds.ours(str(record)) == {}
    assert holds.ours(str(tmp_path / "none")) == {}
