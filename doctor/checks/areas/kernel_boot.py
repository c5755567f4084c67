"""Delayed traps of the kernel: what the next boot, reload or resume does to a driver that works now. Part of the area kernel."""

from __future__ import annotations

from doctor.checks.areas.advice import (
    blacklist,
    build_module,
    by_family,
    install,
    install_headers,
    rebuild_initramfs,
)
from doctor.checks.areas.kernel_module import dkms_entries, files_of, has_driver
from doctor.checks.areas.subject import elsewhere
from doctor.checks.base import INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Known, known_or
from doctor.facts.tree import Facts

MACHINE = ("host.hardware", "host.container", "host.os_release")


@check(
    "kernel.next-boot-no-module",
    title="The kernel of the next boot has an nvidia module",
    severity=WARN,
    needs=("driver.no-module-for-kernel",),
    reads=(
        *MACHINE,
        "kernel.running",
        "kernel.next_boot",
        "kernel.nvidia_files",
        "kernel.dkms",
        "driver.disk_next",
        "driver.package",
        "driver.disk",
        "driver.loaded",
    ),
    sources=("almalinux-technical-incident-report-nvidia-driver-almalinux-", "github-dell-dkms"),
    fix=Fix("give the next kernel its module before the reboot", remedy="kernel_headers"),
)
def next_boot_no_module(f: Facts, k: Knowledge) -> Result:
    """Works now, breaks at the next reboot: a kernel without nvidia.ko is the default."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not has_driver(f):
        return skipped("no driver is installed")
    following = f.kernel.next_boot.value
    disk = f.driver.disk_next.value if isinstance(f.driver.disk_next, Known) else None
    files = files_of(f, following)
    if disk is not None or files:
        what = f"nvidia {disk}" if disk is not None else files[0].path
        return passed(f"the next boot starts {following}, which has {what}")
    running = f.kernel.running.value
    return failed(
        f"the next boot starts {following}, which has no nvidia module (running: {running})",
        want=f"nvidia.ko under /lib/modules/{following}, or the running kernel as the default",
        say="build or install the module for that kernel, or keep the running kernel as the default",
        command=_give_module(f, following, running),
    )


def _give_module(f: Facts, following: str, running: str) -> str:
    if dkms_entries(f):
        return f"{install_headers(f, following)} && {build_module(following)}"
    branch = (known_or(f.driver.package, None) or "").partition(".")[0]
    if not branch:
        return f"{install_headers(f, following)}   # then install the driver again for that kernel"
    return by_family(
        f,
        debian=install(f, f"linux-modules-nvidia-{branch}-{following}"),
        rhel=f"sudo grubby --set-default /boot/vmlinuz-{running}",
    )


@check(
    "kernel.nouveau-returns",
    title="No other driver of the kernel can take the GPU at the next boot",
    severity=WARN,
    needs=("driver.gpu-held-by-other-module",),
    reads=(
        *MACHINE,
        "pci.gpus",
        "kernel.nouveau_file",
        "kernel.nova_file",
        "kernel.blacklist",
        "kernel.modprobe_options",
        "driver.package",
        "driver.disk",
        "driver.loaded",
    ),
    sources=("readme-commonproblems", "olares#3963", "k8s-driver-manager#37"),
    fix=Fix("blacklist the other modules and rebuild the initramfs", remedy="nouveau_off"),
)
def nouveau_returns(f: Facts, k: Knowledge) -> Result:
    """nouveau and nova_core are each blacklisted where the kernel has them: one does not cover the other."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not f.pci.gpus.value:
        return skipped("no NVIDIA GPU on the bus")
    if not has_driver(f):
        return skipped("no NVIDIA driver is installed yet")
    nouveau, nova = known_or(f.kernel.nouveau_file, None), known_or(f.kernel.nova_file, None)
    present = [name for name, path in (("nouveau", nouveau), ("nova_core", nova)) if path]
    if not present:
        return passed("this kernel has neither nouveau nor nova_core")
    listed = set(f.kernel.blacklist.value)
    if "modeset=0" in known_or(f.kernel.modprobe_options, {}).get("nouveau", ""):
        listed.add("nouveau")
    free = [name for name in present if name not in listed]
    if not free:
        return passed(f"blacklisted: {', '.join(present)}")
    return failed(
        f"{' and '.join(free)} may load at the next boot and take the GPU before nvidia does",
        want=f"{', '.join(present)} blacklisted in modprobe.d and in the initramfs",
        command=f"{blacklist(*free)} && {rebuild_initramfs(f)}",
    )


@check(
    "kernel.initramfs-stale",
    title="The initramfs knows the module settings on disk",
    severity=WARN,
    reads=(*MACHINE, "pci.gpus", "kernel.running", "kernel.initramfs", "kernel.initramfs_stale_by"),
    sources=("readme-commonproblems", "k8s-driver-manager#37"),
    fix=Fix("rebuild the initramfs", remedy="nouveau_off"),
)
def initramfs_stale(f: Facts, k: Knowledge) -> Result:
    """A blacklist that is not in the initramfs comes too late: modules load from there first."""
    skip = elsewhere(f)
    if skip:
        return skip
    if not f.pci.gpus.value:
        return skipped("no NVIDIA GPU on the bus")
    image = known_or(f.kernel.initramfs, None)
    if image is None:
        return skipped("this kernel starts without an initramfs")
    newer = f.kernel.initramfs_stale_by.value
    if not newer:
        return passed(f"{image} is newer than every modprobe.d file about GPU modules")
    return failed(
        f"{', '.join(newer)} is newer than {image}: the next boot does not know it",
        want="an initramfs built after the last change",
        command=rebuild_initramfs(f, f.kernel.running.value),
        evidence=[seen("kernel.initramfs_stale_by", newer)],
    )


