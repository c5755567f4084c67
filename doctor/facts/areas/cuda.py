"""Whether the CUDA driver API starts, looked at in a disposable child."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class CudaLook(Record, frozen=True, kw_only=True):
    """One cuInit."""

    code: int
    count: int | None = None
    driver_version: str | None = None
    library: str | None = None
    """The libcuda file that was loaded."""


class Toolkit(Record, frozen=True, kw_only=True):
    """A CUDA toolkit folder."""

    path: str
    version: str | None = None
    nvcc: bool = False


class CudaFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """scope: with the environment of the judged scope; clean: without LD_* and CUDA_* variables."""

    scope: Fact[CudaLook] = NOT_PROBED
    """Absent: no libcuda.so.1 to load."""
    clean: Fact[CudaLook] = NOT_PROBED
    """NotApplicable when the scope look succeeded."""
    visible_devices: Fact[str] = NOT_PROBED
    """CUDA_VISIBLE_DEVICES; Absent when unset."""
    environment: Fact[dict[str, str]] = NOT_PROBED
    """CUDA_* and NVIDIA_* variables of the scope that matter."""
    toolkits: Fact[list[Toolkit]] = NOT_PROBED
    default_toolkit: Fact[str] = NOT_PROBED
    """Where /usr/local/cuda leads."""
    nvcc: Fact[str] = NOT_PROBED
    """Version of the nvcc on the scope's PATH."""
    cuda_home: Fact[str] = NOT_PROBED
    cudnn: Fact[str] = NOT_PROBED
    """Version of the system's cuDNN."""
