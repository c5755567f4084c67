"""What kind of machine this is: hardware, container, distribution text, C library, memory, clock and the judged process.

Other probes ask `container_of` and `is_wsl` here, so that all agree on where they are.
"""

import re
from typing import Any, Dict, List, Optional

from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.source import Completed, Source

IN_CONTAINER = "inside a container; look on the host"
"""Why a fact of the host does not apply in a container."""

_VENDORS = (
    ("vmware", "vmware"),
    ("innotek", "virtualbox"),
    ("virtualbox", "virtualbox"),
    ("parallels", "parallels"),
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("red hat", "kvm"),
    ("openstack", "kvm"),
    ("google compute engine", "kvm"),
    ("digitalocean", "kvm"),
    ("amazon ec2", "kvm"),
    ("alibaba cloud ecs", "kvm"),
    ("bochs", "bochs"),
    ("xen", "xen"),
    ("nutanix", "kvm"),
    ("apple virtualization", "apple"),
    ("bhyve", "bhyve"),
    ("cloud-hypervisor", "kvm"),
)
"""Words of the DMI vendor and product that only a virtual machine has."""

_CGROUP_WORDS = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("/docker", "docker"),
    ("containerd", "containerd"),
    ("/lxc", "lxc"),
    ("machine.slice/machine-", "nspawn"),
)


def probe(src: Source) -> Dict[str, Fact]:
    """The machine, its operating system and the process that asks."""
    process = src.process().value
    hypervisor = hypervisor_of(src)
    seconds = src.read("/proc/stat").map(parse_btime)
    meminfo = src.read("/proc/meminfo")
    return {
        "name": src.read("/proc/sys/kernel/hostname").map(lambda text: text.strip()),
        "hardware": hardware_of(src, hypervisor),
        "hypervisor": hypervisor,
        "container": container_of(src),
        "machine": machine_of(src),
        "os_release": os_release_of(src),
        "redhat_release": src.read("/etc/redhat-release").map(lambda text: text.strip()),
        "glibc": glibc_of(src),
        "memory": meminfo.map(lambda text: parse_meminfo(text, "MemTotal")),
        "memory_available": meminfo.map(lambda text: parse_meminfo(text, "MemAvailable")),
        "cpus": src.read("/sys/devices/system/cpu/online").map(parse_cpu_list),
        "boot_id": src.read("/proc/sys/kernel/random/boot_id").map(lambda text: text.strip()),
        "boot_time": seconds,
        "clock_synchronized": clock_of(src),
        "time": _now(src, seconds),
        "dns": src.read("/etc/resolv.conf").map(parse_resolv),
        "euid": _of_process(process, "euid"),
        "sudo": _of_process(process, "sudo"),
        "scope": _of_process(process, "scope"),
        "systemd": systemd_of(src),
        "l4t": l4t_of(src),
    }


def release_of(src: Source) -> Fact:
    """The running kernel's release, as uname -r."""
    return src.read("/proc/sys/kernel/osrelease").map(lambda text: text.strip())


def is_wsl(src: Source) -> bool:
    """Whether the running kernel is Microsoft's for WSL2."""
    release = release_of(src)
    return release.ok and "microsoft" in release.value.lower()


def is_jetson(src: Source) -> bool:
    """Whether this is a Tegra board."""
    if src.stat("/etc/nv_tegra_release").ok:
        return True
    compatible = src.read("/proc/device-tree/compatible")
    return compatible.ok and "tegra" in compatible.value


def container_of(src: Source) -> Fact:
    """Which container runtime this runs in; Known("none") outside any.

    A marker file alone proves nothing: an image that was unpacked as a machine's disk still has /.dockerenv.
    There the kernel's own threads are visible and the root is not an overlay.
    """
    marked = _container_mark(src)
    if not marked.ok or marked.value == "none":
        return marked
    kernel_thread = src.read("/proc/2/comm")
    threads_seen = kernel_thread.ok and kernel_thread.value.strip() == "kthreadd"
    if threads_seen or kernel_thread.state == "unknown":
        root = src.read("/proc/mounts").map(root_filesystem)
        if root.ok and root.value not in ("overlay", "aufs", "fuse-overlayfs"):
            if threads_seen:
                return known("none", "/proc/2/comm, /proc/mounts")
            return unknown(
                "%s; %s alone proves nothing" % (kernel_thread.reason, marked.via),
                kernel_thread.via,
            )
    return marked


