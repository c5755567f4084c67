"""The PCI probe: devices, links, BAR1 and ACS from sysfs, whole or in pieces."""

from __future__ import annotations

import struct

import pytest

from doctor.probes.areas import pci
from doctor.probes.areas.pci import acs_control, parse_bar1, parse_speed, parse_uevent, parse_width
from doctor.probes.fact import Fact
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from doctor.simulate.writer import RecordingWriter

GPU = "/sys/bus/pci/devices/0000:17:00.0"


def recording(**more: object) -> RecordingWriter:
    description = {"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05"}
    return simulate(description | more)


def probed(out: RecordingWriter) -> dict[str, Fact]:
    return pci.probe(MemorySource(out))


def test_uevent() -> None:
    text = "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2335\nPCI_SUBSYS_ID=10DE:18BE\n"
    assert parse_uevent(text) == {
        "vendor": "10de",
        "device": "2335",
        "class": "030200",
        "subsystem": "10de:18be",
        "driver": "nvidia",
    }
    assert parse_uevent("PCI_CLASS=30000\nPCI_ID=10DE:2684\n")["driver"] is None


def test_link_numbers_that_say_nothing_are_absent() -> None:
    assert parse_speed("32.0 GT/s PCIe\n") == "32.0"
    assert parse_speed("Unknown\n").state == "absent"
    assert parse_width("16\n") == 16
    assert parse_width("0\n").state == parse_width("255\n").state == "absent"


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        (
            [(0xA0000000, 0xA0FFFFFF, 0x40200), (1 << 40, (1 << 40) + (1 << 37) - 1, 0x14220C)],
            1 << 37,
        ),
        (
            [
                (1 << 40, (1 << 40) + (1 << 24) - 1, 0x14220C),
                (0, 0, 0),
                (2 << 40, (2 << 40) + (1 << 37) - 1, 0x14220C),
            ],
            1 << 37,
        ),
        ([(0xA0000000, 0xA0FFFFFF, 0x40200), (0, 0, 0)], None),
        ([(0xA0000000, 0xA0FFFFFF, 0x40200), (0, (1 << 37) - 1, 0x2014220C)], None),
    ],
    ids=["32-bit BAR0", "64-bit BAR0", "no address", "unset"],
)
def test_bar1_is_the_second_region(rows: list[tuple[int, int, int]], size: int | None) -> None:
    padded = rows + [(0, 0, 0)] * (7 - len(rows))
    found = parse_bar1("".join(f"{a:#018x} {b:#018x} {c:#018x}\n" for a, b, c in padded))
    assert found == size if size else found.state == "absent"


@pytest.mark.parametrize("text", ["", "0x0 0x0\n", "0x0 0x0 0x0\n" * 2, "zz zz zz\n" * 7])
def test_a_broken_resource_table_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_bar1(text)


def space(*capabilities: tuple[int, int, int, int]) -> bytes:
    """(offset, id, next, control) of each extended capability."""
    config = bytearray(4096)
    for offset, ident, following, control in capabilities:
        struct.pack_into(
            "<IHH", config, offset, ident | (1 << 16) | (following << 20), 0x5F, control
        )
    return bytes(config)


def test_acs_is_found_behind_other_capabilities() -> None:
    assert acs_control(space((0x100, 0x0001, 0x148, 0), (0x148, 0x000D, 0, 0x1D))) == 0x1D
    assert acs_control(space((0x100, 0x0001, 0, 0))) is None
    assert acs_control(bytes(4096)) is None


@pytest.mark.parametrize(
    "config", [space((0x100, 0x0001, 0x100, 0)), space((0x100, 0x0001, 0x040, 0)), space()[:0x104]]
)
def test_a_capability_list_without_end_is_an_error(config: bytes) -> None:
    with pytest.raises(ValueError, match="capability"):
        acs_control(config)


def test_acs_needs_root() -> None:
    facts = probed(recording(root=False))
    assert facts["acs"].state == "unknown"
    assert "root" in facts["acs"].reason
    assert facts["gpus"].ok


def test_devices_without_uevent_are_read_by_their_parts() -> None:
    out = recording()
    out.files.pop(GPU + "/uevent")
    out.paths.pop(GPU + "/uevent")
    for name, value in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")):
        out.file(f"{GPU}/{name}", value + "\n")
    out.link(GPU + "/driver", "../../../bus/pci/drivers/nouveau")
    gpu = probed(out)["gpus"].value[0]
    assert (gpu["device"], gpu["driver"].value) == ("2330", "nouveau")


def test_a_device_that_cannot_be_read_makes_the_list_unknown() -> None:
    out = recording()
    out.files.pop(GPU + "/uevent")
    out.denied(GPU + "/uevent")
    out.denied(GPU + "/vendor")
    assert probed(out)["gpus"].state == "unknown"


def test_no_bus_is_no_device_and_a_denied_bus_is_unknown() -> None:
    assert probed(RecordingWriter())["gpus"].value == []
    out = RecordingWriter(missing="unknown")
    assert probed(out)["gpus"].state == "unknown"


def test_bridges_above_come_from_the_devices_own_path() -> None:
    gpu = probed(recording())["gpus"].value[0]
    assert gpu["parent"] == "0000:16:01.0"
    assert probed(recording(platform="vm"))["gpus"].value[0]["parent"] is None
