"""Which file the dynamic loader gives a program for a soname, and the copies that lie in the known folders.

Everything is asked through the source: no library is opened, versions come from real file names.
"""

import posixpath
import re
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.pattern import regex
from doctor.probes.source import Source

SONAMES = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnccl.so.2",
    "libcudart.so.11.0",
    "libcudart.so.12",
    "libcudart.so.13",
    "libnvJitLink.so.12",
    "libnvJitLink.so.13",
    "libcudnn.so.8",
    "libcudnn.so.9",
)
"""What engines ask the loader for."""
DRIVER_LIBRARIES = ("libcuda", "libnvidia-ml")
STEM = regex(r"^(libcuda|libnvidia-ml|libnccl|libcudart|libnvJitLink|libcudnn)\.so(?:\..*)?$")
_NAMED_VERSION = regex(r"\.so\.(\d+(?:\.\d+)+)$")
_DRIVER_VERSION = regex(r"^\d{3,}\.\d+(?:\.\d+)?$")
_CACHE_LINE = regex(r"^\s+(\S+) \(([^)]*)\) => (\S+)$")
_CACHE_TAG = {"x86_64": "x86-64", "aarch64": "AArch64"}

DEFAULT_FOLDERS = {
    "x86_64": ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"),
    "aarch64": ("/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64"),
}
"""Where the loader looks last (a distribution has one of the two kinds), before /lib and /usr/lib."""
KNOWN_FOLDERS = (
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/lib",
    "/usr/lib/nvidia",
    "/usr/lib/nvidia-current",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
)
"""Folders beside the loader's own in which drivers leave libraries; container hosts mount theirs at /usr/local/nvidia."""
TOOLKIT_PATTERNS = (
    "/usr/local/cuda*/compat*",
    "/usr/local/cuda*/targets/*/lib",
    "/usr/local/cuda*/targets/*/lib/stubs",
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/lib64/stubs",
    "/opt/cuda/lib64",
)

Library = Dict[str, Any]


def kind_of(path: str, real: str) -> str:
    """driver, stub, compat, wheel, toolkit, wsl or system: decided by where the file lies."""
    parts = set(path.split("/")) | set(real.split("/"))
    if "stubs" in parts:
        return "stub"
    if any(part == "compat" or part.startswith("compat_") for part in parts):
        return "compat"
    if "site-packages" in parts or "dist-packages" in parts:
        return "wheel"
    if real.startswith("/usr/lib/wsl/") or path.startswith("/usr/lib/wsl/"):
        return "wsl"
    if "targets" in parts or re.match(r"/(?:usr/local|opt)/cuda", real):
        return "toolkit"
    stem = STEM.match(posixpath.basename(real)) or STEM.match(posixpath.basename(path))
    return "driver" if stem and stem.group(1) in DRIVER_LIBRARIES else "system"


def version_of(real: str) -> Optional[str]:
    """The version in a real file name; None where the name has only the soname's number."""
    found = _NAMED_VERSION.search(real)
    if not found:
        return None
    version = found.group(1)
    stem = STEM.match(posixpath.basename(real))
    if stem and stem.group(1) in DRIVER_LIBRARIES and not _DRIVER_VERSION.match(version):
        return None
    return version


def parse_cache(text: str, machine: str) -> Dict[str, str]:
    """`ldconfig -p` -> the first path of each soname for this machine. ValueError when it is something else."""
    if "=>" not in text and "libs found in cache" not in text:
        raise ValueError("not the output of ldconfig -p")
    tag = _CACHE_TAG.get(machine, "")
    found: Dict[str, str] = {}
    for line in text.splitlines():
        entry = _CACHE_LINE.match(line)
        if entry and tag in entry.group(2):
            found.setdefault(entry.group(1), entry.group(3))
    return found


