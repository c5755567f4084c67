"""The kernel of a simulated host: releases, boot loader, modules on disk, DKMS, modprobe.d, firmware state and log."""

from __future__ import annotations

from doctor.simulate.host import Host
from doctor.simulate.kernel_log import log_of
from doctor.simulate.machine import BOOTED
from doctor.simulate.writer import RecordingWriter

EFIVARS = "/sys/firmware/efi/efivars"
SECURE_BOOT = EFIVARS + "/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
MOK_NEW = EFIVARS + "/MokNew-605dab50-e046-4300-abb6-3dd810dd8b23"
NOVA_SINCE = 7
"""Major kernel version from which distributions build nova_core (filler, not a rule)."""
BUILT = BOOTED - 30 * 86_400
"""When the kernel and its initramfs were installed."""
HOLDERS = {"nouveau": ["nouveau"], "nova_core": ["nova_core"], "vfio-pci": ["vfio_pci"]}


def write(host: Host, out: RecordingWriter) -> None:
    """Exactly what the kernel probe reads."""
    compiler = compiler_of(host)
    out.file(
        "/proc/version",
        f"Linux version {host.kernel} (builder@host) ({compiler}) #1 SMP PREEMPT_DYNAMIC\n",
    )
    out.file("/proc/cmdline", cmdline(host) + "\n")
    out.file(
        "/proc/modules",
        "".join(f"{name} 16384 0 - Live 0x0000000000000000\n" for name in modules(host)),
    )
    out.file("/proc/sys/kernel/tainted", "12288\n" if host.driver.loaded else "0\n")
    _log(host, out)
    if host.d.platform == "wsl2" or host.in_container:
        return
    _lockdown(host, out)
    _firmware(host, out)
    _boot(host, out)
    for release in releases(host):
        if not (host.d.kernel_removed and release == host.kernel):
            _release(host, out, release)
    _compilers(host, out)
    _dkms(host, out)
    _configuration(host, out)
    if host.d.reboot_required and host.family == "debian":
        out.file("/run/reboot-required", "*** System restart required ***\n")
        out.file("/run/reboot-required.pkgs", "\n".join(host.d.reboot_required) + "\n")


def releases(host: Host) -> list[str]:
    """Installed kernels, the oldest first as far as the description says."""
    named = [host.d.previous_kernel, host.kernel, host.next_kernel]
    return list(dict.fromkeys(name for name in named if name))


def compiler_of(host: Host) -> str:
    """The parenthesis of /proc/version."""
    said = host.d.kernel_compiler or f"gcc {host.gcc}"
    name, _, version = said.rpartition(" ")
    if name == "clang":
        return f"clang version {version}, LLD {version}"
    return f"gcc (GCC) {version}, GNU ld (GNU Binutils) 2.42"


def uses_dkms(host: Host) -> bool:
    """Whether DKMS builds the driver's module here."""
    if host.d.dkms.state is not None:
        return host.d.dkms.state != "none"
    if host.driver.package is None or host.driver.origin == "runfile" or host.in_container:
        return False
    return host.driver.origin == "cuda-repo" or host.distro_id == "debian"


def module_file(host: Host, release: str) -> str:
    """Where nvidia.ko of a release is."""
    base = f"/lib/modules/{release}"
    if uses_dkms(host):
        return base + (
            "/updates/dkms/nvidia.ko.zst" if host.family == "debian" else "/extra/nvidia.ko.xz"
        )
    if host.driver.package is None:
        return base + "/kernel/drivers/video/nvidia.ko"
    if host.family == "debian":
        branch = host.driver.package.partition(".")[0]
        return (
            base
            + f"/kernel/nvidia-{branch}{'-open' if host.driver.flavor == 'open' else ''}/nvidia.ko"
        )
    return base + "/extra/drivers/video/nvidia/nvidia.ko"


def version_on_disk(host: Host, release: str) -> str | None:
    """Version of nvidia.ko for a release."""
    if release == host.kernel:
        return host.driver.disk
    return (
        host.driver.disk_next
        if release == host.next_kernel
        else host.driver.disk or host.driver.package
    )


def cmdline(host: Host) -> str:
    """Of the description, else what an installer writes."""
    if host.d.cmdline is not None:
        return host.d.cmdline
    if host.d.platform == "wsl2":
        return "initrd=\\initrd.img WSL_ROOT_INIT=1 panic=-1 nr_cpus=8"
    iommu = {"off": "", "passthrough": " iommu=pt", "translated": " intel_iommu=on"}[host.d.iommu]
    return f"BOOT_IMAGE=/boot/vmlinuz-{host.kernel} root=/dev/nvme0n1p2 ro quiet{iommu}"


