"""Shared memory of the scope, what was left in it, and the disks where images, engines and caches live."""

import posixpath
from typing import Any, Dict, List, Optional, Tuple

from doctor.probes.areas.container import daemon_file, daemon_settings, snap_docker
from doctor.probes.areas.host import in_container
from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.pattern import regex
from doctor.probes.reading import docker_api
from doctor.probes.source import Completed, Source

FAMILIES = (
    "nccl-",
    "torch_",
    "psm_",
    "sem.",
    "vllm",
    "cuda.shm",
    "nvshmem",
    "ucx_shm",
    "sagemaker",
)
"""How programs on a GPU host begin the names of their shared memory; the order decides."""
SHM = "/dev/shm"
MAX_FILES = 256
MAX_PROCESSES = 4096

_ESCAPED = regex(r"\\([0-7]{3})")


def probe(src: Source) -> Dict[str, Fact]:
    """All fields of StorageFacts."""
    mounts = src.read("/proc/self/mounts").map(parse_mounts)
    shm = shm_folder(src)
    space = src.statvfs(shm)
    return {
        "shm": _shm(shm, space, mounts),
        "shm_used": space.map(lambda info: info["total"] - info["free"]),
        "shm_left_behind": left_behind(src, shm),
        "disks": _disks(src, mounts),
    }


def shm_folder(src: Source) -> str:
    """Where the scope sees its shared memory."""
    process = src.process().value or {}
    kind, _, pid = str(process.get("scope", "shell")).partition(":")
    return "/proc/%s/root/dev/shm" % pid if kind == "pid" and pid.isdigit() else SHM


def parse_mounts(text: str) -> List[Tuple[str, str, List[str]]]:
    """/proc/self/mounts -> [(mount point, file system, options)]."""
    found = []
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 4:
            point = _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), parts[1])
            found.append((point, parts[2], parts[3].split(",")))
    return found


def mount_of(path: str, mounts: Fact) -> Tuple[str, Optional[str], List[str]]:
    """The last mounted of the longest mount points that hold the path."""
    best: Tuple[str, Optional[str], List[str]] = ("/", None, [])
    for point, kind, options in mounts.value if mounts.ok else []:
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind, options)
    return best


def _shm(path: str, space: Fact, mounts: Fact) -> Fact:
    return space.map(lambda info: disk(path, info, mounts))


def disk(path: str, info: Dict[str, Any], mounts: Fact) -> Dict[str, Any]:
    """The file system that holds a path."""
    point, kind, options = mount_of(path, mounts)
    return {
        "mount": point,
        "path": path,
        "filesystem": kind,
        "size": info["total"],
        "free": info["avail"],
        "read_only": "ro" in options,
    }


# left behind -------------------------------------------------------------------------------------


def left_behind(src: Source, folder: str) -> Fact:
    """Files of known families that no process maps: [{"name", "count", "size"}]. Looks at processes only when there are such files."""
    names = src.listdir(folder)
    if not names.ok:
        return names
    likely = [name for name in names.value if family(name)][:MAX_FILES]
    if not likely:
        return known([], folder)
    mapped = _mapped(src, folder)
    if not mapped.ok:
        return unknown(mapped.reason or "grep is not there", mapped.via)
    sizes: Dict[str, List[int]] = {}
    for name in likely:
        if name in mapped.value:
            continue
        stat = src.stat(folder + "/" + name)
        if stat.ok and stat.value.get("type") == "file":
            sizes.setdefault(family(name), []).append(stat.value.get("size") or 0)
    return known(
        [
            {"name": name, "count": len(found), "size": sum(found)}
            for name, found in sorted(sizes.items())
        ],
        folder,
    )


def family(name: str) -> str:
    """The known prefix of a file's name; empty when it belongs to nobody known."""
    return next((prefix for prefix in FAMILIES if name.startswith(prefix)), "")


def _mapped(src: Source, folder: str) -> Fact:
    """Names in the folder that some process maps. grep reads the maps, so that they are in no recording."""
    euid = (src.process().value or {}).get("euid")
    if euid != 0:
        return unknown("without root it is not seen which processes map them", folder)
    if in_container(src):
        return unknown("other containers may map them, which is not seen from here", folder)
    listed = src.listdir("/proc")
    if not listed.ok:
        return listed
    pids = sorted((int(name) for name in listed.value if name.isdigit()))
    if len(pids) > MAX_PROCESSES:
        return unknown("more than %d processes" % MAX_PROCESSES, "/proc/*/maps")
    maps = ["/proc/%d/maps" % pid for pid in pids]
    found = src.run(["grep", "-hoE", "-s", "dev/shm/[^ ]+", "/dev/null", *maps], ok=(0, 1, 2))
    return found.map(lambda done: mapped_names(done))


def mapped_names(done: Completed) -> List[str]:
    """grep's lines -> file names."""
    return sorted({line.rpartition("/")[2] for line in done.stdout.splitlines() if line})


# disks -------------------------------------------------------------------------------------------


def _disks(src: Source, mounts: Fact) -> Fact:
    """Purpose -> the file system that holds it; a place that does not exist is judged by the folder it would be made in."""
    found: Dict[str, Any] = {}
    for purpose, path in places(src):
        real = nearest(src, path)
        info = src.statvfs(real) if real else unknown("no folder", path)
        if info.ok:
            found[purpose] = disk(real or path, info.value, mounts)
        elif purpose in ("root", "docker", "containerd"):
            return unknown(info.reason or "not there", path)
    return known(found, "statvfs")


def places(src: Source) -> List[Tuple[str, str]]:
    """Where images, engines and caches live on this host."""
    found = [("root", "/"), ("tmp", "/tmp")]
    home = src.env("HOME")
    cache = _hf_cache(src, home)
    if cache:
        found.append(("hf-cache", cache))
    if home.ok and home.value.startswith("/"):
        found.append(("home", home.value))
    if in_container(src):
        return found
    docker = docker_root(src)
    if docker.ok and src.stat(docker.value).state != "absent":
        found.append(("docker", docker.value))
    containerd = "/var/lib/containerd"
    if src.stat(containerd).ok:
        found.append(("containerd", containerd))
    return found


def _hf_cache(src: Source, home: Fact) -> Optional[str]:
    for name in ("HF_HUB_CACHE", "HF_HOME"):
        value = src.env(name)
        if value.ok and value.value.startswith("/"):
            return str(value.value)
    if home.ok and home.value.startswith("/"):
        return str(home.value).rstrip("/") + "/.cache/huggingface"
    return None


def docker_root(src: Source) -> Fact:
    """DockerRootDir of the daemon, else data-root of its file, else Docker's default."""
    socket = docker_api.socket_path(src, docker_api.endpoint(src))
    said = docker_api.info_facts(docker_api.get(src, socket, "/info"))["docker_root"]
    if said.ok:
        return said
    settings = daemon_file(src, socket, snap_docker(src)).map(daemon_settings)
    if settings.ok and isinstance(settings.value.get("data-root"), str):
        return known(settings.value["data-root"], settings.via)
    return (
        known("/var/lib/docker", "Docker's default") if settings.state != "unknown" else absent("")
    )


def nearest(src: Source, path: str) -> Optional[str]:
    """The path, or the nearest folder above it that exists."""
    while path:
        if src.stat(path).ok:
            return path
        if path == "/":
            return None
        path = posixpath.dirname(path)
    return None
