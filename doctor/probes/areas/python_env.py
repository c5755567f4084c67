"""Python environments where engines would run, read from package metadata.

Nothing is imported or started.
"""

import posixpath
import re
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from doctor.probes.areas import fabric
from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.pattern import regex
from doctor.probes.reading import wheel
from doctor.probes.source import Source

SONAME = regex(r"lib(nccl|cudart|cudnn|nvJitLink|cuda|nvrtc|cublas)\.so\.\d+")
SYSTEM_BINS = frozenset(
    [
        "/usr/bin",
        "/bin",
        "/usr/sbin",
        "/sbin",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/snap/bin",
        "/usr/games",
        "/usr/local/games",
    ]
)
SYSTEM_SITES = (
    "/usr/lib/python3/dist-packages",
    "/usr/local/lib/python3*/dist-packages",
    "/usr/lib/python3*/site-packages",
    "/usr/lib64/python3*/site-packages",
    "/usr/local/lib/python3*/site-packages",
    "/usr/local/lib64/python3*/site-packages",
)
PREFIXES = (
    "/opt/*",
    "/opt/*/.venv",
    "/opt/*/venv",
    "/opt/conda/envs/*",
    "/opt/gpu-host-doctor/envs/*",
)
"""The last is where the role engine_env makes them."""
HOME_PREFIXES = (".local", ".venv", "venv", "miniconda3", "miniconda3/envs/*", "miniforge3")


def probe(src: Source) -> Dict[str, Fact]:
    """-> environments, unread, system_python, managed_by, ninja."""
    places, unread = sites(src)
    found = [environment(src, place, unread) for place in places]
    python = system_python(src)
    return {
        "environments": known([item for item in found if item is not None], "*.dist-info"),
        "unread": known(sorted(unread), "site-packages"),
        "system_python": python,
        "managed_by": managed_by(src, python),
        "ninja": _first(src, ("/usr/bin/ninja", "/usr/local/bin/ninja", "/usr/bin/ninja-build")),
    }


# where


class Site:
    """One folder of packages: prefix, the folder, whether the scope leads there."""

    __slots__ = ("folder", "in_scope", "prefix")

    def __init__(self, prefix: str, folder: str, in_scope: bool) -> None:
        self.prefix = prefix
        self.folder = folder
        self.in_scope = in_scope


def sites(src: Source) -> Tuple[List[Site], Set[str]]:
    """Every folder of packages to look at, the scope's first, and the places that could not be
    listed.
    """
    unread: Set[str] = set()
    found: Dict[str, Site] = {}

    def add(prefix: str, folder: str, in_scope: bool) -> None:
        real = src.realpath(folder)
        key = real.value if real.ok else folder
        if key not in found:
            found[key] = Site(prefix, folder, in_scope)

    for prefix in _scope_prefixes(src, unread):
        for folder in _folders(src, prefix, unread):
            add(prefix, folder, True)
    home = src.env("HOME")
    patterns = list(PREFIXES)
    if home.ok and home.value.startswith("/"):
        patterns += [posixpath.join(home.value, part) for part in HOME_PREFIXES]
    for pattern in patterns:
        for prefix in _expand(src, pattern, unread):
            for folder in _folders(src, prefix, unread):
                add(prefix, folder, False)
    for pattern in SYSTEM_SITES:
        for folder in _expand(src, pattern, unread):
            add("/usr/local" if folder.startswith("/usr/local") else "/usr", folder, False)
    return list(found.values()), unread


def _scope_prefixes(src: Source, unread: Set[str]) -> List[str]:
    prefixes: List[str] = []
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = src.env(name)
        if value.ok and value.value.startswith("/"):
            prefixes.append(value.value.rstrip("/"))
        elif value.state == "unknown":
            unread.add("$" + name)
    path = src.env("PATH")
    if path.ok:
        for entry in path.value.split(":"):
            if entry.startswith("/") and entry.rstrip("/") not in SYSTEM_BINS:
                prefixes += _prefix_of(src, entry.rstrip("/"))
    units = fabric.engine_files(src)
    if units.ok:
        for _, lines in units.value.values():
            for line in lines:
                program = line.split()[0] if line.split() else ""
                if posixpath.basename(posixpath.dirname(program)) == "bin":
                    prefixes += _prefix_of(src, posixpath.dirname(program))
    elif units.state == "unknown":
        unread.add(units.via)
    return list(dict.fromkeys(prefixes))


