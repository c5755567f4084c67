"""WSL2: the driver lives in Windows."""

from doctor.facts.model import NOT_PROBED, Area, Fact


class WslFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NotApplicable outside WSL2."""

    kernel: Fact[str] = NOT_PROBED
    dxg: Fact[bool] = NOT_PROBED
    """/dev/dxg is there."""
    lib_dir: Fact[list[str]] = NOT_PROBED
    """Names in /usr/lib/wsl/lib."""
    libcuda_is_link: Fact[bool] = NOT_PROBED
    """/usr/lib/wsl/lib/libcuda.so.1 is a link, as ldconfig expects."""
    linux_driver_packages: Fact[list[str]] = NOT_PROBED
    """Installed packages that bring a Linux kernel driver or its libraries."""
    linux_driver_libraries: Fact[list[str]] = NOT_PROBED
    """libcuda/libnvidia-ml copies of a Linux driver outside /usr/lib/wsl."""
    windows_driver: Fact[str] = NOT_PROBED
    """Version as NVML gives it."""
    systemd: Fact[bool] = NOT_PROBED
    """[boot] systemd=true in /etc/wsl.conf."""
    memory_limit: Fact[int] = NOT_PROBED
    """Bytes the VM was given (MemTotal)."""
