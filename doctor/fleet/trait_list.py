"""The traits, lowest in the stack first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doctor.checks.finding import Severity
from doctor.facts.distribution import parse
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable, Unknown
from doctor.facts.tree import Facts
from doctor.fleet.traits import (
    DISTRIBUTION,
    GPUS,
    Trait,
    as_text,
    distinct,
    of_gpus,
    plain,
    said,
    tally,
)

WARN, INFO = Severity.WARN, Severity.INFO
ENGINES = ("vllm", "torch", "tensorrt-llm", "tensorrt", "flashinfer-python")


def _or(fact: Any, read: Callable[[Any], str]) -> str:
    """What `read` makes of the value; absence in words; FactUnknown when it was not seen."""
    return said(fact) if isinstance(fact, (Absent, NotApplicable)) else read(fact.value)


def _distribution(facts: Facts) -> str:
    def pretty(text: str) -> str:
        try:
            return parse(text).pretty
        except ValueError as error:
            raise FactUnknown(str(error), "/etc/os-release") from None

    return _or(facts.host.os_release, pretty)


def _memory(facts: Facts) -> str:
    """In steps of a thirty-second of the next power of two, for kernels keep some back."""
    gib = facts.host.memory.value / 2**30
    step = max(2 ** max(int(gib - 1), 1).bit_length() / 32, 0.25)
    return f"about {round(gib / step) * step:g} GiB"


def _on_bus(facts: Facts) -> str:
    return _or(facts.pci.gpus, lambda found: tally(f"10de:{item.device}" for item in found))


def _switches(facts: Facts) -> str:
    return _or(facts.pci.nvswitches, lambda found: str(len(found)))


def _numa(facts: Facts) -> str:
    return _or(
        facts.pci.gpus, lambda found: tally(f"node {said(item.numa_node)}" for item in found)
    )


def _acs(facts: Facts) -> str:
    return _or(facts.pci.acs, lambda found: str(sum(item.redirect for item in found)))


def _rdma(facts: Facts) -> str:
    return _or(
        facts.network.rdma_ports,
        lambda found: tally(f"{item.link_layer} {item.rate or ''} {item.state}" for item in found),
    )


def _nccl_wheels(facts: Facts) -> str:
    return _or(facts.nccl.wheels, lambda found: distinct(found.values()))


def _toolkits(facts: Facts) -> str:
    return _or(facts.cuda.toolkits, lambda found: distinct(item.version or "?" for item in found))


def _unattended(facts: Facts) -> str:
    return _or(facts.packages.unattended, lambda found: as_text(found.enabled))


def _unit(name: str, title: str) -> Trait:
    def read(facts: Facts) -> str:
        return _or(getattr(facts.fabric, name), lambda unit: str(unit.active))

    return Trait(path=f"fabric.{name}.active", title=title, read=read)


def _installed(package: str) -> Trait:
    def read(facts: Facts) -> str:
        found = facts.python_env.environments
        unread = facts.python_env.unread
        if isinstance(unread, Unknown):
            raise FactUnknown(unread.reason, unread.via)
        if isinstance(unread, Known) and unread.value:
            raise FactUnknown(f"{unread.value[0]} could not be read", "site-packages")
        return _or(
            found,
            lambda places: distinct(
                item.packages[package] for item in places if package in item.packages
            ),
        )

    return Trait(path=f"python_env.{package}", title=f"{package} in Python", read=read)


def _limit(scope: str, name: str) -> Trait:
    def read(facts: Facts) -> str:
        def pair(limits: Any) -> str:
            found = getattr(limits, name)
            if found is None:
                return "not said"
            return "/".join("unlimited" if number == -1 else str(number) for number in found)

        return _or(getattr(facts.limits, scope), pair)

    return Trait(
        path=f"limits.{scope}.{name}",
        title=f"{name} limit ({scope})",
        read=read,
        severity=INFO if scope == "systemd" else WARN,
        given=("host.memory",) if name == "nproc" else (),
    )


def _of(path: str, title: str, read: Callable[[Facts], str], *given: str) -> Trait:
    return Trait(path=path, title=title, read=read, given=given)


TRAITS: tuple[Trait, ...] = (
    plain("host.hardware", "platform"),
    plain("host.container", "inside a container"),
    plain("host.machine", "architecture"),
    plain("host.cpus", "CPUs"),
    _of("host.memory", "memory", _memory),
    _of(DISTRIBUTION, "distribution", _distribution),
    of_gpus("name", "GPUs"),
    _of("pci.gpus", "GPUs on the bus", _on_bus),
    _of("pci.nvswitches", "NVSwitches on the bus", _switches, "pci.gpus"),
    _of("pci.gpus.numa_node", "NUMA nodes of GPUs", _numa, "pci.gpus"),
    _of("pci.acs", "bridges with ACS redirect", _acs, "pci.gpus"),
    of_gpus("vbios", "VBIOS"),
    of_gpus("ecc", "ECC"),
    of_gpus("mig", "MIG"),
    of_gpus("persistence", "persistence mode"),
    of_gpus("compute_mode", "compute mode"),
    of_gpus("power_limit", "power limit, mW"),
    of_gpus("bar1_total", "BAR1, bytes"),
    of_gpus("pcie_width", "PCIe lanes"),
    of_gpus("pcie_generation_max", "PCIe generation"),
    of_gpus("nvlink_up", "NVLinks up"),
    of_gpus("fabric_state", "fabric state"),
    plain("kernel.running", "kernel", WARN, DISTRIBUTION),
    plain("kernel.next_boot", "kernel of the next boot", WARN, DISTRIBUTION),
    plain("kernel.secure_boot", "Secure Boot"),
    plain("kernel.lockdown", "kernel lockdown", INFO),
    plain("kernel.iommu_mode", "IOMMU"),
    plain("kernel.modprobe_options", "options of GPU modules"),
    plain("driver.loaded", "driver, loaded"),
    plain("driver.package", "driver, packaged"),
    plain("driver.disk_next", "driver of the next boot"),
    plain("driver.library", "driver, user space"),
    plain("driver.firmware", "GSP firmware"),
    plain("driver.flavor", "kernel module flavour"),
    plain("nvml.cuda_version", "CUDA of the driver"),
    plain("fabric.manager_version", "fabric manager", WARN, GPUS),
    plain("fabric.nvlsm_version", "NVLink subnet manager", WARN, GPUS),
    plain("fabric.imex_version", "IMEX", WARN, GPUS),
    _unit("manager", "fabric manager's service"),
    _unit("persistenced", "persistence daemon"),
    _unit("dcgm", "DCGM"),
    _of("cuda.toolkits", "CUDA toolkits", _toolkits),
    plain("cuda.default_toolkit", "default CUDA toolkit"),
    plain("cuda.cudnn", "cuDNN of the system"),
    plain("nccl.system", "NCCL of the system"),
    _of("nccl.wheels", "NCCL of wheels", _nccl_wheels),
    plain("nccl.environment", "NCCL variables"),
    plain("nccl.conf", "nccl.conf"),
    *(_installed(package) for package in ENGINES),
    _of("network.rdma_ports", "RDMA ports", _rdma),
    plain("network.peermem", "GPUDirect RDMA module"),
    plain("container.docker_version", "Docker", WARN, DISTRIBUTION),
    plain("container.docker_from", "Docker's origin"),
    plain("container.docker_default_runtime", "Docker's default runtime"),
    plain("container.docker_cgroup_driver", "Docker's cgroup driver"),
    plain("container.docker_live_restore", "Docker's live-restore"),
    plain("container.containerd_version", "containerd", WARN, DISTRIBUTION),
    plain("container.podman_version", "Podman", WARN, DISTRIBUTION),
    plain("container.toolkit_version", "container toolkit"),
    plain("container.toolkit_mode", "container toolkit's mode"),
    plain("container.cgroup_version", "cgroups"),
    plain("container.selinux", "SELinux"),
    *(_limit("scope", name) for name in ("memlock", "stack", "nofile")),
    *(_limit("dockerd", name) for name in ("memlock", "stack", "nofile")),
    *(_limit("systemd", name) for name in ("memlock", "nofile")),
    _of("packages.unattended.enabled", "unattended upgrades", _unattended),
)
BY_PATH = {trait.path: trait for trait in TRAITS}