def _prefix_of(src: Source, folder: str) -> List[str]:
    if folder in SYSTEM_BINS or posixpath.basename(folder) != "bin":
        return []
    return [posixpath.dirname(folder)] if src.stat(folder + "/python3").ok else []


def _folders(src: Source, prefix: str, unread: Set[str]) -> List[str]:
    """site-packages folders of a prefix; lib64 is often a link to lib."""
    found: List[str] = []
    for lib in ("lib", "lib64"):
        base = posixpath.join(prefix, lib)
        if lib == "lib64" and src.stat(base).ok and src.stat(base).value.get("type") == "link":
            continue
        found += _expand(src, base + "/python3*/site-packages", unread)
    return found


def _expand(src: Source, pattern: str, unread: Set[str]) -> List[str]:
    """Like Source.glob, but a folder that cannot be listed costs that folder, not the others."""
    found = [""]
    for part in pattern.strip("/").split("/"):
        nxt: List[str] = []
        for base in found:
            if "*" not in part:
                nxt.append(base + "/" + part)
                continue
            names = src.listdir(base or "/")
            if names.ok:
                mark = re.compile(re.escape(part).replace(r"\*", ".*"))
                nxt += [base + "/" + name for name in names.value if mark.fullmatch(name)]
            elif names.state == "unknown" and names.reason != "not a folder":
                unread.add(base or "/")
        found = nxt
    kept = []
    for path in found:
        there = src.stat(path)
        if there.ok and there.value.get("type") in ("dir", "link"):
            kept.append(path)
        elif there.state == "unknown":
            unread.add(path)
    return kept


def _first(src: Source, paths: Iterable[str]) -> Fact:
    where = ""
    for path in paths:
        there = src.stat(path)
        if there.ok:
            return known(path, path)
        if there.state != "absent":
            return there
        where = where or path
    return absent(where)


# what


def environment(src: Source, site: Site, unread: Set[str]) -> Optional[Dict[str, Any]]:
    """The record of one folder, or None when it holds nothing of interest."""
    names = src.listdir(site.folder)
    if not names.ok:
        if names.state == "unknown":
            unread.add(site.folder)
        return None
    folders = wheel.distributions(names.value)
    packages = {name: version for name, (version, _) in folders.items() if wheel.is_tracked(name)}
    if not wheel.CORE & set(packages) and not site.in_scope:
        return None
    python = _python_version(src, site)
    record: Dict[str, Any] = {
        "path": site.prefix,
        "site": site.folder,
        "python": python,
        "in_scope": site.in_scope,
        "packages": packages,
        "glibc_tags": {},
        "architectures": {},
        "requires": {},
        "requires_python": {},
        "libraries": bundled(src, site),
    }
    for name in wheel.WHEEL_OF:
        if name in folders and folders[name][1].endswith(".dist-info"):
            tags = src.read(posixpath.join(site.folder, folders[name][1], "WHEEL")).map(
                wheel.parse_wheel
            )
            if tags.ok:
                record["glibc_tags"].update({name: tags.value[0]} if tags.value[0] else {})
                record["architectures"].update({name: tags.value[1]} if tags.value[1] else {})
    for name in wheel.METADATA_OF:
        if name in folders and folders[name][1].endswith(".dist-info"):
            where = posixpath.join(site.folder, folders[name][1], "METADATA")
            metadata = src.read(where).map(wheel.parse_metadata)
            if metadata.ok:
                record["requires"].update({name: metadata.value[0]} if metadata.value[0] else {})
                if metadata.value[1]:
                    record["requires_python"][name] = metadata.value[1]
    cuda, cpu_only = torch_cuda(src, site, packages)
    record["torch_cuda"], record["torch_cpu_only"] = cuda, cpu_only
    return record


