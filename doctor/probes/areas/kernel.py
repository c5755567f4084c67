"""The kernel: what runs, what the next boot starts, its modules per release, and what its log says of GPUs."""

import re
from typing import Any, Dict, List, Tuple

from doctor.probes.areas.host import IN_CONTAINER, in_container, is_wsl, release_of
from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.pattern import regex
from doctor.probes.reading import boot_loader, kernel_log, kernel_modules
from doctor.probes.source import Source

FROM_WINDOWS = "the kernel of WSL2 comes from Windows"
"""Why a fact of the host's kernel does not apply in WSL2."""
_OF_THE_HOST = [
    "next_boot",
    "installed",
    "compiler",
    "gcc",
    "compilers",
    "nvidia_files",
    "nouveau_file",
    "nova_file",
    "headers",
    "headers_next",
    "dkms",
    "dkms_log",
    "blacklist",
    "modprobe_options",
    "modules_load",
    "initramfs",
    "initramfs_stale",
    "initramfs_stale_by",
    "secure_boot",
    "lockdown",
    "mok_pending",
    "reboot_required",
    "reboot_packages",
    "refused",
]
"""Facts that only the system which owns the kernel can have."""
_EFI = "/sys/firmware/efi"
_SECURE_BOOT = _EFI + "/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHIM_OFF = _EFI + "/efivars/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"
_MOK_NEW = _EFI + "/efivars/MokNew-605dab50-e046-4300-abb6-3dd810dd8b23"
_GPU_MODULES = regex(r"nouveau|nova|nvidia")


def probe(src: Source) -> Dict[str, Fact]:
    """Everything of the running and the next kernel that decides whether a GPU driver loads."""
    facts = _anywhere(src)
    if in_container(src) or is_wsl(src):
        reason = IN_CONTAINER if in_container(src) else FROM_WINDOWS
        facts.update({name: not_applicable(reason) for name in _OF_THE_HOST})
        return facts
    facts.update(_of_the_host(src, facts["running"]))
    facts.update(_configuration(src, facts["cmdline"], facts["running"]))
    return facts


def next_boot_of(src: Source) -> Fact:
    """The release that the next boot starts; does not apply where the kernel is not this system's."""
    if in_container(src):
        return not_applicable(IN_CONTAINER)
    if is_wsl(src):
        return not_applicable(FROM_WINDOWS)
    return boot_loader.next_boot(src)


def _anywhere(src: Source) -> Dict[str, Fact]:
    log = kernel_log.kernel_log(src)
    groups = src.listdir("/sys/kernel/iommu_groups")
    cmdline = src.read("/proc/cmdline").map(lambda text: text.strip())
    return {
        "running": release_of(src),
        "version": src.read("/proc/version").map(lambda text: text.strip()),
        "cmdline": cmdline,
        "modules": kernel_modules.loaded(src),
        "lockdown": lockdown(src),
        "iommu_groups": known(0, groups.via) if groups.state == "absent" else groups.map(len),
        "iommu_mode": iommu_mode(src, groups, cmdline),
        "taint": src.read("/proc/sys/kernel/tainted").map(int),
        "refused": log.map(kernel_log.refused_lines),
        "driver_log": log.map(kernel_log.driver_lines),
        "xids": log.map(kernel_log.xids),
        "suspends": log.map(kernel_log.suspends),
    }


def _of_the_host(src: Source, running: Fact) -> Dict[str, Fact]:
    following = next_boot_of(src)
    releases = kernel_modules.installed(src)
    read = [fact.value for fact in (running, following) if fact.ok]
    everything = releases.value if releases.ok else []
    if running.ok and running.value not in everything:
        everything = [running.value] + everything
    files = (
        releases
        if releases.state == "unknown"
        else kernel_modules.nvidia_files(src, everything, read)
    )
    return {
        "next_boot": following,
        "installed": releases,
        "compiler": src.read("/proc/version").map(parse_compiler),
        "gcc": src.run(["gcc", "-dumpfullversion", "-dumpversion"]).map(
            lambda done: done.stdout.strip() or unknown("empty answer")
        ),
        "compilers": compilers(src),
        "nvidia_files": files,
        "nouveau_file": _for(running, lambda release: in_tree(src, release, "drm/nouveau/nouveau")),
        "nova_file": _for(running, lambda release: in_tree(src, release, "nova-core/nova_core")),
        "headers": _for(running, lambda release: headers(src, release)),
        "headers_next": _for(following, lambda release: headers(src, release)),
        "dkms": kernel_modules.dkms(src),
        "dkms_log": kernel_modules.dkms_log(src),
        "secure_boot": secure_boot(src),
        "mok_pending": mok_pending(src),
        "reboot_required": reboot_required(src),
        "reboot_packages": src.read("/run/reboot-required.pkgs").map(
            lambda text: sorted(set(text.split()))
        ),
    }


