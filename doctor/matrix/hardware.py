"""Rows about drivers, CUDA toolkits, GPUs and what a GPU reports when it fails."""

import datetime
from typing import ClassVar, Literal

from doctor.facts.versions import ComputeCapability, CudaVersion, DriverBranch, DriverVersion
from doctor.matrix.row import Row

ModuleFlavor = Literal["open", "proprietary"]
OpenModules = Literal["required", "supported", "unsupported"]


class Branch(Row, frozen=True, kw_only=True):
    """A driver branch: its kind, end of life, native CUDA level and kernel-module flavours."""

    KEY: ClassVar = ("branch",)

    branch: DriverBranch
    cuda: CudaVersion
    status: Literal["active", "eol"]
    modules: tuple[ModuleFlavor, ...]
    kind: str | None = None
    eol: str | None = None
    first: DriverVersion | None = None
    latest: DriverVersion | None = None
    latest_on: datetime.date | None = None

    def eol_date(self) -> datetime.date | None:
        """The last day of the published end-of-life month, or None where none is published."""
        if self.eol is None:
            return None
        year, month = (int(part) for part in self.eol.split("-"))
        after = datetime.date(year + month // 12, month % 12 + 1, 1)
        return after - datetime.timedelta(days=1)

    def is_eol(self, on: datetime.date) -> bool:
        """Whether it has ended on that day; without a published month the status decides."""
        last = self.eol_date()
        return self.status == "eol" and on >= self.as_of if last is None else on > last

    @property
    def is_long_lived(self) -> bool:
        """Whether it is a long-term or a production branch, the kinds a server should be on."""
        return bool(self.kind and self.kind.startswith(("Long Term", "Production")))


class CudaToolkit(Row, frozen=True, kw_only=True):
    """A CUDA toolkit and its two driver columns: packaged with it, and oldest to run it."""

    KEY: ClassVar = ("cuda",)

    cuda: CudaVersion
    label: str
    branch: DriverBranch
    min_run: DriverVersion
    packaged: DriverVersion | None = None
    packaged_from: Literal["release-notes-table", "installer-file-name", "branch-only"]
    installer: DriverVersion | None = None
    packaged_windows: DriverVersion | None = None
    installer_windows: DriverVersion | None = None
    forward_compat: str
    forward_compat_driver: DriverVersion | None = None
    bundles_driver: bool
    bundles_driver_windows: bool


class CudaMajor(Row, frozen=True, kw_only=True):
    """The oldest driver that runs what a CUDA major built (minor-version compatibility)."""

    KEY: ClassVar = ("major",)

    major: str
    min_run: DriverVersion
    min_run_windows: DriverVersion | None = None
    documented_range: str | None = None


class ForwardCompat(Row, frozen=True, kw_only=True):
    """The older driver branches that a cuda-compat package may sit on, as NVIDIA's image says."""

    KEY: ClassVar = ("cuda",)

    cuda: CudaVersion
    package: str
    driver_branches: tuple[DriverBranch, ...]
    brands: tuple[str, ...] = ()

    @property
    def require(self) -> str:
        """The NVIDIA_REQUIRE_CUDA of the nvidia/cuda image of this release."""
        alternatives = [
            f"brand={brand},driver>={branch.number},driver<{branch.number + 1}"
            for branch in self.driver_branches
            for brand in self.brands
        ]
        return " ".join([f"cuda>={self.cuda}", *alternatives])


class Gpu(Row, frozen=True, kw_only=True):
    """A family of GPUs, known by the names that the driver reports.

    `listed_by` is a driver whose own list names the family, where no source says which was first.
    """

    KEY: ClassVar = ("family",)

    family: str
    names: str
    examples: tuple[str, ...] = ()
    market: Literal["datacenter", "workstation", "geforce", "embedded"] | None = None
    architecture: str
    compute_capability: ComputeCapability
    first_cuda: CudaVersion
    last_cuda: CudaVersion | None = None
    first_branch: DriverBranch | None = None
    last_branch: DriverBranch | None = None
    min_driver: DriverVersion | None = None
    listed_by: DriverVersion | None = None
    open_modules: OpenModules | None = None
    fp8: bool | None = None
    fp4: bool | None = None
    fp4_formats: tuple[str, ...] = ()
    ecc: bool | None = None
    ecc_note: str | None = None
    nvlink: bool | None = None
    nvlink_note: str | None = None
    nvswitch_possible: bool | None = None
    mig: bool | None = None
    forward_compat: bool | None = None
    integrated: bool = False


class Architecture(Row, frozen=True, kw_only=True):
    """A compute capability: its compiler target, the toolkits and drivers that know it."""

    KEY: ClassVar = ("compute_capability",)

    compute_capability: ComputeCapability
    sm: str
    name: str
    first_cuda: CudaVersion | None = None
    last_cuda: CudaVersion | None = None
    last_branch: DriverBranch | None = None
    fp8: bool | None = None
    fp4: bool | None = None


class PciDevice(Row, frozen=True, kw_only=True):
    """A PCI device id of vendor 10de and the product it is, for hosts without a driver to ask.

    `also` are the names of boards with the same device id and another subsystem id.
    """

    KEY: ClassVar = ("device",)

    device: str
    name: str
    kind: Literal["gpu", "nvswitch"] = "gpu"
    also: tuple[str, ...] = ()
    chip: str | None = None
    compute_capability: ComputeCapability | None = None
    family: str | None = None


class Xid(Row, frozen=True, kw_only=True):
    """A code that the kernel driver logs as "NVRM: Xid": what it means and what to do."""

    KEY: ClassVar = ("code",)

    code: int
    name: str
    meaning: str
    severity: Literal["fatal", "non-fatal", "informational", "unexpected", "not-stated"]
    do: str | None = None
    immediate: str | None = None
    investigate: str | None = None
    domain: str | None = None
