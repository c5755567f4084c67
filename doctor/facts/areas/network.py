"""InfiniBand and RDMA."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class RdmaPort(Record, frozen=True, kw_only=True):
    """One port of an RDMA device."""

    device: str
    port: int
    state: str
    """ACTIVE, DOWN, INIT, ARMED."""
    link_layer: str
    """InfiniBand or Ethernet."""
    rate: str | None = None


class NetworkFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only what NCCL over the network needs."""

    rdma_ports: Fact[list[RdmaPort]] = NOT_PROBED
    """Known([]) when /sys/class/infiniband is not there."""
    peermem: Fact[str] = NOT_PROBED
    """nvidia_peermem or nv_peer_mem when loaded."""
    rdma_modules: Fact[list[str]] = NOT_PROBED
    """Loaded ib_*, mlx5_*, rdma_* modules."""
    interfaces: Fact[list[str]] = NOT_PROBED
    """Names in /sys/class/net."""
    interfaces_up: Fact[list[str]] = NOT_PROBED
    """Those that run (operstate up or unknown), without lo."""