def modules(host: Host) -> list[str]:
    """Loaded modules."""
    if host.d.platform == "wsl2":
        return []
    names = ["ext4", "nvme"]
    if host.d.modules is not None:
        names += host.d.modules
    elif host.driver.loaded and host.d.platform != "jetson":
        names += ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"]
    if host.d.modules is None:
        for board in host.boards:
            names += HOLDERS.get(board.bound_to or "", [])
        if host.d.infiniband:
            names += ["mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "ib_umad"]
    return sorted({name.replace("-", "_") for name in names + host.d.modules_extra})


def _log(host: Host, out: RecordingWriter) -> None:
    if host.d.root:
        out.command(["dmesg"], log_of(host))
    else:
        out.command(
            ["dmesg"], rc=1, stderr="dmesg: read kernel buffer failed: Operation not permitted\n"
        )


def _lockdown(host: Host, out: RecordingWriter) -> None:
    out.file("/sys/kernel/security/lsm", "lockdown,capability\n")
    secure = host.d.secure_boot in (True, "on")
    mode = "integrity" if host.d.lockdown == "none" and secure else host.d.lockdown
    words = [
        f"[{word}]" if word == mode else word for word in ("none", "integrity", "confidentiality")
    ]
    out.file("/sys/kernel/security/lockdown", " ".join(words) + "\n")


def _firmware(host: Host, out: RecordingWriter) -> None:
    if host.d.platform == "jetson":
        return
    on = host.d.secure_boot in (True, "on")
    out.file(EFIVARS + "/BootCurrent-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\0\0\0\0\0")
    out.file(SECURE_BOOT, b"\x06\0\0\0" + (b"\x01" if on else b"\x00"))
    if host.d.mok_pending:
        out.file(MOK_NEW, b"\x07\0\0\0key")


def _boot(host: Host, out: RecordingWriter) -> None:
    for release in releases(host):
        out.file(f"/boot/vmlinuz-{release}", keep=False, mtime=BUILT)
        name = f"initrd.img-{release}" if host.family == "debian" else f"initramfs-{release}.img"
        out.file(f"/boot/{name}", keep=False, mtime=BUILT)
    if host.family == "debian":
        _grub_menu(host, out)
    else:
        _grub_entries(host, out)


def _grub_menu(host: Host, out: RecordingWriter) -> None:
    order = list(dict.fromkeys([host.next_kernel, *reversed(releases(host))]))
    lines = [
        'if [ "${next_entry}" ] ; then',
        '   set default="${next_entry}"',
        "else",
        '   set default="0"',
        "fi",
    ]
    lines += _menu_entry("Linux", "gnulinux-simple-1", order[0], "")
    lines.append("submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {")
    for release in order:
        lines += _menu_entry(
            f"Linux, with Linux {release}", f"gnulinux-{release}-advanced-1", release, "\t"
        )
    lines.append("}")
    out.file("/boot/grub/grubenv", "# GRUB Environment Block\n")
    out.file("/etc/default/grub", "GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\n")
    if host.d.root:
        out.file("/boot/grub/grub.cfg", "\n".join(lines) + "\n", mode=0o600)
    else:
        out.folder("/boot/grub")
        out.denied("/boot/grub/grub.cfg")


def _menu_entry(title: str, ident: str, release: str, indent: str) -> list[str]:
    head = f"{indent}menuentry '{title}' --class gnu-linux $menuentry_id_option '{ident}' {{"
    return [head, f"{indent}\tlinux\t/boot/vmlinuz-{release} root=/dev/nvme0n1p2 ro", f"{indent}}}"]


def _grub_entries(host: Host, out: RecordingWriter) -> None:
    if not host.d.root:
        out.folder("/boot/grub2")
        out.denied("/boot/loader/entries")
        out.denied("/boot/grub2/grubenv")
        return
    for release in releases(host):
        name = f"/boot/loader/entries/0123456789abcdef0123456789abcdef-{release}.conf"
        out.file(
            name,
            f"title {host.pretty_name} ({release})\nversion {release}\nlinux /vmlinuz-{release}\n",
        )
    chosen = f"0123456789abcdef0123456789abcdef-{host.next_kernel}"
    out.file("/boot/grub2/grubenv", f"# GRUB Environment Block\nsaved_entry={chosen}\n")


def _release(host: Host, out: RecordingWriter, release: str) -> None:
    base = f"/lib/modules/{release}"
    out.file(base + "/modules.builtin", keep=False)
    out.file(base + "/kernel/drivers/gpu/drm/nouveau/nouveau.ko", keep=False)
    if int(release.partition(".")[0]) >= NOVA_SINCE:
        out.file(base + "/kernel/drivers/gpu/nova-core/nova_core.ko", keep=False)
    headers = f"/usr/src/{'linux-headers-' if host.family == 'debian' else 'kernels/'}{release}"
    out.link(base + "/build", headers)
    if host.d.headers in (None, release):
        out.file(headers + "/Makefile", keep=False)
    argv = ["modinfo", "-k", release, "nvidia"]
    version = version_on_disk(host, release)
    if version is None or host.d.platform == "jetson":
        out.command(
            argv, rc=1, stderr=f"modinfo: ERROR: Module nvidia not found in directory {base}.\n"
        )
        return
    path = module_file(host, release)
    out.file(path, keep=False, mtime=BUILT)
    out.command(argv, _modinfo(host, release, path, version))


def _modinfo(host: Host, release: str, path: str, version: str) -> str:
    lines = [f"filename:       {path}"]
    lines.append(f"version:        {version}")
    lines.append(f"license:        {'Dual MIT/GPL' if host.driver.flavor == 'open' else 'NVIDIA'}")
    lines += [
        "name:           nvidia",
        f"vermagic:       {release} SMP preempt mod_unload modversions ",
    ]
    if signer_of(host):
        lines.append(f"signer:         {signer_of(host)}")
    return "\n".join(lines) + "\n"


def signer_of(host: Host) -> str | None:
    """Who signed the module: the distribution a precompiled one, DKMS' own key one that loads under Secure Boot, else nobody."""
    secure = host.d.secure_boot in (True, "on")
    if secure and host.driver.loaded is None:
        return None
    if uses_dkms(host):
        return "DKMS module signing key" if secure else None
    return (
        "Canonical Ltd. Kernel Module Signing"
        if host.family == "debian"
        else "Distribution kernel module signing"
    )


def _compilers(host: Host, out: RecordingWriter) -> None:
    if host.d.gcc == ["none"]:
        return
    versions = host.d.gcc or [host.gcc]
    out.command(["gcc", "-dumpfullversion", "-dumpversion"], versions[0] + "\n")
    for version in versions:
        out.file(f"/usr/bin/gcc-{version.partition('.')[0]}", keep=False, mode=0o755)


def _dkms(host: Host, out: RecordingWriter) -> None:
    if not uses_dkms(host):
        return
    state = host.d.dkms.state or "installed"
    version = host.d.dkms.version or host.driver.package or host.driver.library or ""
    base = f"/var/lib/dkms/nvidia/{version}"
    out.link(base + "/source", f"/usr/src/nvidia-{version}")
    out.folder(f"/usr/src/nvidia-{version}")
    if state == "failed":
        head = f"DKMS make.log for nvidia-{version} for kernel {host.kernel} ({host.machine})\n"
        out.file(
            base + "/build/make.log",
            head + (host.d.dkms.log or "make: *** [Makefile:82: modules] Error 2") + "\n",
        )
    if state not in ("built", "installed"):
        return
    for release in releases(host):
        if release != host.kernel and version_on_disk(host, release) is None:
            continue
        out.folder(f"{base}/{release}/{host.machine}/module")
        if state == "installed":
            out.link(
                f"/var/lib/dkms/nvidia/kernel-{release}-{host.machine}",
                f"{version}/{release}/{host.machine}",
            )


def blacklisted(host: Host) -> list[str]:
    """Modules that modprobe.d keeps away."""
    if host.d.blacklist is not None:
        return host.d.blacklist
    if host.driver.package or host.driver.disk:
        return ["nouveau", "nova_core", "nova_drm"]
    return []


def _configuration(host: Host, out: RecordingWriter) -> None:
    names = blacklisted(host)
    lines = [f"blacklist {name}" for name in names]
    if "nouveau" in names:
        lines.append("options nouveau modeset=0")
    when = BOOTED + 7200 if host.d.initramfs_stale else BUILT - 60
    if lines or host.d.initramfs_stale:
        text = "\n".join(lines or ["# nouveau may load"]) + "\n"
        out.file("/etc/modprobe.d/nvidia-graphics-drivers.conf", text, mtime=when)
    options = [f"options {name} {value}" for name, value in host.d.modprobe_options.items()]
    if options:
        out.file("/etc/modprobe.d/local.conf", "\n".join(options) + "\n", mtime=BUILT - 60)
    if host.d.modules_load:
        out.file("/etc/modules-load.d/local.conf", "\n".join(host.d.modules_load) + "\n")
