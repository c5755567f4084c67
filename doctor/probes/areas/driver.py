"""The NVIDIA driver as separate observations: package, module on disk, module loaded, library, firmware, nodes, loader.

They disagree on real hosts, and the disagreement is the diagnosis: nothing here falls back from one to another.
"""

import re
from typing import Any, Dict

from doctor.probes.areas import kernel
from doctor.probes.areas.host import IN_CONTAINER, in_container, release_of
from doctor.probes.areas.packages import installed_packages
from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.pattern import regex
from doctor.probes.reading import elf
from doctor.probes.source import Source

VERSION = regex(r"\b(\d{3,}\.\d{1,3}(?:\.\d{1,3})?)\b")
SMI_PLACES = (
    "/usr/bin/nvidia-smi",
    "/usr/local/nvidia/bin/nvidia-smi",
    "/usr/lib/wsl/lib/nvidia-smi",
    "/usr/local/bin/nvidia-smi",
    "/usr/sbin/nvidia-smi",
    "/opt/bin/nvidia-smi",
)
PREFERRED = (
    r"nvidia-driver-\d+(-server)?(-open)?",
    r"nvidia-open(-\d+)?",
    r"cuda-drivers(-\d+)?",
    r"nvidia-driver",
    r"nvidia-headless-.*",
    r"xorg-x11-drv-nvidia",
    r"nvidia-driver-cuda",
    r"libnvidia-compute.*",
    r"libcuda1",
    r"nvidia-driver-.*",
    r"(nvidia-dkms|nvidia-kernel|kmod-nvidia|akmod-nvidia).*",
)
"""Which of several installed driver packages names the driver: what a person installed before what it pulled in."""


def probe(src: Source) -> Dict[str, Fact]:
    """-> the fields of doctor.facts.areas.driver."""
    loader = elf.Loader(src)
    package = _package(src)
    disk = _disk(src, release_of(src))
    disk_next = _disk(src, _next_release(src))
    copies = loader.copies()
    return {
        "package": package.map(lambda item: item[1]),
        "package_name": package.map(lambda item: item[0]),
        "disk": disk.map(lambda item: item["version"]),
        "disk_next": disk_next.map(lambda item: item["version"]),
        "loaded": _loaded(src),
        "library": _library(src, loader, copies),
        "firmware": _firmware(src),
        "flavor": _flavor(src),
        "flavor_disk": disk.map(lambda item: item["flavor"]),
        "runfile": _runfile(src),
        "params": src.read("/proc/driver/nvidia/params").map(parse_params),
        "nodes": _nodes(src),
        "uvm_major": src.read("/proc/devices").map(lambda text: parse_major(text, "nvidia-uvm")),
        "modprobe": src.stat("/usr/bin/nvidia-modprobe").map(_is_set_uid),
        "smi": _smi(src),
        "libraries": copies,
        "resolved": _resolved(loader),
        "ld_library_path": loader.library_path,
        "ld_config": elf.configured(src),
        "compat": _compat(src),
        "persistenced_socket": src.stat("/run/nvidia-persistenced/socket").map(
            lambda record: record["type"] == "socket"
        ),
    }


def parse_nvrm(text: str) -> Dict[str, str]:
    """/proc/driver/nvidia/version -> {"version", "flavor"}."""
    for line in text.splitlines():
        if line.startswith("NVRM version:"):
            found = VERSION.search(line)
            if found:
                flavor = "open" if "Open Kernel Module" in line else "proprietary"
                return {"version": found.group(1), "flavor": flavor}
    raise ValueError("no NVRM version line")


def parse_modinfo(text: str) -> Dict[str, Any]:
    """`modinfo nvidia` -> {"version", "flavor"}; the open modules are licensed Dual MIT/GPL."""
    fields = dict(line.partition(":")[::2] for line in text.splitlines() if ":" in line)
    values = {name.strip(): value.strip() for name, value in fields.items()}
    version = values.get("version", "")
    if not VERSION.search(version):
        raise ValueError("modinfo names no version")
    return {
        "version": version,
        "flavor": "open" if "GPL" in values.get("license", "") else "proprietary",
    }


