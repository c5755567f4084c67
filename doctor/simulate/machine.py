"""The machine of a simulated host: hardware, container marks, distribution, C library, clock and process."""

from __future__ import annotations

from doctor.simulate.host import Host
from doctor.simulate.sizes import size
from doctor.simulate.writer import RecordingWriter

NOW = 1_796_000_000
"""The simulated moment, in seconds since the epoch."""
BOOTED = NOW - 3 * 86_400
CONTAINER_MARKS = {"docker": "/.dockerenv", "podman": "/run/.containerenv"}


def write(host: Host, out: RecordingWriter) -> None:
    """Exactly what the host probe reads."""
    d = host.d
    out.file("/proc/sys/kernel/hostname", d.name + "\n")
    out.file("/proc/sys/kernel/osrelease", host.kernel + "\n")
    out.file("/proc/sys/kernel/arch", host.machine + "\n")
    out.file("/proc/sys/kernel/random/boot_id", "0d0c1023-51d0-4d00-8000-000000000001\n")
    out.file("/proc/stat", f"cpu  1 2 3 4\nbtime {BOOTED}\nprocesses 4242\n")
    out.file("/proc/uptime", f"{NOW - BOOTED}.00 1000.00\n")
    memory = (size(d.wsl.memory, "wsl.memory") if d.wsl and d.wsl.memory else size(d.mem)) // 1024
    out.file(
        "/proc/meminfo",
        f"MemTotal: {memory} kB\nMemFree: {memory // 2} kB\nMemAvailable: {memory * 9 // 10} kB\n",
    )
    out.file("/sys/devices/system/cpu/online", f"0-{d.cpus - 1}\n" if d.cpus > 1 else "0\n")
    out.file("/etc/resolv.conf", "nameserver 192.0.2.53\n")
    out.file("/proc/cpuinfo", _cpuinfo(host))
    out.process["euid"] = 0 if d.root else 1000
    out.process["sudo"] = d.sudo
    _identity(host, out)
    _marks(host, out)
    _distribution(host, out)
    _services(host, out)


def _cpuinfo(host: Host) -> str:
    if host.machine == "aarch64":
        return "processor\t: 0\nFeatures\t: fp asimd\n"
    virtual = " hypervisor" if host.d.platform in ("vm", "wsl2") else ""
    return f"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme sse2 avx512f{virtual}\n"


def _identity(host: Host, out: RecordingWriter) -> None:
    if host.d.platform == "jetson":
        l4t = host.d.l4t or "36.4.3"
        major, _, rest = l4t.partition(".")
        out.file(
            "/etc/nv_tegra_release",
            f"# R{major} (release), REVISION: {rest}, GCID: 1, BOARD: generic, EABI: aarch64\n",
        )
        out.file("/proc/device-tree/compatible", "nvidia,p3768-0000+p3767-0000\0nvidia,tegra234\0")
        return
    if host.d.platform == "wsl2":
        return
    vendor, product = (
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)")
        if host.d.platform == "vm"
        else ("Supermicro", "SYS-821GE-TNHR")
    )
    out.file("/sys/class/dmi/id/sys_vendor", vendor + "\n")
    out.file("/sys/class/dmi/id/product_name", product + "\n")


def _marks(host: Host, out: RecordingWriter) -> None:
    if host.in_container:
        runtime = host.d.container_runtime
        out.file("/proc/1/cgroup", "0::/\n")
        out.file("/proc/mounts", "overlay / overlay rw,relatime 0 0\n")
        out.file("/proc/2/comm", "python3\n")
        if runtime == "kubernetes":
            out.process["env"]["KUBERNETES_SERVICE_HOST"] = "192.0.2.1"
        else:
            out.file(CONTAINER_MARKS.get(runtime, "/.dockerenv"))
        return
    out.file("/proc/1/cgroup", "0::/init.scope\n")
    out.file("/proc/mounts", "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n")
    out.file("/proc/2/comm", "kthreadd\n")


def _distribution(host: Host, out: RecordingWriter) -> None:
    out.file("/etc/os-release", host.os_release)
    if host.family == "rhel" and host.distro_id != "amzn":
        out.file("/etc/redhat-release", f"{host.pretty_name}\n")
    if host.d.glibc == "musl":
        said = f"musl libc ({host.machine})\nVersion 1.2.5\nDynamic Program Loader\n"
        out.command(["ldd", "--version"], rc=1, stderr=said)
        return
    maker = {
        "ubuntu": f"(Ubuntu GLIBC {host.glibc}-0ubuntu8)",
        "debian": f"(Debian GLIBC {host.glibc}-9)",
    }
    out.command(
        ["ldd", "--version"],
        f"ldd {maker.get(host.distro_id, '(GNU libc)')} {host.glibc}\nCopyright (C) Free Software Foundation, Inc.\n",
    )


def _services(host: Host, out: RecordingWriter) -> None:
    if host.in_container:
        return
    if host.d.platform == "wsl2":
        on = host.d.wsl is None or host.d.wsl.systemd
        out.file("/etc/wsl.conf", f"[boot]\nsystemd={'true' if on else 'false'}\n")
        if not on:
            return
    else:
        out.folder("/run/systemd/timesync")
        if host.d.clock_synchronized:
            out.file("/run/systemd/timesync/synchronized")
    out.folder("/run/systemd/system")
    out.command(["systemctl", "is-system-running"], "running\n")
