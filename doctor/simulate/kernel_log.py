"""The kernel log of a simulated host: what the driver says in the state that the description gives it."""

from __future__ import annotations

from doctor.simulate.host import Board, Host

XID_TEXT = {
    13: "Graphics Exception",
    31: "MMU Fault: ENGINE GRAPHICS faulted",
    48: "DBE (double bit error) on HBM",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate",
    64: "Row Remapper: Failed to remap",
    74: "NVLink: fatal error detected on link 3",
    79: "GPU has fallen off the bus.",
    94: "Contained: SM",
    95: "Uncontained: L2",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP!",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}


def log_of(host: Host) -> str:
    """Text as dmesg prints it."""
    lines = [f"Linux version {host.kernel} (builder@host)", "Command line: quiet"]
    if host.d.platform != "wsl2":
        lines += _driver(host)
        for board in host.boards:
            lines += _refusal(host, board)
        lines += [line for event in host.d.xid for line in _xid(host, event)]
    lines += ["PM: suspend entry (deep)", "PM: suspend exit"] * host.d.suspends
    lines += host.d.kernel_log
    return "".join(f"[{number * 1.5:12.6f}] {line}\n" for number, line in enumerate(lines))


def _driver(host: Host) -> list[str]:
    secure = host.d.secure_boot in (True, "on")
    if host.driver.loaded is None:
        if secure and host.driver.disk and not any(board.refusal for board in host.boards):
            return ["Loading of unsigned module is rejected"]
        return []
    flavor = "Open Kernel Module for" if host.driver.flavor == "open" else "Kernel Module for"
    return [
        "nvidia: loading out-of-tree module taints kernel.",
        f"NVRM: loading NVIDIA UNIX {flavor} {host.machine}  {host.driver.loaded}  Release Build",
    ]


def _refusal(host: Host, board: Board) -> list[str]:
    if host.driver.disk is None or not board.part.on_bus:
        return []
    where = board.address
    if board.refusal == "held" and board.bound_to == "nova_core":
        return [
            f"NVRM: GPU {where} is already bound to NovaCore.",
            "NVRM: No NVIDIA devices probed.",
        ]
    if board.refusal == "held":
        return [f"NVRM: GPU {where} is already bound to {board.bound_to}."]
    if board.refusal == "bar1":
        return [
            f"NVRM: BAR1 is 0M @ 0x0 (PCI:{where})",
            f"nvidia {where}: probe with driver nvidia failed with error -1",
            "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        ]
    identity = f"(PCI ID: 10de:{board.device_id.lower()})"
    if board.refusal == "flavor-open":
        return [
            f"NVRM: The NVIDIA GPU {where} {identity}",
            f"NVRM: installed in this system is not supported by open nvidia.ko {host.driver.disk}",
            "NVRM: because it does not include the required GPU System Processor (GSP).",
        ]
    if board.refusal == "flavor-proprietary":
        return [
            f"NVRM: The NVIDIA GPU {where} {identity}",
            "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
        ]
    if board.refusal == "unsupported":
        return [
            f"NVRM: The NVIDIA GPU {where} {identity} is supported through a legacy NVIDIA driver."
        ]
    return []


def _xid(host: Host, event: int | str) -> list[str]:
    board = host.boards[0].address if host.boards else "0000:18:00.0"
    code, _, place = str(event).partition("@")
    where = (place or board).rpartition(".")[0] or place
    text = XID_TEXT.get(int(code), "reported") if code.isdigit() else code
    return [f"NVRM: Xid (PCI:{where}): {code}, pid=4711, name=python3, {text}"]