def parse_params(text: str) -> Dict[str, str]:
    """/proc/driver/nvidia/params -> {name: value}, quotes removed."""
    pairs = (line.partition(":") for line in text.splitlines())
    found = {name.strip(): value.strip().strip('"') for name, colon, value in pairs if colon}
    if not found:
        raise ValueError("no parameters")
    return found


def parse_major(text: str, name: str) -> Any:
    """/proc/devices -> the major number of a character device; Absent when it is not registered."""
    if "Character devices:" not in text:
        raise ValueError("not a list of devices")
    for line in text.partition("Block devices:")[0].splitlines():
        parts = line.split()
        if len(parts) == 2 and parts[1] == name:
            return int(parts[0])
    return absent("")


def driver_packages(installed: Dict[str, str]) -> Dict[str, str]:
    """Of all packages those whose version is a driver's: {name: version without epoch and revision}."""
    found = {}
    for name, version in installed.items():
        upstream = re.match(r"(?:\d+:)?(\d{3,}\.\d+(?:\.\d+)?)", version)
        if upstream:
            found[name] = upstream.group(1)
    return found


def chosen_package(packages: Dict[str, str]) -> Any:
    """(name, version) of the package that stands for the driver; Absent when none does."""
    for pattern in PREFERRED:
        for name in sorted(packages, reverse=True):
            if re.fullmatch(pattern, name):
                return name, packages[name]
    return absent("")


def _package(src: Source) -> Fact:
    if in_container(src):
        return not_applicable(IN_CONTAINER)
    return installed_packages(src).map(lambda found: chosen_package(driver_packages(found)))


def _disk(src: Source, release: Fact) -> Fact:
    """{"version", "flavor"} of nvidia.ko for a kernel; Absent when that kernel has none."""
    if not release.ok:
        return release
    if in_container(src):
        return not_applicable(IN_CONTAINER)
    folder = src.stat("/lib/modules/" + release.value)
    if folder.state == "absent":
        return absent("/lib/modules/" + release.value)
    answer = src.run(["modinfo", "-k", release.value, "nvidia"], ok=(0, 1))
    if answer.state == "absent":
        return unknown("modinfo is not installed", "modinfo -k %s nvidia" % release.value)

    def read(done: Any) -> Any:
        if done.rc == 0:
            return parse_modinfo(done.stdout)
        if "not found" in done.stderr:
            return absent("")
        return unknown((done.stderr.strip() or "exit 1").splitlines()[0][:200])

    return answer.map(read)


def _next_release(src: Source) -> Fact:
    """The kernel of the next boot, as the kernel probe finds it."""
    return kernel.next_boot_of(src)


def _loaded(src: Source) -> Fact:
    fact = src.read("/sys/module/nvidia/version").map(_nonempty)
    if fact.state == "absent" and src.stat("/sys/module/nvidia").state == "absent":
        proc = src.read("/proc/driver/nvidia/version").map(lambda text: parse_nvrm(text)["version"])
        return proc if proc.ok else fact
    return fact


def _flavor(src: Source) -> Fact:
    """open or proprietary: what the loaded module says of itself, else by its taint (P: not under the GPL)."""
    said = src.read("/proc/driver/nvidia/version").map(lambda text: parse_nvrm(text)["flavor"])
    if said.ok:
        return said
    taint = src.read("/sys/module/nvidia/taint")
    return taint.map(lambda text: "proprietary" if "P" in text else "open") if taint.ok else said


def _nonempty(text: str) -> str:
    if not VERSION.search(text):
        raise ValueError("no version in it")
    return text.strip()


