"""NVML through the child, and through nvidia-smi where there is no binding."""

from __future__ import annotations

import ctypes
import json
from types import SimpleNamespace

import pytest

from doctor.probes.areas import nvml
from doctor.probes.children.nvml_child import NO_PYNVML, Asker, as_json
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate

SMI = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
 <driver_version>580.159.04</driver_version><cuda_version>13.0</cuda_version>
 <gpu id="00000000:00:06.0">
  <product_name>NVIDIA H200</product_name><uuid>GPU-1</uuid><minor_number>0</minor_number>
  <persistence_mode>Enabled</persistence_mode>
  <mig_mode><current_mig>Disabled</current_mig><pending_mig>N/A</pending_mig></mig_mode>
  <pci><pci_bus_id>00000000:00:06.0</pci_bus_id></pci>
  <fb_memory_usage><total>143771 MiB</total><used>0 MiB</used><free>143156 MiB</free></fb_memory_usage>
  <clocks_event_reasons>
   <clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
   <clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>
  </clocks_event_reasons>
  <gpu_power_readings><current_power_limit>700.00 W</current_power_limit></gpu_power_readings>
  <fabric><state>In Progress</state><status>N/A</status></fabric>
 </gpu>
</nvidia_smi_log>
"""


class FakeError(Exception):
    """As pynvml.NVMLError."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def fake(**calls: object) -> SimpleNamespace:
    return SimpleNamespace(
        NVMLError=FakeError,
        NVML_ERROR_NOT_SUPPORTED=3,
        NVML_ERROR_FUNCTION_NOT_FOUND=13,
        NVML_ERROR_INVALID_ARGUMENT=2,
        NVML_NVLINK_MAX_LINKS=18,
        byref=ctypes.byref,
        **calls,
    )


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_child_names_errors_and_missing_functions(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(handle: object) -> None:
        raise FakeError(3)

    asker = Asker(fake(nvmlDeviceGetEccMode=refuse))
    asker.ask("nvmlDeviceGetEccMode", [0], object())
    asker.ask("nvmlDeviceGetSomethingNew", [0], object())
    assert [line["error"] for line in said(capsys)] == [
        "NVML_ERROR_NOT_SUPPORTED",
        "NVML_ERROR_FUNCTION_NOT_FOUND",
    ]


def test_child_asks_links_up_to_the_first_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def state(handle: object, link: int) -> int:
        if link == 12:
            raise FakeError(2)
        return int(link != 3)

    Asker(fake(nvmlDeviceGetNvLinkState=state)).links(0, object())
    lines = said(capsys)
    assert len(lines) == 13
    assert lines[-1]["error"] == "NVML_ERROR_INVALID_ARGUMENT"


def test_child_fills_the_fabric_structure_and_falls_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Info(ctypes.Structure):
        _fields_ = [
            ("status", ctypes.c_uint),
            ("cliqueId", ctypes.c_uint),
            ("state", ctypes.c_uint),
        ]

    def newer(handle: object, info: object) -> None:
        raise FakeError(13)

    def older(handle: object, info: object) -> None:
        info._obj.state = 3  # type: ignore[attr-defined]

    asker = Asker(
        fake(
            c_nvmlGpuFabricInfo_v2_t=Info,
            c_nvmlGpuFabricInfo_t=Info,
            nvmlDeviceGetGpuFabricInfoV=newer,
            nvmlDeviceGetGpuFabricInfo=older,
        )
    )
    asker.fabric(0, object())
    lines = said(capsys)
    assert lines[0]["error"] == "NVML_ERROR_FUNCTION_NOT_FOUND"
    assert lines[1]["value"] == {
        "state": 3,
        "status": "NVML_SUCCESS",
        "cliqueId": 0,
        "healthMask": None,
    }


def test_binding_has_what_the_child_uses() -> None:
    import pynvml  # noqa: TID251 - the names are the binding's

    for name in (
        "c_nvmlGpuFabricInfo_v2_t",
        "c_nvmlGpuFabricInfo_t",
        "byref",
        "NVML_NVLINK_MAX_LINKS",
    ):
        assert hasattr(pynvml, name), name
    from doctor.probes.children.nvml_child import DEVICE_CALLS, FALLBACKS

    for name in (*DEVICE_CALLS, *FALLBACKS, *FALLBACKS.values()):
        assert hasattr(pynvml, name), name


def test_structures_and_bytes_as_json() -> None:
    assert as_json(b"NVIDIA\xff") == "NVIDIA\ufffd"
    assert as_json([1, (2, b"x")]) == [1, [2, "x"]]


def test_bus_ids_become_sysfs_addresses() -> None:
    assert nvml.sysfs_address("00000000:1B:00.0") == "0000:1b:00.0"
    assert nvml.sysfs_address("00010000:01:00.0") == "10000:01:00.0"
    with pytest.raises(ValueError, match="address"):
        nvml.sysfs_address("N/A")


def test_healthy_host() -> None:
    src = MemorySource(simulate({"gpus": [{"name": "NVIDIA H200", "count": 2}], "nvswitch": 4}))
    facts = nvml.probe(src)
    assert facts["init"].value == "ok"
    gpus = list(facts["gpus"].value.values())
    assert [gpu["index"] for gpu in gpus] == [0, 1]
    first = gpus[0]
    assert first["compute_capability"].value == "9.0"
    assert first["fabric_state"].value == "completed"
    assert (first["nvlink_up"].value, first["nvlink_total"].value) == (18, 18)
    assert first["mig_instances"].state == "not-applicable"


def test_a_hang_keeps_what_came_before() -> None:
    out = simulate({"gpus": ["NVIDIA L4"]})
    out.nvml["calls"].pop("nvmlDeviceGetVbiosVersion")
    out.nvml["error"] = "no answer in time"
    gpu = next(iter(nvml.probe(MemorySource(out))["gpus"].value.values()))
    assert gpu["name"].value == "NVIDIA L4"
    assert (gpu["vbios"].state, gpu["vbios"].reason) == ("unknown", "no answer in time")


def test_lost_gpu_is_listed_with_its_error() -> None:
    out = simulate({"gpus": ["NVIDIA L4", {"name": "NVIDIA L4", "on_bus": False}], "xid": [79]})
    gpus = nvml.probe(MemorySource(out))["gpus"].value
    assert [gpu["opened"].value for gpu in gpus.values()] == ["ok", "NVML_ERROR_GPU_IS_LOST"]


def test_devices_without_numbers_are_not_seen() -> None:
    out = simulate({"gpus": ["NVIDIA L4"]})
    out.nvml["devices"] = {"first": "GPU-1"}
    gpus = nvml.probe(MemorySource(out))["gpus"]
    assert (gpus.state, gpus.reason) == ("unknown", "NVML's devices are not numbered")


def smi_host(text: str, rc: int = 0) -> MemorySource:
    out = simulate({"gpus": ["NVIDIA H200"]})
    out.nvml.clear()
    out.nvml.update({"init": None, "error": NO_PYNVML})
    out.command(["nvidia-smi", "-q", "-x"], text, rc=rc)
    query = ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader"]
    out.command(query, "GPU-1, 9.0\n")
    return MemorySource(out)


def test_without_the_binding_nvidia_smi_answers() -> None:
    facts = nvml.probe(smi_host(SMI))
    assert facts["answered_by"].value == "nvidia-smi"
    gpu = facts["gpus"].value["GPU-1"]
    assert gpu["memory_total"].value == 143771 << 20
    assert gpu["compute_capability"].value == "9.0"
    assert gpu["throttle"].value == ["gpu-idle", "hw-thermal"]
    assert gpu["power_limit"].value == 700_000
    assert gpu["fabric_state"].value == "in-progress"
    assert gpu["mig_pending"].state == "not-applicable"
    assert gpu["vbios"].state == "unknown", "an element that is missing was not seen"


@pytest.mark.parametrize(
    ("text", "rc"),
    [
        ("", 9),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
        (SMI[: len(SMI) // 2], 0),
        ("Erreur : aucun périphérique", 0),
    ],
)
def test_smi_that_fails_or_is_cut_off_is_unknown(text: str, rc: int) -> None:
    facts = nvml.probe(smi_host(text, rc))
    assert {facts[name].state for name in ("init", "gpus")} == {"unknown"}


def test_smi_is_not_started_where_it_would_load_the_module() -> None:
    out = simulate({"gpus": ["NVIDIA H200"], "driver": {"loaded": "none"}})
    out.nvml.clear()
    out.nvml.update({"init": None, "error": NO_PYNVML})
    out.command(["nvidia-smi", "-q", "-x"], SMI)
    assert nvml.probe(MemorySource(out))["init"].state == "unknown"


def test_no_library_is_absent() -> None:
    facts = nvml.probe(MemorySource(simulate({"distro": "debian-12"})))
    assert facts["init"].state == "absent"
    assert facts["gpus"].state == "absent"
