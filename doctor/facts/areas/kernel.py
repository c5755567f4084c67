"""The kernel, its modules per release, and what the next boot will bring."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class ModuleFile(Record, frozen=True, kw_only=True):
    """One nvidia.ko (or the like) on disk."""

    kernel: str
    path: str
    version: str | None = None
    flavor: str | None = None
    """open or proprietary."""
    vermagic: str | None = None
    signer: str | None = None


class XidEvent(Record, frozen=True, kw_only=True):
    """One NVRM Xid line."""

    code: int
    pci: str
    text: str
    seconds: float | None = None
    """Since boot."""


class DkmsEntry(Record, frozen=True, kw_only=True):
    """One line of dkms status."""

    module: str
    version: str
    kernel: str | None = None
    state: str
    """added, built, installed, broken."""


class KernelFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NotApplicable for what only the host outside a container can know."""

    running: Fact[str] = NOT_PROBED
    next_boot: Fact[str] = NOT_PROBED
    """Release the boot loader will start; NotApplicable when the kernel comes from outside, as in some VMs."""
    installed: Fact[list[str]] = NOT_PROBED
    """Releases with a folder under /lib/modules that holds a kernel's modules."""
    version: Fact[str] = NOT_PROBED
    """/proc/version."""
    compiler: Fact[str] = NOT_PROBED
    """gcc or clang major.minor that built the running kernel, for example gcc 13.3."""
    gcc: Fact[str] = NOT_PROBED
    """Version of the default gcc; Absent when not installed."""
    compilers: Fact[list[str]] = NOT_PROBED
    """Major versions of gcc that are installed under their own name: gcc-12, gcc-toolset-14."""
    cmdline: Fact[str] = NOT_PROBED
    modules: Fact[list[str]] = NOT_PROBED
    """Loaded modules, dashes as underscores."""
    nvidia_files: Fact[list[ModuleFile]] = NOT_PROBED
    """nvidia.ko of every installed kernel."""
    nouveau_file: Fact[str] = NOT_PROBED
    """nouveau module of the running kernel."""
    nova_file: Fact[str] = NOT_PROBED
    """nova_core module of the running kernel."""
    headers: Fact[str] = NOT_PROBED
    """Folder of headers for the running kernel (/lib/modules/R/build resolves); Absent if not."""
    headers_next: Fact[str] = NOT_PROBED
    dkms: Fact[list[DkmsEntry]] = NOT_PROBED
    dkms_log: Fact[str] = NOT_PROBED
    """Tail of the newest failing make.log of the nvidia module."""
    blacklist: Fact[list[str]] = NOT_PROBED
    """Modules blacklisted in modprobe.d, on the command line or with install ... /bin/false."""
    modprobe_options: Fact[dict[str, str]] = NOT_PROBED
    """options lines of modprobe.d for nvidia*, nouveau."""
    modules_load: Fact[list[str]] = NOT_PROBED
    """Modules named in modules-load.d."""
    initramfs: Fact[str] = NOT_PROBED
    initramfs_stale: Fact[bool] = NOT_PROBED
    """A modprobe.d file about GPU modules is newer than the initramfs of the running kernel."""
    initramfs_stale_by: Fact[list[str]] = NOT_PROBED
    """Those files."""
    secure_boot: Fact[bool] = NOT_PROBED
    mok_pending: Fact[bool] = NOT_PROBED
    """A key waits to be enrolled at the next boot."""
    lockdown: Fact[str] = NOT_PROBED
    """none, integrity or confidentiality."""
    iommu_groups: Fact[int] = NOT_PROBED
    iommu_mode: Fact[str] = NOT_PROBED
    """off, passthrough or translated."""
    taint: Fact[int] = NOT_PROBED
    refused: Fact[list[str]] = NOT_PROBED
    """Log lines in which the kernel refused the nvidia module (key rejected, unsigned, lockdown)."""
    driver_log: Fact[list[str]] = NOT_PROBED
    """Last NVRM/nvidia lines of the kernel log."""
    xids: Fact[list[XidEvent]] = NOT_PROBED
    suspends: Fact[int] = NOT_PROBED
    """Times the host came back from a suspend since it started."""
    reboot_required: Fact[bool] = NOT_PROBED
    """/run/reboot-required; NotApplicable where the distribution sets no such flag."""
    reboot_packages: Fact[list[str]] = NOT_PROBED
    """Packages that asked for it."""
