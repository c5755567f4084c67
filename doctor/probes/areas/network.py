"""RDMA ports, their modules and network interfaces, from sysfs."""

from typing import Any, Dict, List

from doctor.probes.fact import Fact, absent, known
from doctor.probes.source import Source

RDMA_PREFIXES = ("ib_", "mlx4_", "mlx5_", "rdma_", "iw_", "irdma", "efa", "bnxt_re")
PEERMEM = ("nvidia_peermem", "nv_peer_mem")


def probe(src: Source) -> Dict[str, Fact]:
    """-> rdma_ports, peermem, rdma_modules, interfaces, interfaces_up."""
    modules = src.read("/proc/modules").map(parse_modules)
    interfaces = src.listdir("/sys/class/net").map(_interfaces)
    return {
        "rdma_ports": rdma_ports(src),
        "peermem": peermem(modules),
        "rdma_modules": modules.map(
            lambda names: [n for n in names if n.startswith(RDMA_PREFIXES)]
        ),
        "interfaces": interfaces,
        "interfaces_up": _running(src, interfaces),
    }


def parse_modules(text: str) -> List[str]:
    """/proc/modules -> names, sorted. A line that does not start with a name is a ValueError."""
    names = []
    for line in text.splitlines():
        if not line.strip():
            continue
        parts = line.split()
        if len(parts) < 3 or not parts[1].isdigit():
            raise ValueError("not a line of /proc/modules: %s" % line[:60])
        names.append(parts[0].replace("-", "_"))
    return sorted(names)


def peermem(modules: Fact) -> Fact:
    """The loaded peer memory module; Absent when none is."""

    def pick(names: List[str]) -> Any:
        for name in PEERMEM:
            if name in names:
                return name
        return absent("/proc/modules")

    return modules.map(pick)


def rdma_ports(src: Source) -> Fact:
    """-> [{"device", "port", "state", "link_layer", "rate"}]; Known([]) without RDMA devices."""
    root = "/sys/class/infiniband"
    devices = src.listdir(root)
    if devices.state == "absent":
        return known([], root)
    if not devices.ok:
        return devices
    ports: List[Dict[str, Any]] = []
    for device in devices.value:
        numbers = src.listdir("%s/%s/ports" % (root, device))
        if numbers.state == "absent":
            continue
        if not numbers.ok:
            return numbers
        for number in numbers.value:
            where = "%s/%s/ports/%s/" % (root, device, number)
            state = src.read(where + "state").map(parse_port_state)
            layer = src.read(where + "link_layer").map(lambda text: text.strip())
            for fact in (state, layer):
                if not fact.ok:
                    return Fact("unknown", None, fact.reason or "not there", fact.via)
            rate = src.read(where + "rate")
            ports.append(
                {
                    "device": device,
                    "port": int(number) if number.isdigit() else 0,
                    "state": state.value,
                    "link_layer": layer.value,
                    "rate": rate.value.strip() if rate.ok else None,
                }
            )
    return known(ports, root)


def parse_port_state(text: str) -> str:
    """`4: ACTIVE` -> ACTIVE."""
    number, colon, name = text.strip().partition(":")
    if not colon or not number.strip().isdigit() or not name.strip():
        raise ValueError("not a port state: %s" % text.strip()[:40])
    return name.strip()


def _interfaces(names: List[str]) -> List[str]:
    return [name for name in names if name != "bonding_masters"]


def _running(src: Source, interfaces: Fact) -> Fact:
    if not interfaces.ok:
        return interfaces
    up = []
    for name in interfaces.value:
        state = src.read("/sys/class/net/%s/operstate" % name)
        if not state.ok:
            return Fact("unknown", None, state.reason or "not there", state.via)
        if name != "lo" and state.value.strip() in ("up", "unknown"):
            up.append(name)
    return known(up, "/sys/class/net/*/operstate")
