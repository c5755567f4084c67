"""PCI devices of NVIDIA, other display controllers, network adapters for RDMA, and the bridges above the GPUs.

Everything is read from sysfs; nothing is asked of a driver.
"""

import posixpath
import re
import struct
from typing import Any, Dict, List, Optional

from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.source import Source

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "10de"
MELLANOX = "15b3"
DISPLAY_CLASSES = ("0300", "0302")
ACS_CAPABILITY = 0x000D
"""Extended capability of PCI Express: Access Control Services."""
REDIRECT = 0x0004 | 0x0008
"""P2P request redirect and completion redirect of the ACS control register."""
MEMORY_64 = 0x00100000
UNSET = 0x20000000
"""Flags of Linux' struct resource, as sysfs prints them."""


def probe(src: Source) -> Dict[str, Fact]:
    """GPUs with their links and BAR1, NVSwitches, RDMA adapters and ACS of the bridges above the GPUs."""
    names = src.listdir(DEVICES)
    if not names.ok:
        nothing = {
            name: Fact(names.state, None, names.reason, names.via)
            for name in ("gpus", "nvswitches", "other_gpus", "infiniband", "acs")
        }
        if names.state == "absent":
            nothing = {name: known([], DEVICES) for name in nothing}
        return nothing
    found: Dict[str, List[Dict[str, Any]]] = {
        "gpus": [],
        "nvswitches": [],
        "other_gpus": [],
        "infiniband": [],
    }
    hidden: List[str] = []
    for address in names.value:
        identity = identify(src, address)
        if not identity.ok:
            hidden.append(address)
            continue
        kind = kind_of(identity.value["vendor"], identity.value["class"])
        if kind:
            found[kind].append(describe(src, address, identity.value))
    if hidden:
        reason = "%s: cannot be read" % ", ".join(hidden[:3])
        return dict(
            {name: unknown(reason, DEVICES) for name in found}, acs=unknown(reason, DEVICES)
        )
    facts = {name: known(devices, DEVICES) for name, devices in found.items()}
    facts["acs"] = acs_above(src, found["gpus"])
    return facts


def kind_of(vendor: str, pci_class: str) -> Optional[str]:
    """The list a device belongs to, if any."""
    if vendor == NVIDIA and pci_class[:4] in DISPLAY_CLASSES:
        return "gpus"
    if vendor == NVIDIA and pci_class[:4] == "0680":
        return "nvswitches"
    if pci_class[:2] == "03":
        return "other_gpus"
    if pci_class[:4] == "0207" or (vendor == MELLANOX and pci_class[:2] == "02"):
        return "infiniband"
    return None


def identify(src: Source, address: str) -> Fact:
    """{"vendor", "device", "class", "subsystem", "driver"} of one device."""
    event = src.read("%s/%s/uevent" % (DEVICES, address)).map(parse_uevent)
    if event.ok:
        return event
    parts: Dict[str, Any] = {}
    for name in ("vendor", "device", "class"):
        fact = src.read("%s/%s/%s" % (DEVICES, address, name))
        if not fact.ok:
            return fact
        parts[name] = fact.value.strip().lower().replace("0x", "")
    bound = src.stat("%s/%s/driver" % (DEVICES, address))
    if not bound.ok and bound.state != "absent":
        return bound
    parts["driver"] = posixpath.basename(bound.value.get("target") or "") if bound.ok else None
    parts["subsystem"] = None
    return known(parts, event.via)


def parse_uevent(text: str) -> Dict[str, Any]:
    """uevent of a PCI device; a device without a driver has no DRIVER line."""
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    vendor, _, device = lines["PCI_ID"].lower().partition(":")
    return {
        "vendor": vendor.zfill(4),
        "device": device.zfill(4),
        "class": lines["PCI_CLASS"].lower().zfill(6),
        "subsystem": lines.get("PCI_SUBSYS_ID", "").lower() or None,
        "driver": lines.get("DRIVER"),
    }


