"""RDMA devices and network interfaces in sysfs."""

from __future__ import annotations

from doctor.simulate.host import Host
from doctor.simulate.writer import RecordingWriter

STATES = {"up": "4: ACTIVE", "down": "1: DOWN", "init": "2: INIT", "armed": "3: ARMED"}


def write(host: Host, out: RecordingWriter) -> None:
    """`mlx5_0:up` or `mlx5_0:up:ethernet`; one port a device. HGX boards of NVLink 5 have
    bridges of their own.
    """
    for item in host.d.infiniband:
        device, _, rest = item.partition(":")
        state, _, layer = rest.partition(":")
        where = f"/sys/class/infiniband/{device}/ports/1/"
        out.file(where + "state", STATES.get(state or "up", state) + "\n")
        out.file(where + "link_layer", ("Ethernet" if layer == "ethernet" else "InfiniBand") + "\n")
        out.file(where + "rate", "400 Gb/sec (4X NDR)\n")
    for name, state in {"lo": "unknown", **(host.d.interfaces or {"eth0": "up"})}.items():
        out.file(f"/sys/class/net/{name}/operstate", state + "\n")
