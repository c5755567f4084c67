"""PCI devices as sysfs shows them."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class PciDevice(Record, frozen=True, kw_only=True):
    """One device. Link numbers are Absent where sysfs has none."""

    address: str
    vendor: str
    """Four hex digits."""
    device: str
    subsystem: str | None = None
    pci_class: str
    """Six hex digits: 030000 VGA, 030200 3D, 068000 bridge (NVSwitch), ..."""
    driver: Fact[str] = NOT_PROBED
    """Bound driver; Absent when none."""
    link_speed: Fact[str] = NOT_PROBED
    """GT/s now, for example 32.0."""
    link_speed_max: Fact[str] = NOT_PROBED
    link_width: Fact[int] = NOT_PROBED
    link_width_max: Fact[int] = NOT_PROBED
    bar1: Fact[int] = NOT_PROBED
    """Bytes of BAR1 from the resource file; Absent when it has no address."""
    numa_node: Fact[int] = NOT_PROBED
    iommu_group: Fact[str] = NOT_PROBED
    iommu_type: Fact[str] = NOT_PROBED
    """identity, DMA, DMA-FQ."""
    parent: str | None = None
    """Address of the upstream bridge."""


class AcsPort(Record, frozen=True, kw_only=True):
    """A bridge above a GPU with ACS request or completion redirect on."""

    address: str
    redirect: bool
    control: str


class PciFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices of vendor 10de, and the bridges above them."""

    gpus: Fact[list[PciDevice]] = NOT_PROBED
    """NVIDIA display and 3D controllers; Known([]) when the bus was read and has none."""
    nvswitches: Fact[list[PciDevice]] = NOT_PROBED
    other_gpus: Fact[list[PciDevice]] = NOT_PROBED
    """Display controllers of other vendors."""
    infiniband: Fact[list[PciDevice]] = NOT_PROBED
    acs: Fact[list[AcsPort]] = NOT_PROBED
    """Bridges above GPUs whose configuration space could be read."""