def _library(src: Source, loader: elf.Loader, copies: Fact) -> Fact:
    """Version of the driver's own user-space library: as the loader finds it without the caller's environment."""
    for soname in ("libcuda.so.1", "libnvidia-ml.so.1"):
        found = loader.resolve(soname, with_environment=False)
        if found.ok and found.value["kind"] == "driver" and found.value["version"]:
            return known(found.value["version"], found.value["real"])
        if found.ok and found.value["kind"] == "wsl":
            return not_applicable("WSL2: the library comes with the Windows driver")
    if not copies.ok:
        return copies
    own = [item for item in copies.value if item["kind"] == "driver"]
    versions = sorted({item["version"] for item in own if item["version"]})
    if versions:
        return known(versions[-1], "the known library folders")
    if own:
        return unknown("its file name carries no version", own[0]["real"])
    return absent("the known library folders")


def _firmware(src: Source) -> Fact:
    files = src.glob("/proc/driver/nvidia/gpus/*/information")
    if not files.ok:
        return files
    versions = set()
    for path in files.value:
        text = src.read(path)
        if not text.ok:
            return unknown(text.reason or "gone", path)
        versions |= set(re.findall(r"^GPU Firmware:\s*(\d[\d.]+)\s*$", text.value, re.MULTILINE))
    if not versions:
        return absent("/proc/driver/nvidia/gpus/*/information")
    return known(" ".join(sorted(versions)), "/proc/driver/nvidia/gpus/*/information")


def _runfile(src: Source) -> Fact:
    """The .run installer leaves its uninstaller; packages do not."""
    for path in ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer"):
        there = src.stat(path)
        if there.state == "unknown":
            return there
        if there.ok:
            log = src.read("/var/log/nvidia-installer.log")
            found = re.findall(
                r"^installer version:\s*(\S+)", log.value if log.ok else "", re.MULTILINE
            )
            return known(found[-1] if found else "version not recorded", path)
    return absent("/usr/bin/nvidia-uninstall")


def _nodes(src: Source) -> Fact:
    names = src.listdir("/dev")
    if not names.ok:
        return names
    paths = ["/dev/" + name for name in names.value if re.match(r"nvidia(?!-caps)|dxg$", name)]
    for folder in ("/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels"):
        inside = src.listdir(folder)
        if inside.state == "unknown":
            return inside
        paths += [folder + "/" + name for name in inside.value] if inside.ok else []
    nodes = {}
    for path in paths:
        record = src.stat(path)
        if record.state == "unknown":
            return record
        if record.ok:
            keys = ("type", "mode", "uid", "gid", "rdev")
            nodes[path] = {key: record.value.get(key) for key in keys}
    return known(nodes, "/dev")


def _is_set_uid(record: Dict[str, Any]) -> bool:
    return bool(record["type"] == "file" and record["mode"] & 0o4000 and record["uid"] == 0)


def _smi(src: Source) -> Fact:
    for path in SMI_PLACES:
        there = src.exists(path)
        if there.state != "absent":
            return known(path, path) if there.ok else there
    return absent("the system's folders")


def _resolved(loader: elf.Loader) -> Fact:
    found: Dict[str, Any] = {}
    for soname in elf.SONAMES:
        fact = loader.resolve(soname)
        if fact.state == "unknown":
            return fact
        if fact.ok:
            found[soname] = fact.value
    return known(found, "the loader's search order")


def _compat(src: Source) -> Fact:
    """cuda-compat folders, real paths once: {folder: version of its libcuda}."""
    folders = src.glob("/usr/local/cuda*/compat*")
    if not folders.ok:
        return folders
    found: Dict[str, str] = {}
    for folder in folders.value:
        real = src.realpath(folder + "/libcuda.so.1")
        if real.state == "unknown":
            return real
        if real.ok:
            found[real.value.rpartition("/")[0]] = elf.version_of(real.value) or "unknown"
    return known(found, "/usr/local/cuda*/compat*")