def parse_conf(text: str) -> List[str]:
    """Folders and `include PATTERN` lines of an ld.so.conf, in order, without comments."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("hwcap")]


class Loader:
    """The loader of one host under one environment."""

    def __init__(self, src: Source) -> None:
        self.src = src
        self.machine = _machine(src)
        self.library_path = library_path(src)
        self.cache = self._cache()
        self.defaults = DEFAULT_FOLDERS.get(self.machine, ("/lib64", "/usr/lib64")) + (
            "/lib",
            "/usr/lib",
        )

    def _cache(self) -> Fact:
        text = self.src.run(["ldconfig", "-p"]).map(lambda done: done.stdout)
        if text.state == "absent":
            there = self.src.stat("/etc/ld.so.cache")
            return (
                known({}, "no ld.so.cache")
                if there.state == "absent"
                else unknown("no ldconfig to read it with", "/etc/ld.so.cache")
            )
        return text.map(lambda out: parse_cache(out, self.machine))

    def resolve(self, soname: str, with_environment: bool = True) -> Fact:
        """{"path", "real", "why", "version", "kind"}; Absent when no such library would be found."""
        places: List[Tuple[str, str]] = []
        if with_environment:
            if self.library_path.state == "unknown":
                return self.library_path
            folders = self.library_path.value if self.library_path.ok else []
            places += [(folder, "LD_LIBRARY_PATH:" + folder) for folder in folders]
        for folder, why in places:
            fact = self._library(posixpath.join(folder, soname), why)
            if fact.state != "absent":
                return fact
        if not self.cache.ok:
            return self.cache
        if soname in self.cache.value:
            fact = self._library(self.cache.value[soname], "ld.so.cache")
            if fact.state != "absent":
                return fact
        for folder in self.defaults:
            fact = self._library(folder + "/" + soname, "default:" + folder)
            if fact.state != "absent":
                return fact
        return absent("the loader's folders")

    def _library(self, path: str, why: str) -> Fact:
        real = self.src.realpath(path)
        if not real.ok:
            return real
        return known(
            {
                "path": path,
                "real": real.value,
                "why": why,
                "version": version_of(real.value),
                "kind": kind_of(path, real.value),
            },
            path,
        )

    def copies(self) -> Fact:
        """Every file in the known folders whose name is one of ours, once per real file."""
        found: Dict[str, Library] = {}
        seen: Set[str] = set()
        for folder in self._folders():
            if not folder.ok:
                return folder
            for path in folder.value:
                real = self.src.realpath(path)
                if real.state == "absent" or (real.ok and real.value in seen):
                    continue
                if not real.ok:
                    return real
                seen.add(real.value)
                problem = self._list(real.value, found)
                if problem is not None:
                    return problem
        self._add_cached(found)
        return known(
            sorted(found.values(), key=lambda item: item["real"]), "the known library folders"
        )

    def _folders(self) -> Iterable[Fact]:
        if self.library_path.state == "unknown" or self.library_path.ok:
            yield self.library_path
        yield known(list(self.defaults) + list(KNOWN_FOLDERS), "known folders")
        for pattern in TOOLKIT_PATTERNS:
            yield self.src.glob(pattern)

    def _list(self, folder: str, found: Dict[str, Library]) -> Optional[Fact]:
        names = self.src.listdir(folder)
        if names.state == "absent" or names.reason == "not a folder":
            return None
        if not names.ok:
            return names
        for name in sorted(names.value):
            if not STEM.match(name):
                continue
            path = posixpath.join(folder, name)
            real = self.src.realpath(path)
            if real.state == "unknown":
                return real
            if real.ok:
                _keep(found, path, real.value)
        return None

    def _add_cached(self, found: Dict[str, Library]) -> None:
        for soname, path in (self.cache.value if self.cache.ok else {}).items():
            if STEM.match(soname):
                real = self.src.realpath(path)
                if real.ok:
                    _keep(found, path, real.value)


def _keep(found: Dict[str, Library], path: str, real: str) -> None:
    found.setdefault(
        real,
        {"path": path, "real": real, "version": version_of(real), "kind": kind_of(path, real)},
    )


def library_path(src: Source) -> Fact:
    """LD_LIBRARY_PATH of the scope as a list; an empty element means the working folder and is left out."""

    def split(text: str) -> List[str]:
        return [part.rstrip("/") or "/" for part in re.split("[:;]", text) if part.startswith("/")]

    return src.env("LD_LIBRARY_PATH").map(split)


def configured(src: Source) -> Fact:
    """Folders of /etc/ld.so.conf in the order ldconfig reads them, includes followed."""
    top = src.read("/etc/ld.so.conf")
    if not top.ok:
        return top
    folders: List[str] = []
    for line in parse_conf(top.value):
        if not line.startswith("include"):
            folders.append(line)
            continue
        pattern = line.partition(" ")[2].strip()
        files = src.glob(pattern if pattern.startswith("/") else "/etc/" + pattern)
        if not files.ok:
            return files
        for path in files.value:
            text = src.read(path)
            if not text.ok:
                return unknown(text.reason or "gone", path)
            folders += [item for item in parse_conf(text.value) if not item.startswith("include")]
    return known(folders, "/etc/ld.so.conf")


def _machine(src: Source) -> str:
    """x86_64 or aarch64, by the loader that is installed."""
    return "aarch64" if src.exists("/lib/ld-linux-aarch64.so.1").ok else "x86_64"
