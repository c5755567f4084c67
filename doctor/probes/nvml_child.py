"""Runs in a disposable child: every NVML call the probes need, one JSON object a line, so a hang keeps what came before."""

import json
import sys
from typing import Any, List

from doctor.probes.no_exec import forbid_exec

DEVICE_CALLS = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetConfComputeGpuAttestationReport",
)[:-1]
LINKS = 18
"""NVLink links asked per device (NVML_NVLINK_MAX_LINKS of nvidia-ml-py)."""


def main(args: List[str]) -> None:
    """Print init, devices and calls as JSON lines."""
    import pynvml as nvml

    names = {
        value: name
        for name, value in vars(nvml).items()
        if name.startswith("NVML_ERROR_") and isinstance(value, int)
    }

    def say(**answer: Any) -> None:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    def error_of(problem: Exception) -> str:
        return names.get(getattr(problem, "value", None), type(problem).__name__)

    def ask(function: str, shown: List[Any], *handles: Any) -> Any:
        call = getattr(nvml, function, None)
        if call is None:
            say(fn=function, args=shown, error="NVML_ERROR_FUNCTION_NOT_FOUND")
            return None
        try:
            value = call(*handles)
        except nvml.NVMLError as problem:
            say(fn=function, args=shown, error=error_of(problem))
            return None
        except Exception as problem:
            say(fn=function, args=shown, error="%s: %s" % (type(problem).__name__, problem))
            return None
        say(fn=function, args=shown, value=as_json(value))
        return value

    forbid_exec()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as problem:
        say(init=error_of(problem))
        return
    say(init="ok")
    ask("nvmlSystemGetDriverVersion", [])
    ask("nvmlSystemGetNVMLVersion", [])
    ask("nvmlSystemGetCudaDriverVersion_v2", [])
    count = ask("nvmlDeviceGetCount", []) or 0
    handles = {}
    devices = {}
    for index in range(count):
        try:
            handles[index] = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as problem:
            say(fn="nvmlDeviceGetHandleByIndex", args=[index], error=error_of(problem))
            continue
        uuid = ask("nvmlDeviceGetUUID", [index], handles[index])
        devices[str(index)] = as_json(uuid) if uuid is not None else "unknown-%d" % index
    say(devices=devices)
    for index, handle in handles.items():
        for function in DEVICE_CALLS:
            if function == "nvmlDeviceGetGpuFabricInfoV":
                info = (
                    nvml.c_nvmlGpuFabricInfo_v2_t()
                    if hasattr(nvml, "c_nvmlGpuFabricInfo_v2_t")
                    else None
                )
                if info is None:
                    say(fn=function, args=[index], error="NVML_ERROR_FUNCTION_NOT_FOUND")
                elif (
                    ask(function, [index, "request"], handle, nvml.byref(info)) is not None or True
                ):
                    say(fn=function, args=[index], value=as_json(info))
                continue
            ask(function, [index], handle)
        for kind, counter in ((0, 0), (1, 0), (0, 1), (1, 1)):
            ask("nvmlDeviceGetTotalEccErrors", [index, kind, counter], handle, kind, counter)
        for link in range(LINKS):
            if ask("nvmlDeviceGetNvLinkState", [index, link], handle, link) is None and link == 0:
                break


def as_json(value: Any) -> Any:
    """A ctypes structure as a dict, bytes as text, the rest as it is."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if hasattr(value, "_fields_"):
        return {name: as_json(getattr(value, name)) for name, *_ in value._fields_}
    if hasattr(value, "_length_"):
        return [as_json(item) for item in value]
    if isinstance(value, (int, float, str, bool)) or value is None:
        return value
    if hasattr(value, "__dict__"):
        return {name: as_json(item) for name, item in vars(value).items()}
    return str(value)
