"""PCI devices of a simulated host in sysfs: GPUs below a root port on bare metal, on the root bus in a VM."""

from __future__ import annotations

import struct

from doctor.simulate.boards import link
from doctor.simulate.host import Board, Host
from doctor.simulate.writer import RecordingWriter

DEVICES = "/sys/bus/pci/devices"
SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
NVSWITCH = "22a3"
SUBNET_MANAGED = 10.0
"""Compute capability from which the switches of a board hide behind network bridges (filler, not a rule)."""


def write(host: Host, out: RecordingWriter) -> None:
    """The devices that the PCI probe looks at."""
    out.folder(DEVICES)
    groups: list[str] = []
    if host.d.platform == "wsl2":
        _device(host, out, "5582:00:00.0", "1414", "008e", "030200", "dxgkrnl", groups)
    elif host.d.platform != "jetson":
        for board in host.boards:
            if board.part.on_bus:
                _board(host, out, board, groups)
    old = [board for board in host.boards if float(board.compute_capability) < SUBNET_MANAGED]
    for number in range(host.d.nvswitch if old else 0):
        _device(
            host,
            out,
            f"0000:{0xF0 + number:02x}:00.0",
            "10de",
            NVSWITCH,
            "068000",
            "nvidia-nvswitch",
            groups,
        )
    for number, _ in enumerate(host.d.infiniband):
        _device(
            host,
            out,
            f"0000:{0xD0 + number:02x}:00.0",
            "15b3",
            "1021",
            "020700",
            "mlx5_core",
            groups,
        )
    for number, text in enumerate(host.d.pci):
        vendor, device, pci_class, driver = [*text.split(":"), "", "", ""][:4]
        _device(
            host,
            out,
            f"0000:{0xE0 + number:02x}:00.0",
            vendor,
            device,
            pci_class.ljust(6, "0"),
            driver,
            groups,
        )
    if host.d.iommu != "off":
        for group in groups or ["0"]:
            kind = "identity" if host.d.iommu == "passthrough" else "DMA"
            out.file(f"/sys/kernel/iommu_groups/{group}/type", kind + "\n")
    else:
        out.folder("/sys/kernel/iommu_groups")


def _board(host: Host, out: RecordingWriter, board: Board, groups: list[str]) -> None:
    pci_class = "030000" if "GeForce" in board.name or "RTX" in board.name else "030200"
    path = _device(
        host,
        out,
        board.address,
        "10de",
        board.device_id.lower(),
        pci_class,
        board.bound_to or "",
        groups,
    )
    generation, width = link(board.part.pcie, board.pcie_generation, board.pcie_width)
    best_generation, best_width = link(board.part.pcie_max, board.pcie_generation, board.pcie_width)
    out.file(path + "/current_link_speed", f"{SPEEDS[generation]} GT/s PCIe\n")
    out.file(path + "/max_link_speed", f"{SPEEDS[best_generation]} GT/s PCIe\n")
    out.file(path + "/current_link_width", f"{width}\n")
    out.file(path + "/max_link_width", f"{best_width}\n")
    out.file(path + "/resource", _resource(board))


def _resource(board: Board) -> str:
    start = 0x20_0000_0000 + (board.index << 40)
    rows = [(0xA0000000, 0xA0FFFFFF, 0x40200)]
    if board.bar1:
        rows.append((start, start + board.bar1 - 1, 0x14220C))
    else:
        rows.append((0, 0, 0))
    rows += [(0, 0, 0), (start - (32 << 20), start - 1, 0x14220C), (0, 0, 0), (0, 0, 0), (0, 0, 0)]
    return "".join(f"0x{first:016x} 0x{last:016x} 0x{flags:016x}\n" for first, last, flags in rows)


def _device(
    host: Host,
    out: RecordingWriter,
    address: str,
    vendor: str,
    device: str,
    pci_class: str,
    driver: str,
    groups: list[str],
) -> str:
    path = f"{DEVICES}/{address}"
    domain, bus, _ = address.split(":")
    if host.d.platform in ("vm", "wsl2"):
        out.link(path, f"../../../devices/pci{domain}:00/{address}")
    else:
        port = f"{domain}:{int(bus, 16) - 1:02x}:01.0"
        out.link(path, f"../../../devices/pci{domain}:{int(bus, 16) - 1:02x}/{port}/{address}")
        _bridge(host, out, port)
    lines = [f"DRIVER={driver}"] if driver else []
    lines += [
        f"PCI_CLASS={pci_class.upper().lstrip('0')}",
        f"PCI_ID={vendor.upper()}:{device.upper()}",
    ]
    lines += [f"PCI_SUBSYS_ID={vendor.upper()}:0001", f"PCI_SLOT_NAME={address}"]
    out.file(path + "/uevent", "\n".join(lines) + "\n")
    out.file(path + "/numa_node", "0\n" if host.d.platform == "bare-metal" else "-1\n")
    if host.d.iommu != "off":
        number = str(len(groups))
        groups.append(number)
        out.link(path + "/iommu_group", f"../../../kernel/iommu_groups/{number}")
    return path


def _bridge(host: Host, out: RecordingWriter, port: str) -> None:
    path = f"{DEVICES}/{port}"
    if path in out.paths:
        return
    out.link(path, f"../../../devices/pci{port.rpartition(':')[0]}/{port}")
    out.file(
        path + "/uevent",
        f"DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=8086:352A\nPCI_SLOT_NAME={port}\n",
    )
    config = bytearray(4096)
    struct.pack_into("<HH", config, 0, 0x8086, 0x352A)
    control = 0x001D if host.d.acs else 0x0000
    struct.pack_into("<IHH", config, 0x100, 0x000D | (1 << 16), 0x005F, control)
    out.file(path + "/config", bytes(config) if host.d.root else bytes(config[:64]))
