"""RDMA ports and interfaces from sysfs; a folder that is not there is no device, one that is closed is unknown."""

from __future__ import annotations

import pytest

from doctor.facts.tree import AREAS
from doctor.probes.areas import network
from doctor.simulate.memory import MemorySource
from doctor.simulate.writer import RecordingWriter

PORT = "/sys/class/infiniband/mlx5_0/ports/1/"


def host() -> RecordingWriter:
    out = RecordingWriter()
    out.file(
        "/proc/modules", "mlx5_ib 1 0 - Live 0x0\nib_umad 1 0 - Live 0x0\nnvidia 1 0 - Live 0x0\n"
    )
    out.file(PORT + "state", "4: ACTIVE\n")
    out.file(PORT + "link_layer", "InfiniBand\n")
    out.file(PORT + "rate", "400 Gb/sec (4X NDR)\n")
    for name, state in {"lo": "unknown", "ens5": "up", "docker0": "down"}.items():
        out.file(f"/sys/class/net/{name}/operstate", state + "\n")
    return out


def test_host_with_a_port() -> None:
    facts = network.probe(MemorySource(host()))
    assert set(facts) == set(AREAS["network"].__struct_fields__)
    assert facts["rdma_ports"].value == [
        {
            "device": "mlx5_0",
            "port": 1,
            "state": "ACTIVE",
            "link_layer": "InfiniBand",
            "rate": "400 Gb/sec (4X NDR)",
        }
    ]
    assert facts["rdma_modules"].value == ["ib_umad", "mlx5_ib"]
    assert facts["peermem"].state == "absent"
    assert facts["interfaces"].value == ["docker0", "ens5", "lo"]
    assert facts["interfaces_up"].value == ["ens5"]


def test_host_without_rdma() -> None:
    assert network.probe(MemorySource(RecordingWriter()))["rdma_ports"].value == []


def test_closed_folder_is_unknown() -> None:
    out = host()
    out.denied("/sys/class/infiniband")
    assert network.probe(MemorySource(out))["rdma_ports"].state == "unknown"


@pytest.mark.parametrize("text", [b"", b"ACTIVE\n", b"4:\n", b"\xff\n"])
def test_port_state_that_is_something_else(text: bytes) -> None:
    out = host()
    out.file(PORT + "state", text)
    assert network.probe(MemorySource(out))["rdma_ports"].state == "unknown"


def test_peer_memory_module() -> None:
    out = host()
    out.file("/proc/modules", "nvidia_peermem 1 0 - Live 0x0\n")
    assert network.probe(MemorySource(out))["peermem"].value == "nvidia_peermem"


def test_modules_in_other_words() -> None:
    out = host()
    out.file("/proc/modules", "Module Size Used\n")
    facts = network.probe(MemorySource(out))
    assert {facts["peermem"].state, facts["rdma_modules"].state} == {"unknown"}
