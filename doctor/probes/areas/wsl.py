"""WSL2, where the driver lives in Windows and the Linux side only has its libraries."""

from typing import Any, Dict, List

from doctor.probes.areas.host import in_container, is_wsl, parse_meminfo, release_of
from doctor.probes.areas.packages import installed_packages
from doctor.probes.fact import Fact, known, not_applicable
from doctor.probes.source import Source

LIB_DIR = "/usr/lib/wsl/lib"
_LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
_NOT_DRIVER = (
    "libnvidia-container",
    "nvidia-container",
    "libnvidia-egl-wayland",
    "nvidia-cuda-toolkit",
)
_DRIVER = (
    "nvidia-driver",
    "nvidia-open",
    "nvidia-dkms",
    "nvidia-kernel",
    "nvidia-headless",
    "nvidia-compute-utils",
    "nvidia-utils",
    "cuda-drivers",
    "libnvidia-",
    "libcuda1",
    "linux-modules-nvidia",
    "linux-objects-nvidia",
    "nvidia-firmware",
    "nvidia-persistenced",
    "nvidia-modprobe",
    "kmod-nvidia",
    "xserver-xorg-video-nvidia",
)
"""Packages that bring a Linux kernel driver or its libraries begin with one of these."""
_META = frozenset({"cuda", "cuda-runtime"})


def probe(src: Source) -> Dict[str, Fact]:
    """What Windows maps in, and what should not be beside it."""
    if not is_wsl(src):
        return {name: not_applicable("not WSL2") for name in _FIELDS}
    link = src.stat(LIB_DIR + "/libcuda.so.1").map(lambda record: record.get("type") == "link")
    return {
        "kernel": release_of(src),
        "dxg": _present(src, "/dev/dxg"),
        "lib_dir": src.listdir(LIB_DIR),
        "libcuda_is_link": link,
        "linux_driver_packages": _packages(src),
        "linux_driver_libraries": _libraries(src),
        "windows_driver": src.nvml("nvmlSystemGetDriverVersion"),
        "systemd": systemd_wanted(src),
        "memory_limit": src.read("/proc/meminfo").map(lambda text: parse_meminfo(text, "MemTotal")),
    }


_FIELDS = [
    "kernel",
    "dxg",
    "lib_dir",
    "libcuda_is_link",
    "linux_driver_packages",
    "linux_driver_libraries",
    "windows_driver",
    "systemd",
    "memory_limit",
]


def _present(src: Source, path: str) -> Fact:
    fact = src.stat(path)
    return known(False, path) if fact.state == "absent" else fact.map(lambda _: True)


def _packages(src: Source) -> Fact:
    if in_container(src):
        return not_applicable("inside a container; look in the WSL2 distribution")
    return installed_packages(src).map(lambda found: driver_packages(list(found)))


def driver_packages(names: List[str]) -> List[str]:
    """Names that bring a Linux driver; CUDA's meta packages `cuda` and `cuda-12-4` depend on one, cuda-toolkit-* do not."""
    return sorted(name for name in names if _brings_driver(name))


def _brings_driver(name: str) -> bool:
    if name.startswith(_NOT_DRIVER):
        return False
    if name in _META or name.startswith("cuda-runtime-"):
        return True
    rest = name[len("cuda-") :] if name.startswith("cuda-") else ""
    return (bool(rest) and rest.replace("-", "").isdigit()) or name.startswith(_DRIVER)


def _libraries(src: Source) -> Fact:
    found: List[str] = []
    for folder in _LIBRARY_DIRS:
        for stem in ("libcuda.so", "libnvidia-ml.so"):
            names = src.glob("%s/%s.*" % (folder, stem))
            if not names.ok:
                return names
            found += [path for path in names.value if _is_own_file(src, path)]
    return known(found, ", ".join(_LIBRARY_DIRS))


def _is_own_file(src: Source, path: str) -> bool:
    record = src.stat(path)
    return record.ok and record.value.get("type") == "file"


def systemd_wanted(src: Source) -> Fact:
    """[boot] systemd=true of /etc/wsl.conf; without the line it is off."""
    text = src.read("/etc/wsl.conf")
    return known(False, "/etc/wsl.conf") if text.state == "absent" else text.map(parse_wsl_conf)


def parse_wsl_conf(text: str) -> Any:
    """Whether the [boot] section turns systemd on."""
    section = ""
    for line in text.splitlines():
        bare = line.split("#", 1)[0].strip().lower()
        if bare.startswith("["):
            section = bare
        elif section == "[boot]" and bare.replace(" ", "") == "systemd=true":
            return True
    return False
