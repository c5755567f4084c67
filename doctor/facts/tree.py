"""The whole tree of facts: one area per probe, and its JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.facts.areas import container as container_area
from doctor.facts.areas import cuda as cuda_area
from doctor.facts.areas import driver as driver_area
from doctor.facts.areas import fabric as fabric_area
from doctor.facts.areas import host as host_area
from doctor.facts.areas import kernel as kernel_area
from doctor.facts.areas import limits as limits_area
from doctor.facts.areas import nccl as nccl_area
from doctor.facts.areas import network as network_area
from doctor.facts.areas import nvml as nvml_area
from doctor.facts.areas import packages as packages_area
from doctor.facts.areas import pci as pci_area
from doctor.facts.areas import python_env as python_area
from doctor.facts.areas import storage as storage_area
from doctor.facts.areas import wsl as wsl_area
from doctor.facts.model import Area, FactUnknown, Unknown

SCHEMA = "doctor.facts/1"


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that was looked at on one host."""

    host: host_area.HostFacts = host_area.HostFacts()
    wsl: wsl_area.WslFacts = wsl_area.WslFacts()
    kernel: kernel_area.KernelFacts = kernel_area.KernelFacts()
    pci: pci_area.PciFacts = pci_area.PciFacts()
    packages: packages_area.PackageFacts = packages_area.PackageFacts()
    driver: driver_area.DriverFacts = driver_area.DriverFacts()
    nvml: nvml_area.NvmlFacts = nvml_area.NvmlFacts()
    cuda: cuda_area.CudaFacts = cuda_area.CudaFacts()
    python_env: python_area.PythonFacts = python_area.PythonFacts()
    nccl: nccl_area.NcclFacts = nccl_area.NcclFacts()
    fabric: fabric_area.FabricFacts = fabric_area.FabricFacts()
    network: network_area.NetworkFacts = network_area.NetworkFacts()
    container: container_area.ContainerFacts = container_area.ContainerFacts()
    limits: limits_area.LimitFacts = limits_area.LimitFacts()
    storage: storage_area.StorageFacts = storage_area.StorageFacts()


AREAS: dict[str, type[Area]] = {
    "host": host_area.HostFacts,
    "wsl": wsl_area.WslFacts,
    "kernel": kernel_area.KernelFacts,
    "pci": pci_area.PciFacts,
    "packages": packages_area.PackageFacts,
    "driver": driver_area.DriverFacts,
    "nvml": nvml_area.NvmlFacts,
    "cuda": cuda_area.CudaFacts,
    "python_env": python_area.PythonFacts,
    "nccl": nccl_area.NcclFacts,
    "fabric": fabric_area.FabricFacts,
    "network": network_area.NetworkFacts,
    "container": container_area.ContainerFacts,
    "limits": limits_area.LimitFacts,
    "storage": storage_area.StorageFacts,
}
"""Area name -> its type; the name is also the probe's module."""


def decode(facts: dict[str, Any]) -> Facts:
    """JSON facts of an envelope -> Facts.

    An area whose probe failed ({"": unknown}), or whose answer does not have its type, is Unknown as a whole;
    the other areas stay. So a newer, older or lying probe costs what it got wrong and nothing else.
    """
    areas: dict[str, Any] = {}
    for name, kind in AREAS.items():
        raw = facts.get(name)
        if raw is None:
            continue
        if not isinstance(raw, dict):
            areas[name] = unseen(kind, "not an object", name)
        elif "" in raw:
            problem = raw[""] if isinstance(raw[""], dict) else {}
            areas[name] = unseen(kind, str(problem.get("reason", "the probe failed")), name)
        else:
            areas[name] = _decode_area(kind, raw, name)
    return Facts(**areas)


def _decode_area(kind: type[Area], raw: dict[str, Any], name: str) -> Area:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        pass
    fields: dict[str, Any] = {}
    for field in kind.__struct_fields__:
        if field not in raw:
            continue
        try:
            fields[field] = getattr(msgspec.convert({field: raw[field]}, kind), field)
        except msgspec.ValidationError as error:
            fields[field] = Unknown(f"the probe's answer is malformed: {error}", f"{name}.{field}")
    return kind(**fields)


def unseen(kind: type[Area], reason: str, via: str) -> Area:
    """An area in which nothing was seen, for one reason."""
    return kind(**{field: Unknown(reason, via) for field in kind.__struct_fields__})


def encode(facts: Facts) -> dict[str, Any]:
    """Facts -> the JSON of an envelope."""
    value: dict[str, Any] = msgspec.to_builtins(facts)
    return value


def lookup(facts: Facts, path: str) -> Any:
    """The fact at `area.name`; FactUnknown when there is no such path."""
    area, _, name = path.partition(".")
    try:
        return getattr(getattr(facts, area), name)
    except AttributeError:
        raise FactUnknown(f"no fact is called {path}", path) from None


def paths() -> list[str]:
    """Every `area.name`."""
    return [f"{area}.{name}" for area, kind in AREAS.items() for name in kind.__struct_fields__]