@check(
    "kernel.reboot-pending",
    title="No reboot is pending",
    severity=INFO,
    reads=(
        *MACHINE,
        "kernel.running",
        "kernel.next_boot",
        "kernel.reboot_required",
        "kernel.reboot_packages",
    ),
    sources=("unattended-upgrades-reboot-flag",),
    fix=Fix("reboot in a maintenance window", command="sudo systemctl reboot", disturbs="reboot"),
)
def reboot_pending(f: Facts, k: Knowledge) -> Result:
    """What runs is what the next boot starts, and no package asked for a reboot."""
    skip = elsewhere(f)
    if skip:
        return skip
    running = f.kernel.running.value
    if known_or(f.kernel.reboot_required, False):
        asked = f.kernel.reboot_packages
        names = f" by {', '.join(asked.value[:4])}" if isinstance(asked, Known) else ""
        return failed(f"a reboot was asked for{names}", want="a reboot since the last update")
    following = known_or(f.kernel.next_boot, running)
    if following != running:
        return failed(
            f"kernel {running} runs, {following} is the next boot's", want=f"{following} running"
        )
    return passed(f"kernel {running} runs and is the next boot's; no package asked for a reboot")


@check(
    "kernel.running-removed",
    title="The running kernel's modules are still installed",
    severity=WARN,
    needs=("driver.no-module-for-kernel",),
    reads=(*MACHINE, "kernel.running", "kernel.installed"),
    sources=("github-dell-dkms",),
    fix=Fix("reboot into an installed kernel", command="sudo systemctl reboot", disturbs="reboot"),
)
def running_removed(f: Facts, k: Knowledge) -> Result:
    """An update that took the running kernel's modules leaves nothing to load until the reboot."""
    skip = elsewhere(f)
    if skip:
        return skip
    installed = known_or(f.kernel.installed, [])
    if not installed:
        return skipped("this system has no kernel modules of its own")
    running = f.kernel.running.value
    if running in installed:
        return passed(f"modules of {running} are installed")
    return failed(
        f"kernel {running} runs and its modules are gone (installed: {', '.join(installed)}): "
        "nvidia and nvidia_uvm cannot be loaded any more",
        want=f"/lib/modules/{running}",
    )


@check(
    "kernel.iommu",
    title="The IOMMU does not translate between GPUs",
    severity=WARN,
    reads=(*MACHINE, "pci.gpus", "kernel.iommu_mode"),
    sources=("nccl-gpu_troubleshooting", "nccl#2079"),
    fix=Fix("boot with iommu=pt, or turn the IOMMU off in the firmware", disturbs="reboot"),
)
def iommu(f: Facts, k: Knowledge) -> Result:
    """On bare metal a translating IOMMU sends peer-to-peer traffic through the root complex; VMs need it."""
    skip = elsewhere(f)
    if skip:
        return skip
    if f.host.hardware.value != "bare-metal":
        return skipped("a virtual machine needs its IOMMU")
    count = len(f.pci.gpus.value)
    if count < 2:
        return skipped(f"{count} GPU: no traffic between GPUs")
    mode = f.kernel.iommu_mode.value
    if mode != "translated":
        return passed(f"{count} GPUs, IOMMU {mode}")
    return failed(
        f"{count} GPUs on bare metal and the IOMMU translates: peer-to-peer copies are slow or hang",
        want="IOMMU in passthrough mode, or off",
        command=by_family(
            f,
            debian="echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"' | sudo tee /etc/default/grub.d/iommu.cfg && sudo update-grub",
            rhel="sudo grubby --update-kernel=ALL --args=iommu=pt",
        ),
    )


@check(
    "kernel.suspended",
    title="The host was not suspended under a loaded driver",
    severity=WARN,
    reads=(*MACHINE, "kernel.suspends", "driver.loaded", "driver.params"),
    sources=("ollama#10053",),
    fix=Fix("keep a server from sleeping", disturbs="none"),
)
def suspended(f: Facts, k: Knowledge) -> Result:
    """Video memory and UVM's state are lost over a suspend unless the driver was told to keep them."""
    skip = elsewhere(f)
    if skip:
        return skip
    if known_or(f.driver.loaded, None) is None:
        return skipped("no nvidia module is loaded")
    times = f.kernel.suspends.value
    if not times:
        return passed("not suspended since it started")
    kept = f.driver.params.value.get("PreserveVideoMemoryAllocations") == "1"
    if kept:
        return passed(f"suspended {times} times, with PreserveVideoMemoryAllocations=1")
    return failed(
        f"suspended {times} times since it started, with PreserveVideoMemoryAllocations=0: CUDA may answer 999",
        want="no suspend on a server, or video memory that is preserved",
        say="mask the sleep targets; where CUDA fails already, stop GPU programs and reload nvidia_uvm",
        command="sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target",
    )
