"""What NVML says of the driver and of each GPU, asked in a disposable child; without pynvml, what `nvidia-smi -q -x` prints."""

import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from doctor.probes.children.nvml_child import NO_PYNVML
from doctor.probes.fact import Fact, known, not_applicable, unknown
from doctor.probes.source import Source

THROTTLE = (
    (0x1, "gpu-idle"),
    (0x2, "applications-clocks"),
    (0x4, "sw-power-cap"),
    (0x8, "hw-slowdown"),
    (0x10, "sync-boost"),
    (0x20, "sw-thermal"),
    (0x40, "hw-thermal"),
    (0x80, "hw-power-brake"),
    (0x100, "display-clocks"),
)
"""nvmlClocksEventReason* of nvml.h."""
COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
DRIVER_MODELS = {0: "WDDM", 1: "TCC", 2: "MCDM"}
FABRIC_STATES = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}
LAST_LINK = ("NVML_ERROR_INVALID_ARGUMENT", "not asked")
"""What the number after a board's last link answers; the child asks no further."""
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}


def probe(src: Source) -> Dict[str, Fact]:
    """-> the fields of doctor.facts.areas.nvml."""
    init = src.nvml_init()
    if init.state == "unknown" and init.reason == NO_PYNVML:
        return _from_smi(src, init)
    return {
        "init": init,
        "answered_by": known("pynvml", "nvmlInit") if init.ok else init,
        "driver_version": src.nvml("nvmlSystemGetDriverVersion"),
        "version": src.nvml("nvmlSystemGetNVMLVersion"),
        "cuda_version": src.nvml("nvmlSystemGetCudaDriverVersion_v2").map(cuda_text),
        "gpus": _gpus(src),
    }


