"""What is there: predicates that checks of several areas share. Each raises FactUnknown when it was not seen."""

from __future__ import annotations

from doctor.facts.areas.container import Running
from doctor.facts.model import FactUnknown, is_known, known_or
from doctor.facts.tree import Facts

DRIVER_LADDER = (
    "gpu.not-on-bus",
    "driver.not-installed",
    "driver.no-module-for-kernel",
    "driver.module-refused",
    "driver.gpu-held-by-other-module",
    "driver.library-mismatch",
)
"""Ids that explain why no GPU was counted."""

MANY_GPUS = 8
"""From this many workers on 1024 open files have run out (pytorch/pytorch#137695)."""

HAS_GPU = ("host.hardware", "pci.gpus", "wsl.dxg")
"""What has_gpu reads."""


def has_gpu(f: Facts) -> bool:
    """Whether the machine has an NVIDIA device, working or not."""
    hardware = f.host.hardware.value
    if hardware == "jetson":
        return True
    if hardware == "wsl2":
        return known_or(f.wsl.dxg, False)
    return bool(known_or(f.pci.gpus, []))


def gpu_count(f: Facts) -> int:
    """GPUs that NVML lists; reads nvml.gpus."""
    return len(known_or(f.nvml.gpus, {}))


def in_container(f: Facts) -> bool:
    """Whether this is inside a container; reads host.container."""
    return known_or(f.host.container, "none") != "none"


def docker_answers(f: Facts) -> bool:
    """Whether a Docker daemon answered; reads container.docker_socket. Refused and asleep are known to be no answer."""
    socket = f.container.docker_socket
    if is_known(socket) and socket.value == "denied":
        raise FactUnknown(
            "permission denied; run as root or as a member of the docker group",
            "/var/run/docker.sock",
        )
    return known_or(socket, "") == "answers"


def gpu_containers(f: Facts) -> list[Running]:
    """Running containers that asked for GPUs; reads container.running."""
    return [item for item in known_or(f.container.running, []) if item.gpus]


def rdma_active(f: Facts) -> bool:
    """Whether an RDMA port is up; reads network.rdma_ports."""
    return any("ACTIVE" in port.state.upper() for port in known_or(f.network.rdma_ports, []))
