"""What kind of machine this is."""

from doctor.facts.model import NOT_PROBED, Area, Fact


class HostFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Platform is a pair: hardware and container."""

    name: Fact[str] = NOT_PROBED
    """Host name."""
    hardware: Fact[str] = NOT_PROBED
    """bare-metal, vm, wsl2 or jetson."""
    hypervisor: Fact[str] = NOT_PROBED
    """kvm, vmware, hyperv, xen, firecracker, ...; Absent on bare metal."""
    container: Fact[str] = NOT_PROBED
    """docker, podman, containerd, lxc, kubernetes, other; Known("none") outside any."""
    machine: Fact[str] = NOT_PROBED
    """x86_64 or aarch64."""
    os_release: Fact[str] = NOT_PROBED
    """Text of /etc/os-release; parsed by doctor.facts.distribution."""
    redhat_release: Fact[str] = NOT_PROBED
    glibc: Fact[str] = NOT_PROBED
    """For example 2.39."""
    memory: Fact[int] = NOT_PROBED
    """Bytes of RAM (MemTotal)."""
    memory_available: Fact[int] = NOT_PROBED
    cpus: Fact[int] = NOT_PROBED
    boot_id: Fact[str] = NOT_PROBED
    boot_time: Fact[int] = NOT_PROBED
    """Seconds since the epoch (btime of /proc/stat)."""
    clock_synchronized: Fact[bool] = NOT_PROBED
    time: Fact[int] = NOT_PROBED
    """Seconds since the epoch at the probe."""
    dns: Fact[list[str]] = NOT_PROBED
    """Name servers of /etc/resolv.conf."""
    euid: Fact[int] = NOT_PROBED
    sudo: Fact[bool] = NOT_PROBED
    """Whether this runs under sudo, so that the caller's environment is not seen."""
    scope: Fact[str] = NOT_PROBED
    systemd: Fact[str] = NOT_PROBED
    """State of systemd (running, degraded, ...); Absent where process 1 is something else."""
    l4t: Fact[str] = NOT_PROBED
    """Jetson Linux release, for example 36.4.3; NotApplicable elsewhere."""
