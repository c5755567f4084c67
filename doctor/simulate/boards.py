"""What a simulated board answers to NVML, call by call. Fillers: rules read the matrix."""

from __future__ import annotations

import re
from typing import Any

from doctor.errors import UsageError
from doctor.probes.areas.nvml import DRIVER_MODELS, FABRIC_STATES, THROTTLE
from doctor.simulate.description import GpuPart
from doctor.simulate.host import Board, Host
from doctor.simulate.sizes import MIB, size

POWER_LIMITS = (
    (r"B[23]00|GB[23]00", 1000),
    (r"H100 80GB HBM3|\bH200$|GH200", 700),
    (r"H200 NVL|RTX PRO 6000|5090", 600),
    (r"H20$", 500),
    (r"A100-SXM|H100 NVL|4090", 400),
    (r"H100 PCIe|L40S?$|3090|RTX 6000 Ada", 350),
    (r"A100|A40|V100|A6000|5080|4080", 300),
    (r"A30", 165),
    (r"A10", 150),
    (r"L4$|T4$|P4$", 70),
)
"""Watts, by name; else 250."""
NVML_NVLINKS = 18
_LINK = re.compile(r"gen(\d) x(\d+)")


def answers(host: Host, board: Board) -> dict[str, Any]:
    """{function: value or ("error", name)} of the calls that take the handle alone."""
    part = board.part
    generation, width = link(part.pcie, board.pcie_generation, board.pcie_width)
    best = link(part.pcie_max, board.pcie_generation, board.pcie_width)
    used = size(part.memory_used, "gpus.memory_used") if part.memory_used else 640 * MIB
    watts = next((watts for name, watts in POWER_LIMITS if re.search(name, board.name)), 250)
    unsupported = ("error", "NVML_ERROR_NOT_SUPPORTED")
    ecc = board.ecc_supported if part.ecc is None else part.ecc
    mask = sum(bit for bit, name in THROTTLE if name in part.throttle)
    wrong = set(part.throttle) - {name for _, name in THROTTLE}
    if wrong:
        raise UsageError(
            f"gpus.throttle: no reason is called {sorted(wrong)[0]}", "see doctor schema facts"
        )
    wsl = host.d.platform == "wsl2"
    return {
        "nvmlDeviceGetName": board.name,
        "nvmlDeviceGetPciInfo": {"busId": f"0000{board.address.upper()}"},
        "nvmlDeviceGetCudaComputeCapability": [
            int(number) for number in board.compute_capability.split(".")
        ],
        "nvmlDeviceGetMemoryInfo": {
            "total": board.memory,
            "used": used,
            "free": board.memory - used,
        },
        "nvmlDeviceGetBAR1MemoryInfo": {
            "bar1Total": board.bar1,
            "bar1Free": board.bar1,
            "bar1Used": 0,
        },
        "nvmlDeviceGetEccMode": [int(ecc), int(ecc)] if board.ecc_supported else unsupported,
        "nvmlDeviceGetRemappedRows": _rows(board) if _has_remapper(board) else unsupported,
        "nvmlDeviceGetRetiredPagesPendingStatus": unsupported
        if _has_remapper(board) or not board.ecc_supported
        else 0,
        "nvmlDeviceGetPersistenceMode": int(part.persistence),
        "nvmlDeviceGetComputeMode": {"default": 0, "prohibited": 2, "exclusive-process": 3}[
            part.compute_mode
        ],
        "nvmlDeviceGetPowerManagementLimit": int((part.power_limit or watts) * 1000),
        "nvmlDeviceGetPowerManagementDefaultLimit": watts * 1000,
        "nvmlDeviceGetVbiosVersion": part.vbios or "96.00.A5.00.01",
        "nvmlDeviceGetGspFirmwareVersion": host.driver.firmware or unsupported,
        "nvmlDeviceGetCurrPcieLinkGeneration": generation,
        "nvmlDeviceGetMaxPcieLinkGeneration": best[0],
        "nvmlDeviceGetCurrPcieLinkWidth": width,
        "nvmlDeviceGetMaxPcieLinkWidth": best[1],
        "nvmlDeviceGetVirtualizationMode": 1 if host.d.platform == "vm" else 0,
        "nvmlDeviceGetMinorNumber": board.index,
        "nvmlDeviceGetDriverModel": [_model(part)] * 2 if wsl else unsupported,
        "nvmlDeviceGetComputeRunningProcesses": _processes(board),
        "nvmlDeviceGetCurrentClocksEventReasons": mask or 0x1,
        "nvmlDeviceGetMigMode": [int(part.mig != "off")] * 2
        if board.mig_supported
        else unsupported,
        "nvmlDeviceGetGpuFabricInfoV": _fabric(board) if _knows_fabric(board) else unsupported,
    }


def link(text: str | None, generation: int, width: int) -> tuple[int, int]:
    """'gen5 x16' -> (5, 16); the board's own without it."""
    if text is None:
        return generation, width
    found = _LINK.fullmatch(text)
    if not found:
        raise UsageError(f"gpus.pcie: {text} is not a link", "write it as gen5 x16")
    return int(found[1]), int(found[2])


def _model(part: GpuPart) -> int:
    names = {name: number for number, name in DRIVER_MODELS.items()}
    if part.driver_model not in (None, *names):
        raise UsageError(
            f"gpus.driver_model: {part.driver_model} is none", f"one of {', '.join(names)}"
        )
    return names[part.driver_model or "WDDM"]


def link_states(board: Board) -> list[int]:
    """1 for each NVLink that is up."""
    return [int(number >= board.part.nvlink_down) for number in range(board.nvlinks)]


def _has_remapper(board: Board) -> bool:
    return board.ecc_supported and float(board.compute_capability) >= 8.0


def _knows_fabric(board: Board) -> bool:
    return float(board.compute_capability) >= 9.0


def _rows(board: Board) -> list[int]:
    state = board.part.row_remap
    return [0, int(state != "none"), int(state == "pending"), int(state == "failed")]


def _fabric(board: Board) -> dict[str, Any]:
    said = board.part.fabric or "not-supported"
    numbers = {name: number for number, name in FABRIC_STATES.items()}
    if said in numbers:
        return {"state": numbers[said], "status": "NVML_SUCCESS", "cliqueId": 0, "healthMask": 0}
    return {"state": numbers["completed"], "status": said, "cliqueId": 0, "healthMask": 0}


def _processes(board: Board) -> list[dict[str, Any]]:
    return [
        {
            "pid": int(item.get("pid", 1000 + number)),
            "usedGpuMemory": size(item["memory"], "gpus.processes.memory")
            if "memory" in item
            else None,
        }
        for number, item in enumerate(board.part.processes)
    ]