def _container_mark(src: Source) -> Fact:
    manager = src.read("/run/systemd/container")
    if manager.ok and manager.value.strip() not in ("", "wsl"):
        return known(_runtime_name(manager.value.strip()), manager.via)
    variable = src.env("KUBERNETES_SERVICE_HOST")
    if variable.ok:
        return known("kubernetes", variable.via)
    if src.stat("/run/.containerenv").ok:
        return known("podman", "/run/.containerenv")
    if src.stat("/.dockerenv").ok:
        return known("docker", "/.dockerenv")
    groups = src.read("/proc/1/cgroup")
    if groups.ok:
        for word, name in _CGROUP_WORDS:
            if word in groups.value:
                return known(name, groups.via)
        return known("none", "/.dockerenv, /run/.containerenv, /proc/1/cgroup")
    if groups.state == "absent":
        return known("none", "/.dockerenv, /run/.containerenv")
    return unknown(groups.reason, groups.via)


def _runtime_name(word: str) -> str:
    names = {
        "docker": "docker",
        "podman": "podman",
        "lxc": "lxc",
        "lxc-libvirt": "lxc",
        "oci": "containerd",
    }
    return names.get(word, "other")


def root_filesystem(mounts: str) -> Any:
    """Type of the file system mounted at /; "rootfs" when the table does not say."""
    kind = "rootfs"
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) > 2 and parts[1] == "/":
            kind = parts[2]
    return kind


def in_container(src: Source) -> bool:
    """Whether it is known that this is inside a container."""
    inside = container_of(src)
    return inside.ok and inside.value != "none"


def hypervisor_of(src: Source) -> Fact:
    """kvm, vmware, hyperv, xen, ...; "unidentified" for a virtual machine that does not say; Absent on bare metal."""
    if is_wsl(src):
        return known("hyperv", "/proc/sys/kernel/osrelease")
    vendor = src.read("/sys/class/dmi/id/sys_vendor")
    product = src.read("/sys/class/dmi/id/product_name")
    named = " ".join(item.value.strip() for item in (vendor, product) if item.ok)
    found = hypervisor_in(named)
    if found:
        return known(found, "/sys/class/dmi/id")
    xen = src.read("/sys/hypervisor/type")
    if xen.ok:
        return known(xen.value.strip(), xen.via)
    cpu = src.read("/proc/cpuinfo")
    if cpu.ok and re.search(r"^flags\s*:.*\bhypervisor\b", cpu.value, re.M):
        return known("unidentified", cpu.via)
    tree = src.read("/proc/device-tree/hypervisor/compatible")
    if tree.ok:
        return known("kvm" if "kvm" in tree.value else tree.value.strip("\0\n"), tree.via)
    if cpu.ok and (named or re.search(r"^flags\s*:", cpu.value, re.M)):
        return absent("/sys/class/dmi/id, /proc/cpuinfo")
    if cpu.ok:
        return unknown(
            "neither DMI nor the CPU says whether this is a virtual machine", "/sys/class/dmi/id"
        )
    return Fact(
        cpu.state if cpu.state == "unknown" else "unknown", None, cpu.reason or "not there", cpu.via
    )


def hypervisor_in(named: str) -> Optional[str]:
    """The hypervisor that a DMI vendor and product name, if they name one."""
    low = named.lower()
    if "microsoft corporation" in low:
        return "hyperv" if "virtual machine" in low else None
    if low.startswith("amazon ec2") and ".metal" in low:
        return None
    for word, name in _VENDORS:
        if word in low:
            return name
    return None


def hardware_of(src: Source, hypervisor: Fact) -> Fact:
    """bare-metal, vm, wsl2 or jetson."""
    if is_wsl(src):
        return known("wsl2", "/proc/sys/kernel/osrelease")
    if is_jetson(src):
        return known("jetson", "/etc/nv_tegra_release")
    if hypervisor.ok:
        return known("vm", hypervisor.via)
    if hypervisor.state == "absent":
        return known("bare-metal", hypervisor.via)
    return hypervisor


def machine_of(src: Source) -> Fact:
    """x86_64 or aarch64, by the loaders the kernel's architecture has; "other" names nothing else."""
    arch = src.read("/proc/sys/kernel/arch")
    if arch.ok:
        return arch.map(lambda text: text.strip())
    done = src.run(["uname", "-m"])
    return done.map(lambda out: out.stdout.strip() or unknown("empty answer"))