def _for(release: Fact, look: Any) -> Fact:
    return look(release.value) if release.ok else release


def _configuration(src: Source, cmdline: Fact, running: Fact) -> Dict[str, Fact]:
    files = kernel_modules.conf_files(src, "modprobe.d")
    image = _for(running, lambda release: initramfs(src, release))
    newer = stale_by(src, image, files)
    return {
        "blacklist": blacklist(files, cmdline),
        "modprobe_options": files.map(_options, "modprobe.d"),
        "modules_load": modules_load(src),
        "initramfs": image,
        "initramfs_stale": newer.map(bool),
        "initramfs_stale_by": newer,
    }


def _options(files: List[Tuple[str, str]]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for _, text in files:
        for name, value in kernel_modules.parse_options(text).items():
            found[name] = (found.get(name, "") + " " + value).strip()
    return found


def parse_compiler(text: str) -> str:
    """ "gcc 13.3" or "clang 18.1" of /proc/version."""
    clang = re.search(r"clang version (\d+\.\d+)", text)
    if clang:
        return "clang " + clang.group(1)
    old = re.search(r"\(gcc version (\d+\.\d+)", text)
    new = re.search(r"gcc[-\w.]*\s+\((?:[^()]|\([^()]*\))*\)\s+(\d+\.\d+)", text)
    found = old or new
    if not found:
        raise ValueError("no compiler in /proc/version")
    return "gcc " + found.group(1)


def compilers(src: Source) -> Fact:
    """Major versions of every gcc that is installed beside the default one: gcc-N of Debian's and EL's toolsets."""
    found: List[str] = []
    for major in range(5, 20):
        fact = src.stat("/usr/bin/gcc-%d" % major)
        if fact.ok:
            found.append(str(major))
        elif fact.state == "unknown":
            return fact
    toolsets = src.glob("/opt/rh/gcc-toolset-*")
    if not toolsets.ok:
        return toolsets
    found += [path.rpartition("-")[2] for path in toolsets.value]
    return known(sorted(set(found)), "/usr/bin/gcc-*, /opt/rh/gcc-toolset-*")


def headers(src: Source, release: str) -> Fact:
    """Where /lib/modules/R/build leads; Absent when it is missing or dangling."""
    link = "%s/%s/build" % (kernel_modules.MODULES, release)
    real = src.realpath(link)
    return (
        Fact(real.state, real.value, real.reason, link)
        if real.ok or real.state == "unknown"
        else absent(link)
    )


def in_tree(src: Source, release: str, name: str) -> Fact:
    """A GPU driver of the kernel's own, for example drm/nouveau/nouveau, if the kernel has it as a module."""
    path = "%s/%s/kernel/drivers/gpu/%s.ko*" % (kernel_modules.MODULES, release, name)
    return src.glob(path).map(lambda paths: paths[0] if paths else absent(path))


def initramfs(src: Source, release: str) -> Fact:
    """The image that holds the early modules of a release."""
    for name in ("initrd.img-%s", "initramfs-%s.img", "initrd-%s"):
        path = "/boot/" + name % release
        fact = src.stat(path)
        if fact.ok:
            return known(path, path)
        if fact.state == "unknown":
            return fact
    return absent("/boot/initrd.img-%s" % release)


def stale_by(src: Source, image: Fact, files: Fact) -> Fact:
    """modprobe.d files about GPU drivers that were written after the initramfs was built."""
    if not image.ok:
        return image
    if not files.ok:
        return files
    built = src.stat(image.value)
    if not built.ok or built.value.get("mtime") is None:
        return unknown(built.reason or "no time", image.value)
    newer = []
    for path, text in files.value:
        if not _GPU_MODULES.search(text):
            continue
        record = src.stat(path)
        if not record.ok or record.value.get("mtime") is None:
            return unknown(record.reason or "no time", path)
        if record.value["mtime"] > built.value["mtime"]:
            newer.append(path)
    return known(newer, "%s, modprobe.d" % image.value)


def blacklist(files: Fact, cmdline: Fact) -> Fact:
    """Names from modprobe.d and the kernel command line."""
    if not files.ok:
        return files
    if cmdline.state == "unknown":
        return cmdline
    found = kernel_modules.blacklist_of_cmdline(cmdline.value or "")
    for _, text in files.value:
        found += kernel_modules.parse_blacklist(text)
    return known(sorted(set(found)), "modprobe.d, /proc/cmdline")


def modules_load(src: Source) -> Fact:
    """Modules that are loaded at every boot."""
    files = kernel_modules.conf_files(src, "modules-load.d")
    old = src.read("/etc/modules")
    if not files.ok or old.state == "unknown":
        return old if files.ok else files
    text = "\n".join([content for _, content in files.value] + ([old.value] if old.ok else []))
    lines = [re.split(r"[#;]", line, maxsplit=1)[0].split() for line in text.splitlines()]
    return known(
        sorted({words[0].replace("-", "_") for words in lines if words}),
        "modules-load.d, /etc/modules",
    )


def secure_boot(src: Source) -> Fact:
    """Whether the firmware enforces signatures and the shim does not lift that. Without UEFI there is none."""
    firmware = src.stat(_EFI)
    if firmware.state == "absent":
        return known(False, _EFI)
    state = src.read_bytes(_SECURE_BOOT)
    if state.state == "absent":
        names = src.listdir(_EFI + "/efivars")
        if names.ok and names.value:
            return known(False, _SECURE_BOOT)
        return unknown(names.reason or "efivarfs is not mounted", _EFI + "/efivars")
    on = state.map(_last_byte)
    if on.ok and on.value:
        lifted = src.read_bytes(_SHIM_OFF)
        if lifted.state == "unknown":
            return lifted
        if lifted.ok and lifted.value[-1:] == b"\x01":
            return known(False, _SHIM_OFF)
    return on


def _last_byte(data: bytes) -> bool:
    if len(data) != 5:
        raise ValueError("%d bytes, not 5" % len(data))
    return data[4] == 1


def mok_pending(src: Source) -> Fact:
    """Whether a machine owner key waits for its enrolment at the next boot."""
    if src.stat(_EFI).state == "absent":
        return known(False, _EFI)
    waiting = src.stat(_MOK_NEW)
    if waiting.state == "absent":
        names = src.listdir(_EFI + "/efivars")
        return (
            known(False, _MOK_NEW)
            if names.ok and names.value
            else unknown(names.reason or "efivarfs is not mounted", _EFI + "/efivars")
        )
    return waiting.map(lambda _: True)


def lockdown(src: Source) -> Fact:
    """none, integrity or confidentiality; "none" where the kernel has no lockdown."""
    text = src.read("/sys/kernel/security/lockdown")
    if text.state == "absent":
        if src.stat("/sys/kernel/security/lsm").ok:
            return known("none", "/sys/kernel/security/lsm")
        return unknown("securityfs is not mounted", "/sys/kernel/security")
    return text.map(parse_lockdown)


def parse_lockdown(text: str) -> str:
    """The bracketed word."""
    found = re.search(r"\[(\w+)\]", text)
    if not found:
        raise ValueError("no bracketed mode")
    return found.group(1)


def iommu_mode(src: Source, groups: Fact, cmdline: Fact) -> Fact:
    """off, passthrough or translated: by the groups' own type, else by the command line."""
    if groups.state == "absent" or (groups.ok and not groups.value):
        return known("off", "/sys/kernel/iommu_groups")
    if not groups.ok:
        return groups
    types = set()
    for group in groups.value:
        kind = src.read("/sys/kernel/iommu_groups/%s/type" % group)
        if kind.ok:
            types.add(kind.value.strip())
    if types:
        mode = "translated" if any(kind.startswith("DMA") for kind in types) else "passthrough"
        return known(mode, "/sys/kernel/iommu_groups/*/type")
    if cmdline.ok and re.search(r"\biommu=pt\b|\biommu\.passthrough=1\b", cmdline.value):
        return known("passthrough", "/proc/cmdline")
    return unknown(
        "the kernel does not say how it uses the IOMMU", "/sys/kernel/iommu_groups/*/type"
    )


def reboot_required(src: Source) -> Fact:
    """Debian's and Ubuntu's flag; other families set none."""
    flag = src.stat("/run/reboot-required")
    if flag.state != "absent":
        return flag.map(lambda _: True)
    if src.stat("/var/lib/dpkg/status").ok:
        return known(False, "/run/reboot-required")
    return not_applicable("this distribution sets no reboot flag")
