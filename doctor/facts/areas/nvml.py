"""What NVML answers, per GPU."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class GpuProcess(Record, frozen=True, kw_only=True):
    """A process with a context on the GPU."""

    pid: int
    memory: int | None = None
    """Bytes."""


class RemappedRows(Record, frozen=True, kw_only=True):
    """Row remapper state."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class Gpu(Record, frozen=True, kw_only=True):
    """One GPU. NotApplicable: NVML says the board does not support the question."""

    index: int
    opened: Fact[str] = NOT_PROBED
    """ok, or the NVML error with which the device refused to be opened; then nothing else of it is known."""
    name: Fact[str] = NOT_PROBED
    pci: Fact[str] = NOT_PROBED
    """Address as in sysfs, for example 0000:00:06.0."""
    compute_capability: Fact[str] = NOT_PROBED
    """For example 9.0."""
    memory_total: Fact[int] = NOT_PROBED
    """Bytes."""
    memory_used: Fact[int] = NOT_PROBED
    memory_free: Fact[int] = NOT_PROBED
    bar1_total: Fact[int] = NOT_PROBED
    ecc: Fact[bool] = NOT_PROBED
    ecc_pending: Fact[bool] = NOT_PROBED
    ecc_uncorrected: Fact[int] = NOT_PROBED
    """Volatile: since the driver was loaded."""
    ecc_uncorrected_aggregate: Fact[int] = NOT_PROBED
    remapped_rows: Fact[RemappedRows] = NOT_PROBED
    retired_pages_pending: Fact[bool] = NOT_PROBED
    mig: Fact[bool] = NOT_PROBED
    mig_pending: Fact[bool] = NOT_PROBED
    mig_instances: Fact[int] = NOT_PROBED
    persistence: Fact[bool] = NOT_PROBED
    compute_mode: Fact[str] = NOT_PROBED
    """default, exclusive-process, prohibited."""
    throttle: Fact[list[str]] = NOT_PROBED
    """Reasons now: gpu-idle, sw-power-cap, hw-slowdown, sw-thermal, hw-thermal, hw-power-brake, ..."""
    power_limit: Fact[int] = NOT_PROBED
    """Milliwatts."""
    power_limit_default: Fact[int] = NOT_PROBED
    vbios: Fact[str] = NOT_PROBED
    gsp_firmware: Fact[str] = NOT_PROBED
    pcie_generation: Fact[int] = NOT_PROBED
    pcie_generation_max: Fact[int] = NOT_PROBED
    pcie_width: Fact[int] = NOT_PROBED
    pcie_width_max: Fact[int] = NOT_PROBED
    nvlink_up: Fact[int] = NOT_PROBED
    nvlink_total: Fact[int] = NOT_PROBED
    fabric_state: Fact[str] = NOT_PROBED
    """not-supported, not-started, in-progress, completed."""
    fabric_status: Fact[str] = NOT_PROBED
    """NVML status name when the state is completed."""
    processes: Fact[list[GpuProcess]] = NOT_PROBED
    driver_model: Fact[str] = NOT_PROBED
    """WDDM, MCDM or TCC under WSL2."""
    virtualization: Fact[str] = NOT_PROBED
    """none, passthrough, vgpu, host-vgpu, host-vsga."""
    minor: Fact[int] = NOT_PROBED


class NvmlFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """init is the observation that nvidia-smi repeats."""

    init: Fact[str] = NOT_PROBED
    """ok or the NVML error name; Absent: no libnvidia-ml."""
    answered_by: Fact[str] = NOT_PROBED
    """pynvml or nvidia-smi."""
    driver_version: Fact[str] = NOT_PROBED
    version: Fact[str] = NOT_PROBED
    cuda_version: Fact[str] = NOT_PROBED
    """CUDA version the driver supports, for example 13.0."""
    gpus: Fact[dict[str, Gpu]] = NOT_PROBED
    """By UUID."""