def _python_version(src: Source, site: Site) -> Optional[str]:
    config = src.read(site.prefix + "/pyvenv.cfg")
    if config.ok:
        said = re.search(
            r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", config.value, re.MULTILINE
        )
        if said:
            return said.group(1)
    folder = re.search(r"/python(3\.\d+)/", site.folder + "/")
    if folder:
        return folder.group(1)
    link = src.stat("/usr/bin/python3")
    named = (
        re.fullmatch(r"python(3\.\d+)", str(link.value.get("target") or "")) if link.ok else None
    )
    return named.group(1) if named and site.prefix == "/usr" else None


def torch_cuda(src: Source, site: Site, packages: Dict[str, str]) -> Tuple[Optional[str], bool]:
    """(CUDA version torch was built for, whether it is a CPU build); (None, False) when torch is
    absent or not seen.
    """
    if "torch" not in packages:
        return None, False
    said = src.read(site.folder + "/torch/version.py").map(wheel.parse_torch_version)
    if said.ok:
        cuda, other = said.value
        return cuda, cuda is None and not other
    label = packages["torch"].partition("+")[2]
    named = re.fullmatch(r"cu(\d+)(\d)", label)
    if named:
        return "%s.%s" % named.groups(), False
    return None, label == "cpu"


def bundled(src: Source, site: Site) -> Dict[str, str]:
    """CUDA libraries that wheels of the folder (or a conda prefix) bring: soname -> path."""
    found: Dict[str, str] = {}
    root = site.folder + "/nvidia"
    parts = src.listdir(root)
    folders = ["%s/%s/lib" % (root, part) for part in (parts.value if parts.ok else [])]
    if src.stat(site.prefix + "/conda-meta").ok:
        folders.append(site.prefix + "/lib")
    for folder in folders:
        names = src.listdir(folder)
        for name in names.value if names.ok else []:
            if SONAME.fullmatch(name):
                found.setdefault(name, posixpath.join(folder, name))
    return found


def nccl_version(src: Source, library: str, packages: Dict[str, str]) -> Optional[str]:
    """Version of a bundled libnccl: of the wheel that brings it, its real file's name, else the
    nccl.h beside it.
    """
    for name, version in sorted(packages.items()):
        if re.fullmatch(r"nvidia-nccl-cu\d+", name):
            return version
    real = src.realpath(library)
    named = re.search(r"\.so\.(\d+\.\d+\.\d+)$", real.value) if real.ok else None
    if named:
        return named.group(1)
    header = src.read(posixpath.dirname(posixpath.dirname(library)) + "/include/nccl.h").map(
        wheel.parse_nccl_header
    )
    return str(header.value) if header.ok else None


# the system's own


def system_python(src: Source) -> Fact:
    """Version of /usr/bin/python3, from where its link leads, else from what it says."""
    link = src.stat("/usr/bin/python3")
    if not link.ok:
        return link
    named = re.fullmatch(r"(?:.*/)?python(3\.\d+)", str(link.value.get("target") or ""))
    if named:
        return known(named.group(1), "/usr/bin/python3")

    def parse(done: Any) -> Any:
        said = re.search(r"Python (\d+\.\d+(\.\d+)?)", done.stdout)
        return said.group(1) if said else unknown("no version in: %s" % done.stdout.strip()[:60])

    return src.run(["/usr/bin/python3", "-I", "-S", "-V"]).map(parse)


def managed_by(src: Source, python: Fact) -> Fact:
    """The EXTERNALLY-MANAGED marker of the system Python."""
    if not python.ok:
        return Fact(python.state, None, python.reason, python.via)
    minor = ".".join(python.value.split(".")[:2])
    return _first(
        src, ["%s/python%s/EXTERNALLY-MANAGED" % (lib, minor) for lib in ("/usr/lib", "/usr/lib64")]
    )