def cuda_text(number: int) -> str:
    """13000 -> 13.0."""
    return "%d.%d" % (number // 1000, number % 1000 // 10)


def sysfs_address(bus_id: str) -> str:
    """NVML's 00000000:00:06.0 -> sysfs's 0000:00:06.0."""
    domain, _, rest = bus_id.lower().partition(":")
    if not re.fullmatch(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", rest):
        raise ValueError("not a bus address: %s" % bus_id)
    return "%04x:%s" % (int(domain, 16), rest)


def throttle_names(mask: int) -> List[str]:
    """Names of the reasons in the mask."""
    return [name for bit, name in THROTTLE if mask & bit]


def _gpus(src: Source) -> Fact:
    devices = src.nvml_devices()
    if not devices.ok:
        return devices
    if not all(str(index).isdecimal() for index in devices.value):
        return unknown("NVML's devices are not numbered", devices.via)
    order = sorted(devices.value.items(), key=lambda item: int(item[0]))
    return known({uuid: _gpu(src, int(index)) for index, uuid in order}, devices.via)


def _gpu(src: Source, index: int) -> Dict[str, Any]:
    handle = src.nvml("nvmlDeviceGetHandleByIndex", index)
    if handle.state == "unknown" and handle.reason.startswith("NVML_ERROR"):
        return {"index": index, "opened": known(handle.reason, handle.via)}

    def ask(function: str, parse: Optional[Callable[[Any], Any]] = None) -> Fact:
        fact = src.nvml(function, index)
        return fact if parse is None else fact.map(parse)

    ecc, mig = ask("nvmlDeviceGetEccMode"), ask("nvmlDeviceGetMigMode")
    memory = ask("nvmlDeviceGetMemoryInfo")
    fabric = _fabric(src, index)
    up, total = _links(src, index)
    return {
        "index": index,
        "opened": known("ok", "nvmlDeviceGetHandleByIndex"),
        "name": ask("nvmlDeviceGetName"),
        "pci": ask("nvmlDeviceGetPciInfo", lambda info: sysfs_address(info["busId"])),
        "compute_capability": ask(
            "nvmlDeviceGetCudaComputeCapability", lambda pair: "%d.%d" % tuple(pair)
        ),
        "memory_total": memory.map(lambda info: info["total"]),
        "memory_used": memory.map(lambda info: info["used"]),
        "memory_free": memory.map(lambda info: info["free"]),
        "bar1_total": ask("nvmlDeviceGetBAR1MemoryInfo", lambda info: info["bar1Total"]),
        "ecc": ecc.map(lambda pair: bool(pair[0])),
        "ecc_pending": ecc.map(lambda pair: bool(pair[1])),
        "ecc_uncorrected": src.nvml("nvmlDeviceGetTotalEccErrors", index, 1, 0),
        "ecc_uncorrected_aggregate": src.nvml("nvmlDeviceGetTotalEccErrors", index, 1, 1),
        "remapped_rows": ask("nvmlDeviceGetRemappedRows", remapped),
        "retired_pages_pending": ask("nvmlDeviceGetRetiredPagesPendingStatus", bool),
        "mig": mig.map(lambda pair: bool(pair[0])),
        "mig_pending": mig.map(lambda pair: bool(pair[1])),
        "mig_instances": _mig_instances(src, index, mig),
        "persistence": ask("nvmlDeviceGetPersistenceMode", bool),
        "compute_mode": ask("nvmlDeviceGetComputeMode", lambda number: COMPUTE_MODES[number]),
        "throttle": _throttle(src, index),
        "power_limit": ask("nvmlDeviceGetPowerManagementLimit"),
        "power_limit_default": ask("nvmlDeviceGetPowerManagementDefaultLimit"),
        "vbios": ask("nvmlDeviceGetVbiosVersion"),
        "gsp_firmware": ask("nvmlDeviceGetGspFirmwareVersion"),
        "pcie_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_generation_max": ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "pcie_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "nvlink_up": up,
        "nvlink_total": total,
        "fabric_state": fabric.map(lambda info: FABRIC_STATES[info["state"]]),
        "fabric_status": fabric.map(lambda info: info["status"]),
        "processes": ask("nvmlDeviceGetComputeRunningProcesses", processes),
        "driver_model": ask(
            "nvmlDeviceGetDriverModel",
            lambda pair: DRIVER_MODELS[pair[0] if isinstance(pair, list) else pair],
        ),
        "virtualization": ask("nvmlDeviceGetVirtualizationMode", lambda mode: VIRTUALIZATION[mode]),
        "minor": ask("nvmlDeviceGetMinorNumber"),
    }


def remapped(rows: List[int]) -> Dict[str, Any]:
    """[correctable, uncorrectable, pending, failed]."""
    correctable, uncorrectable, pending, failed = rows
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failed": bool(failed),
    }


def processes(entries: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """[{"pid", "memory"}]; memory is None where the driver does not say."""
    return [{"pid": item["pid"], "memory": item.get("usedGpuMemory")} for item in entries]


def _throttle(src: Source, index: int) -> Fact:
    newer = src.nvml("nvmlDeviceGetCurrentClocksEventReasons", index)
    if newer.state == "not-applicable":
        newer = src.nvml("nvmlDeviceGetCurrentClocksThrottleReasons", index)
    return newer.map(throttle_names)


def _fabric(src: Source, index: int) -> Fact:
    newer = src.nvml("nvmlDeviceGetGpuFabricInfoV", index)
    if newer.state == "not-applicable" and "FUNCTION_NOT_FOUND" in newer.reason:
        return src.nvml("nvmlDeviceGetGpuFabricInfo", index)
    return newer


def _links(src: Source, index: int) -> Tuple[Fact, Fact]:
    """Links that are up and links that the board has; NotApplicable for a board without NVLink."""
    states: List[int] = []
    while True:
        fact = src.nvml("nvmlDeviceGetNvLinkState", index, len(states))
        if not fact.ok:
            break
        states.append(fact.value)
    past_the_last = fact.state == "not-applicable" or fact.reason in LAST_LINK
    if not past_the_last:
        return fact, fact
    if not states:
        none = not_applicable("no NVLink")
        return none, none
    return known(sum(states), fact.via), known(len(states), fact.via)


def _mig_instances(src: Source, index: int, mode: Fact) -> Fact:
    if not mode.ok:
        return mode
    if not mode.value[0]:
        return not_applicable("MIG is off")
    most = src.nvml("nvmlDeviceGetMaxMigDeviceCount", index)
    if not most.ok:
        return most
    function = "nvmlDeviceGetMigDeviceHandleByIndex"
    answers = [src.nvml(function, index, number) for number in range(most.value)]
    lost = [fact for fact in answers if fact.state == "unknown"]
    return lost[0] if lost else known(sum(fact.ok for fact in answers), function)


# nvidia-smi -q -x ------------------------------------------------------------------------------------------------------


def _from_smi(src: Source, init: Fact) -> Dict[str, Fact]:
    """nvidia-smi may load the module and make nodes: it is asked only when they are there already."""
    fields = ("init", "answered_by", "driver_version", "version", "cuda_version", "gpus")
    for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl"):
        there = src.stat(path)
        if there.state == "absent":
            reason = "pynvml is not installed and %s is not there to ask nvidia-smi" % path
            return {name: unknown(reason, "nvidia-smi") for name in fields}
    answer = src.run(["nvidia-smi", "-q", "-x"], timeout=10.0, ok=None)
    if answer.state == "absent":
        return dict.fromkeys(fields, init)
    parsed = answer.map(lambda done: parse_smi(done.stdout, done.rc))
    if not parsed.ok:
        return dict.fromkeys(fields, parsed)
    via = "nvidia-smi -q -x"
    found = parsed.value
    query = ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"]
    capabilities = src.run(query, timeout=10.0).map(lambda done: parse_capabilities(done.stdout))
    for uuid, gpu in found["gpus"].items():
        gpu["compute_capability"] = _row(capabilities, uuid)
    return {
        "init": known("ok", via),
        "answered_by": known("nvidia-smi", via),
        "driver_version": known(found["driver_version"], via),
        "version": unknown("nvidia-smi -q -x does not say", via),
        "cuda_version": known(found["cuda_version"], via),
        "gpus": known(found["gpus"], via),
    }


def parse_smi(text: str, rc: int) -> Any:
    """`nvidia-smi -q -x` -> {"driver_version", "cuda_version", "gpus"}; Unknown with its words when it failed."""
    if rc != 0 or "<nvidia_smi_log>" not in text:
        said = text.strip().splitlines()
        return unknown("nvidia-smi: %s" % (said[0][:200] if said else "exit %d" % rc))
    import xml.etree.ElementTree as ElementTree  # only where pynvml is not: 5 ms to import

    try:
        root = ElementTree.fromstring(text[text.index("<nvidia_smi_log>") :])  # noqa: S314 - own tool's output, no DTD
    except ElementTree.ParseError as error:
        raise ValueError("not XML: %s" % error) from error
    gpus = {}
    for index, element in enumerate(root.findall("gpu")):
        uuid = _text(element, "uuid")
        gpus[uuid or "unopened-%d" % index] = _smi_gpu(index, element)
    return {
        "driver_version": _text(root, "driver_version"),
        "cuda_version": _text(root, "cuda_version"),
        "gpus": gpus,
    }


def _row(table: Fact, key: str) -> Fact:
    return table.map(lambda rows: rows[key])


def parse_capabilities(text: str) -> Dict[str, str]:
    """`nvidia-smi --query-gpu=uuid,compute_cap --format=csv,noheader` -> {uuid: "9.0"}."""
    rows = [line.split(",") for line in text.splitlines() if line.strip()]
    return {row[0].strip(): row[1].strip() for row in rows}


def _text(element: Any, path: str) -> Optional[str]:
    found = element.findtext(path)
    return found.strip() if found is not None else None


def _smi_gpu(index: int, element: Any) -> Dict[str, Any]:
    def take(path: str, parse: Callable[[str], Any] = str) -> Fact:
        text = _text(element, path)
        if text is None:
            return unknown("nvidia-smi -q -x has no %s" % path, "nvidia-smi -q -x")
        if text in ("N/A", "[N/A]", "None", "[Not Supported]"):
            return not_applicable("%s: %s" % (path, text))
        return known(text, "nvidia-smi -q -x").map(parse)

    on = {"Enabled": True, "Disabled": False, "Yes": True, "No": False}.__getitem__
    rows = [
        take("remapped_rows/remapped_row_" + name) for name in ("corr", "unc", "pending", "failure")
    ]
    volatile = [take("ecc_errors/volatile/" + name, int) for name in SMI_UNCORRECTED]
    aggregate = [take("ecc_errors/aggregate/" + name, int) for name in SMI_UNCORRECTED]
    return {
        "index": index,
        "opened": known("ok", "nvidia-smi -q -x"),
        "name": take("product_name"),
        "pci": take("pci/pci_bus_id", sysfs_address),
        "memory_total": take("fb_memory_usage/total", mib),
        "memory_used": take("fb_memory_usage/used", mib),
        "memory_free": take("fb_memory_usage/free", mib),
        "bar1_total": take("bar1_memory_usage/total", mib),
        "ecc": take("ecc_mode/current_ecc", on),
        "ecc_pending": take("ecc_mode/pending_ecc", on),
        "ecc_uncorrected": _sum(volatile),
        "ecc_uncorrected_aggregate": _sum(aggregate),
        "remapped_rows": _smi_rows(rows, on),
        "retired_pages_pending": take("retired_pages/pending_retirement", on),
        "mig": take("mig_mode/current_mig", on),
        "mig_pending": take("mig_mode/pending_mig", on),
        "mig_instances": _smi_instances(element),
        "persistence": take("persistence_mode", on),
        "compute_mode": take("compute_mode", lambda text: text.lower().replace("_", "-")),
        "throttle": _smi_throttle(element),
        "power_limit": take("gpu_power_readings/current_power_limit", milliwatts),
        "power_limit_default": take("gpu_power_readings/default_power_limit", milliwatts),
        "vbios": take("vbios_version"),
        "gsp_firmware": take("gsp_firmware_version"),
        "pcie_generation": take("pci/pci_gpu_link_info/pcie_gen/current_link_gen", int),
        "pcie_generation_max": take("pci/pci_gpu_link_info/pcie_gen/max_link_gen", int),
        "pcie_width": take("pci/pci_gpu_link_info/link_widths/current_link_width", _width),
        "pcie_width_max": take("pci/pci_gpu_link_info/link_widths/max_link_width", _width),
        "nvlink_up": unknown("nvidia-smi -q -x does not say", "nvidia-smi -q -x"),
        "nvlink_total": unknown("nvidia-smi -q -x does not say", "nvidia-smi -q -x"),
        "fabric_state": take("fabric/state", lambda text: text.lower().replace(" ", "-")),
        "fabric_status": take(
            "fabric/status", lambda text: "NVML_SUCCESS" if text == "Success" else text
        ),
        "processes": known(_smi_processes(element), "nvidia-smi -q -x"),
        "driver_model": take("driver_model/current_dm"),
        "virtualization": take(
            "gpu_virtualization_mode/virtualization_mode",
            lambda text: text.lower().replace("-", ""),
        ),
        "minor": take("minor_number", int),
    }


SMI_UNCORRECTED = ("sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable")


def mib(text: str) -> int:
    """'143771 MiB' -> bytes."""
    number, unit = text.split()
    return int(number) * {"MiB": 1 << 20, "GiB": 1 << 30}[unit]


def milliwatts(text: str) -> int:
    """'700.00 W' -> 700000."""
    return int(float(text.split()[0]) * 1000)


def _width(text: str) -> int:
    return int(text.rstrip("x"))


def _sum(facts: List[Fact]) -> Fact:
    bad = [fact for fact in facts if not fact.ok]
    return bad[0] if bad else known(sum(fact.value for fact in facts), facts[0].via)


def _smi_rows(rows: List[Fact], on: Callable[[str], bool]) -> Fact:
    bad = [fact for fact in rows if not fact.ok]
    if bad:
        return bad[0]
    values = [fact.value for fact in rows]
    return rows[0].map(
        lambda _: remapped([int(values[0]), int(values[1]), on(values[2]), on(values[3])])
    )


def _smi_instances(element: Any) -> Fact:
    if _text(element, "mig_mode/current_mig") != "Enabled":
        return not_applicable("MIG is off")
    return known(len(element.findall("mig_devices/mig_device")), "nvidia-smi -q -x")


def _smi_throttle(element: Any) -> Fact:
    for name, prefix in (
        ("clocks_event_reasons", "clocks_event_reason_"),
        ("clocks_throttle_reasons", "clocks_throttle_reason_"),
    ):
        group = element.find(name)
        if group is not None:
            names = [item.tag[len(prefix) :] for item in group if item.text == "Active"]
            return known(
                [SMI_THROTTLE.get(item, item.replace("_", "-")) for item in names],
                "nvidia-smi -q -x",
            )
    return unknown("nvidia-smi -q -x does not say", "nvidia-smi -q -x")


SMI_THROTTLE = {
    "applications_clocks_setting": "applications-clocks",
    "hw_thermal_slowdown": "hw-thermal",
    "hw_power_brake_slowdown": "hw-power-brake",
    "sw_thermal_slowdown": "sw-thermal",
    "display_clocks_setting": "display-clocks",
}


def _smi_processes(element: Any) -> List[Dict[str, Any]]:
    found = []
    for item in element.findall("processes/process_info"):
        used = _text(item, "used_memory") or ""
        number = int(_text(item, "pid") or 0)
        if _text(item, "type") != "G":
            found.append({"pid": number, "memory": mib(used) if used.endswith("iB") else None})
    return found
