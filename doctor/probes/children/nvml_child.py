"""Runs in a disposable child: every NVML call the probes need, one JSON object a line, so a hang keeps what came before."""

import json
import sys
from typing import Any, Dict, List

NO_PYNVML = "pynvml is not installed"
"""What the child says when it has no binding; the probe then asks nvidia-smi."""
DEVICE_CALLS = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetDriverModel",
    "nvmlDeviceGetComputeRunningProcesses",
)
"""Asked with the handle alone."""
FALLBACKS = {"nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons"}
"""The name since R535 and the older one, which goes with CUDA 14."""
ECC_KINDS = ((1, 0), (1, 1))
"""NVML_MEMORY_ERROR_TYPE_UNCORRECTED, volatile and aggregate."""


class Asker:
    """Calls NVML and says each answer at once."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.names: Dict[int, str] = {
            value: name
            for name, value in vars(nvml).items()
            if name.startswith("NVML_ERROR_") and isinstance(value, int)
        }
        self.names[0] = "NVML_SUCCESS"

    def name_of(self, problem: Exception) -> str:
        """The NVML name of an error."""
        return self.names.get(getattr(problem, "value", -1), type(problem).__name__)

    def ask(self, function: str, shown: List[Any], *arguments: Any) -> Any:
        """One call: its value, or None after its error was said."""
        try:
            value = getattr(self.nvml, function)(*arguments)
        except AttributeError:
            say(fn=function, args=shown, error="NVML_ERROR_FUNCTION_NOT_FOUND")
            return None
        except self.nvml.NVMLError as problem:
            say(fn=function, args=shown, error=self.name_of(problem))
            return None
        except Exception as problem:
            say(fn=function, args=shown, error="%s: %s" % (type(problem).__name__, problem))
            return None
        say(fn=function, args=shown, value=as_json(value))
        return value

    def device(self, index: int, handle: Any) -> None:
        """Everything about one GPU."""
        for function in DEVICE_CALLS:
            self.ask(function, [index], handle)
        for newer, older in FALLBACKS.items():
            if self.ask(newer, [index], handle) is None:
                self.ask(older, [index], handle)
        for kind, counter in ECC_KINDS:
            self.ask("nvmlDeviceGetTotalEccErrors", [index, kind, counter], handle, kind, counter)
        self.links(index, handle)
        self.fabric(index, handle)
        self.mig(index, handle)

    def links(self, index: int, handle: Any) -> None:
        """NVLink by NVLink, up to the first number that the board does not have."""
        for link in range(self.nvml.NVML_NVLINK_MAX_LINKS):
            if self.ask("nvmlDeviceGetNvLinkState", [index, link], handle, link) is None:
                return

    def fabric(self, index: int, handle: Any) -> None:
        """Fabric state: NVML fills a structure that must carry its version (drivers before 545 know only the first)."""
        for function, kind in (
            ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t"),
            ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t"),
        ):
            try:
                info = getattr(self.nvml, kind)()
                getattr(self.nvml, function)(handle, self.nvml.byref(info))
            except AttributeError:
                say(fn=function, args=[index], error="NVML_ERROR_FUNCTION_NOT_FOUND")
            except self.nvml.NVMLError as problem:
                say(fn=function, args=[index], error=self.name_of(problem))
                if self.name_of(problem) != "NVML_ERROR_FUNCTION_NOT_FOUND":
                    return
            else:
                value = {
                    "state": info.state,
                    "status": self.names.get(info.status, str(info.status)),
                    "cliqueId": info.cliqueId,
                    "healthMask": getattr(info, "healthMask", None),
                }
                say(fn=function, args=[index], value=value)
                return

    def mig(self, index: int, handle: Any) -> None:
        """MIG mode, and the instances when it is on."""
        mode = self.ask("nvmlDeviceGetMigMode", [index], handle)
        if mode is None or not mode[0]:
            return
        for number in range(self.ask("nvmlDeviceGetMaxMigDeviceCount", [index], handle) or 0):
            function = "nvmlDeviceGetMigDeviceHandleByIndex"
            try:
                getattr(self.nvml, function)(handle, number)
            except self.nvml.NVMLError as problem:
                say(fn=function, args=[index, number], error=self.name_of(problem))
            else:
                say(fn=function, args=[index, number], value=True)


def main(args: List[str]) -> None:
    """Print init, devices and calls as JSON lines, and say when all was said."""
    look()
    say(done=True)


def look() -> None:
    """Everything the probes ask of NVML."""
    from doctor.probes.children.no_exec import forbid_changes  # ctypes: only in the child

    say(guarded=forbid_changes())
    try:
        import pynvml as nvml
    except ImportError:
        say(init=None, error=NO_PYNVML)
        return
    asker = Asker(nvml)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as problem:
        say(init=asker.name_of(problem))
        return
    say(init="ok")
    asker.ask("nvmlSystemGetDriverVersion", [])
    asker.ask("nvmlSystemGetNVMLVersion", [])
    asker.ask("nvmlSystemGetCudaDriverVersion_v2", [])
    handles = {}
    devices = {}
    for index in range(asker.ask("nvmlDeviceGetCount", []) or 0):
        devices[str(index)] = "unopened-%d" % index
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as problem:
            say(fn="nvmlDeviceGetHandleByIndex", args=[index], error=asker.name_of(problem))
            continue
        uuid = asker.ask("nvmlDeviceGetUUID", [index], handle)
        if uuid is not None:
            devices[str(index)] = as_json(uuid)
        handles[index] = handle
        say(fn="nvmlDeviceGetHandleByIndex", args=[index], value=True)
    say(devices=devices)
    for index, handle in handles.items():
        asker.device(index, handle)


def say(**answer: Any) -> None:
    """One line at once: the parent reads whatever came before a hang."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


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