def os_release_of(src: Source) -> Fact:
    """The text of os-release."""
    fact = src.read("/etc/os-release")
    return fact if fact.state != "absent" else src.read("/usr/lib/os-release")


def glibc_of(src: Source) -> Fact:
    """Version of the GNU C library; Absent on musl."""
    return src.run(["ldd", "--version"], ok=(0, 1)).map(parse_ldd)


def parse_ldd(done: Completed) -> Any:
    """First line of ldd --version: "ldd (Ubuntu GLIBC 2.39-0ubuntu8.4) 2.39" -> 2.39."""
    text = done.stdout or done.stderr
    if "musl" in text:
        return absent("ldd --version: musl")
    first = text.splitlines()[0] if text.strip() else ""
    found = re.search(r"(\d+\.\d+)\s*$", first)
    return found.group(1) if found else unknown("no version in %r" % first[:80])


def parse_meminfo(text: str, name: str) -> Any:
    """Bytes of one line of /proc/meminfo."""
    found = re.search(r"^%s:\s+(\d+) kB" % name, text, re.M)
    return int(found.group(1)) * 1024 if found else unknown("no %s line" % name)


def parse_btime(text: str) -> int:
    """Seconds since the epoch when this machine started, from /proc/stat."""
    found = re.search(r"^btime (\d+)", text, re.M)
    if not found:
        raise ValueError("no btime line")
    return int(found.group(1))


def parse_cpu_list(text: str) -> int:
    """ "0-3,8" -> 5."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def parse_resolv(text: str) -> List[str]:
    """Name servers in order."""
    return re.findall(r"^\s*nameserver\s+(\S+)", text, re.M)


def clock_of(src: Source) -> Fact:
    """Whether a time service says that the clock is right; Absent when none runs."""
    if in_container(src):
        return not_applicable(IN_CONTAINER)
    if is_wsl(src):
        return not_applicable("WSL2 takes its time from Windows")
    if src.stat("/run/systemd/timesync/synchronized").ok:
        return known(True, "/run/systemd/timesync/synchronized")
    if src.stat("/run/chrony").ok:
        tracking = src.run(["chronyc", "-n", "tracking"], timeout=2.0)
        if tracking.state != "absent":
            return tracking.map(parse_tracking)
    if src.stat("/run/systemd/timesync").ok:
        return known(False, "/run/systemd/timesync/synchronized")
    other = src.first(["/run/ntpd.pid", "/run/ntpsec", "/run/openntpd"])
    if other.ok:
        return unknown("ntpd is not asked", other.value)
    none = src.first(["/run/systemd/timesync", "/run/chrony", "/run/ntpd.pid"])
    return unknown("there is nothing to ask it with", none.via) if none.ok else none


def parse_tracking(done: Completed) -> bool:
    """chronyc tracking: the leap status is Not synchronised until the clock is right."""
    found = re.search(r"^Leap status\s*:\s*(.+)$", done.stdout, re.M)
    if not found:
        raise ValueError("no leap status")
    return found.group(1).strip().lower() != "not synchronised"


def _now(src: Source, boot: Fact) -> Fact:
    uptime = src.read("/proc/uptime").map(lambda text: float(text.split()[0]))
    if not boot.ok:
        return Fact(boot.state, None, boot.reason, boot.via)
    return uptime.map(lambda seconds: int(boot.value + seconds), "/proc/stat, /proc/uptime")


def systemd_of(src: Source) -> Fact:
    """running, degraded, starting, ...; Absent where process 1 is something else."""
    if src.stat("/run/systemd/system").state == "absent":
        return absent("/run/systemd/system")
    done = src.run(["systemctl", "is-system-running"], timeout=2.0, ok=None)
    return done.map(lambda out: out.stdout.strip() or unknown("systemctl did not say"))


def l4t_of(src: Source) -> Fact:
    """Release of Jetson Linux, for example 36.4.3."""
    if not is_jetson(src):
        return not_applicable("not a Jetson")
    return src.read("/etc/nv_tegra_release").map(parse_tegra)


def parse_tegra(text: str) -> str:
    """ "# R36 (release), REVISION: 4.3, ..." -> 36.4.3."""
    found = re.search(r"R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)", text)
    if not found:
        raise ValueError("no release in nv_tegra_release")
    return "%s.%s" % found.groups()


def _of_process(process: Dict[str, Any], name: str) -> Fact:
    if process.get(name) is None:
        return unknown(str(process.get("error") or "not said"), "process")
    return known(process[name], "process")