def describe(src: Source, address: str, identity: Dict[str, Any]) -> Dict[str, Any]:
    """One device as the facts show it."""
    base = "%s/%s" % (DEVICES, address)
    group = src.stat(base + "/iommu_group").map(lambda record: posixpath.basename(record["target"]))
    chain = bridges_above(src, address)
    return {
        "address": address,
        "vendor": identity["vendor"],
        "device": identity["device"],
        "subsystem": identity["subsystem"],
        "pci_class": identity["class"],
        "driver": known(identity["driver"], base)
        if identity["driver"]
        else absent(base + "/driver"),
        "link_speed": src.read(base + "/current_link_speed").map(parse_speed),
        "link_speed_max": src.read(base + "/max_link_speed").map(parse_speed),
        "link_width": src.read(base + "/current_link_width").map(parse_width),
        "link_width_max": src.read(base + "/max_link_width").map(parse_width),
        "bar1": src.read(base + "/resource").map(parse_bar1),
        "numa_node": src.read(base + "/numa_node").map(parse_numa),
        "iommu_group": group,
        "iommu_type": iommu_type(src, group),
        "parent": chain[-1] if chain else None,
    }


def iommu_type(src: Source, group: Fact) -> Fact:
    """How the IOMMU treats the group: identity, DMA or DMA-FQ; Absent without an IOMMU."""
    if not group.ok:
        return group
    return src.read("/sys/kernel/iommu_groups/%s/type" % group.value).map(lambda text: text.strip())


def parse_speed(text: str) -> Any:
    """ "32.0 GT/s PCIe" -> "32.0"; a link that is down or virtual has none."""
    found = re.match(r"\s*(\d+(?:\.\d+)?) GT/s", text)
    return found.group(1) if found else absent("")


def parse_width(text: str) -> Any:
    """ "16" -> 16; 0 and 255 mean that there is no link to see."""
    lanes = int(text.strip())
    return lanes if 0 < lanes < 64 else absent("")


def parse_numa(text: str) -> Any:
    """-1 means that the firmware does not say."""
    node = int(text.strip())
    return node if node >= 0 else absent("")


def parse_bar1(text: str) -> Any:
    """Bytes of the second memory region of `resource`; a 64-bit region takes two lines. Absent: it has no address."""
    rows = [tuple(int(word, 16) for word in line.split()) for line in text.splitlines()[:6]]
    if len(rows) < 4 or any(len(row) != 3 for row in rows):
        raise ValueError("not a resource table")
    start, end, flags = rows[2 if rows[0][2] & MEMORY_64 else 1]
    if not start or flags & UNSET or end <= start:
        return absent("")
    return end - start + 1


def bridges_above(src: Source, address: str) -> List[str]:
    """Addresses of the bridges from the root port down to the device's parent."""
    record = src.stat("%s/%s" % (DEVICES, address))
    target = (record.value.get("target") or "") if record.ok else ""
    parts = target.split("/")
    return [
        part
        for part in parts[:-1]
        if re.match(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$", part)
    ]


def acs_above(src: Source, gpus: List[Dict[str, Any]]) -> Fact:
    """ACS of every bridge above a GPU; reading it needs the extended configuration space, which only root sees."""
    ports: List[Dict[str, Any]] = []
    bridges = sorted({bridge for gpu in gpus for bridge in bridges_above(src, gpu["address"])})
    for bridge in bridges:
        path = "%s/%s/config" % (DEVICES, bridge)
        data = src.read_bytes(path)
        if not data.ok:
            return unknown(data.reason or "not there", path)
        if len(data.value) <= 256:
            return unknown("only root may read the extended configuration space", path)
        try:
            control = acs_control(data.value)
        except ValueError as error:
            return unknown(str(error), path)
        if control is not None:
            ports.append(
                {
                    "address": bridge,
                    "redirect": bool(control & REDIRECT),
                    "control": "0x%04x" % control,
                }
            )
    return known(ports, DEVICES + "/*/config")


def acs_control(config: bytes) -> Optional[int]:
    """The ACS control register of a configuration space of 4096 bytes; None when the device has no ACS."""
    offset = 0x100
    for _ in range(96):
        if offset < 0x100 or offset + 8 > len(config):
            raise ValueError("the capability list leaves the configuration space")
        header = struct.unpack_from("<I", config, offset)[0]
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == ACS_CAPABILITY:
            return int(struct.unpack_from("<H", config, offset + 6)[0])
        offset = header >> 20
        if offset == 0:
            return None
    raise ValueError("the capability list has no end")
