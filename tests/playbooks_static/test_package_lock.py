"""package_lock holds what it is told to, and never lifts or moves a hold that somebody else made."""

from __future__ import annotations

import pytest
from module_utils import package_locks as locks

DPKG = (
    "nvidia-open\tamd64\tinstall\tinstalled\t580.95.05-0ubuntu1\n"
    "libnvidia-gl\ti386\tinstall\tinstalled\t580.95.05-0ubuntu1\n"
    "libnvidia-container1\tamd64\tinstall\tinstalled\t1.19.1-1\n"
    "nvidia-driver-common\tall\thold\tinstalled\t580.95.05-0ubuntu1\n"
    "nvidia-old\tamd64\tdeinstall\tconfig-files\t570.1-1\n"
)
RPM = "nvidia-driver\t3\t580.95.05-1.el9\nnvidia-driver-cuda\t3\t580.95.05-1.el9\nkernel-core\t0\t5.14.0-570.el9\n"


def driver():
    found = locks.parse_dpkg(DPKG, "amd64")
    return locks.chosen(found, ["nvidia-*", "libnvidia-*"], ["libnvidia-container*"])


def test_installed_packages_are_chosen_and_exceptions_left_alone():
    assert [item.name for item in driver()] == [
        "nvidia-open",
        "libnvidia-gl:i386",
        "nvidia-driver-common",
    ]


def test_the_owner_s_hold_is_neither_recorded_nor_released():
    names, record = locks.hold(driver(), {})
    assert names == ["nvidia-open", "libnvidia-gl:i386"]
    assert set(record) == set(names)
    assert locks.others(driver(), record) == ["nvidia-driver-common"]
    held = driver()
    for item in held:
        item.held = True
    names, left = locks.release(held, record)
    assert names == ["nvidia-open", "libnvidia-gl:i386"]
    assert left == {}


def test_an_entry_of_ours_moves_with_the_version_and_the_owner_s_stays():
    owner = "# mine\nnvidia-driver-0:3.5-1.el9.*\n"
    text, names, record = locks.lock(owner, locks.parse_rpm(RPM), {})
    assert names == ["nvidia-driver-cuda", "kernel-core"]
    assert (
        text == owner + "nvidia-driver-cuda-3:580.95.05-1.el9.*\nkernel-core-0:5.14.0-570.el9.*\n"
    )
    newer = locks.parse_rpm(RPM.replace("580.95.05-1", "580.105.08-1"))
    text, names, record = locks.lock(text, newer, record)
    assert names == ["nvidia-driver-cuda"]
    assert "nvidia-driver-0:3.5-1.el9.*" in text
    assert "580.95.05" not in text
    assert locks.lock(text, newer, record) == (text, [], record)
    assert locks.unlock(text, newer, record) == (owner, ["nvidia-driver-cuda", "kernel-core"], {})


def test_kernels_side_by_side_are_each_locked_and_a_second_run_changes_nothing():
    two = locks.parse_rpm("kernel-core\t0\t5.14.0-570.el9\nkernel-core\t0\t5.14.0-611.el9\n")
    text, names, record = locks.lock("", two, {})
    assert names == ["kernel-core"]
    assert text == "kernel-core-0:5.14.0-570.el9.*\nkernel-core-0:5.14.0-611.el9.*\n"
    assert locks.lock(text, two, record) == (text, [], record)
    assert locks.unlock(text, two, record) == ("", ["kernel-core"], {})


@pytest.mark.parametrize(
    ("entry", "name", "yes"),
    [
        ("nvidia-driver-3:580.95.05-1.el9.*", "nvidia-driver", True),
        ("nvidia-driver-3:580.95.05-1.el9.*", "nvidia-driver-cuda", False),
        ("3:nvidia-driver-580.95.05-1.el9.x86_64", "nvidia-driver", True),
        ("*nvidia*580*", "nvidia-driver", True),
        ("kernel*", "kernel-core", True),
        ("kernel", "kernel-core", False),
        ("!nvidia-driver-3:600.1-1.*", "nvidia-driver", True),
        ("kernel-core-0:5.14.0-570.el9.*", "kernel", False),
    ],
)
def test_what_an_entry_is_about(entry, name, yes):
    item = locks.Package(name, "580.95.05-1.el9")
    assert locks.covers(entry, item) is yes


def test_a_damaged_record_is_refused():
    with pytest.raises(locks.Refused):
        locks.read_record("{")
    with pytest.raises(locks.Refused):
        locks.read_record("[]")
    assert locks.read_record(locks.write_record({"a": "hold"})) == {"a": "hold"}
