"""Container engines, the NVIDIA toolkit, CDI and cgroups. The file on disk and the running daemon are two observations."""

import json
import re
from typing import Any, Dict, List, Optional

from doctor.probes.areas.host import IN_CONTAINER, in_container
from doctor.probes.areas.packages import installed_packages, manager_of
from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.pattern import regex
from doctor.probes.reading import cdi, docker_api, toml_subset
from doctor.probes.source import Completed, Source

DAEMON_KEYS = frozenset(
    {
        "runtimes",
        "default-runtime",
        "default-shm-size",
        "default-ulimits",
        "exec-opts",
        "features",
        "live-restore",
        "data-root",
        "hosts",
        "tlsverify",
        "storage-driver",
        "cdi-spec-dirs",
        "userns-remap",
        "seccomp-profile",
        "no-new-privileges",
    }
)
"""Keys of daemon.json that are kept; the others may hold registries, proxies or labels."""
TOOLKIT_PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container1",
    "libnvidia-container-tools",
    "nvidia-container-runtime",
    "nvidia-docker2",
)
DOCKER_PACKAGES = ("docker-ce", "docker.io", "moby-engine", "docker-engine", "docker")
CTK_CONFIG = "/etc/nvidia-container-runtime/config.toml"
SNAP_ROOT = "/var/snap/docker"
DEFAULT_SHM = 64 * 1024 * 1024
"""What Docker gives /dev/shm of a container unless told otherwise (docker run reference, --shm-size)."""
HOOK = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"

_SIZE = regex(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*$", re.IGNORECASE)
_TOOLKIT_VERSION = regex(r"(?:cli-version|version):? (\d+\.\d+\.\d+)")


def probe(src: Source) -> Dict[str, Fact]:
    """All fields of ContainerFacts."""
    inside = in_container(src)
    where = docker_api.endpoint(src)
    socket = docker_api.socket_path(src, where)
    version = docker_api.get(src, socket, "/version")
    nothing = inside and version.state == "absent"
    facts = _docker(src, socket, version, where)
    facts.update(_host_side(src, facts, inside))
    if nothing:
        facts.update({name: not_applicable(IN_CONTAINER) for name in facts})
    facts.update(_kernel_side(src, inside))
    facts["docker_host"] = _elsewhere(where)
    facts.pop("docker_system", None)
    return facts


def _elsewhere(where: Fact) -> Fact:
    """Only an endpoint that is not the system's own socket is worth a word."""
    usual = ("unix://" + docker_api.SOCKET, "unix:///run/docker.sock")
    return absent(where.via) if where.ok and where.value in usual else where


# Docker ------------------------------------------------------------------------------------------


def _docker(src: Source, socket: str, version: Fact, where: Fact) -> Dict[str, Fact]:
    facts = docker_api.info_facts(docker_api.get(src, socket, "/info"))
    snap = snap_docker(src)
    file = daemon_file(src, socket, snap)
    kept = file.map(daemon_settings)
    stat = src.stat(file.via)
    facts.update(
        {
            "docker_version": version.map(lambda value: str(value["Version"])),
            "docker_socket": docker_api.socket_state(version),
            "docker_from": _docker_origin(src, facts["docker_system"], where, snap, version),
            "docker_since": _since(src, socket, snap),
            "docker_default_shm": _default_shm(kept, src, version),
            "daemon_json": kept,
            "daemon_json_mtime": stat.map(lambda record: record["mtime"]),
            "running": docker_api.running(src, socket),
            "images": docker_api.images(src, socket),
            "image_names": docker_api.image_names(src, socket),
            "images_unseen": docker_api.images_unseen(src, socket),
            "snap_docker": snap,
        }
    )
    return facts


def snap_docker(src: Source) -> Fact:
    """Whether Docker is installed as a snap."""
    for path in ("/var/snap/docker/current", "/snap/docker/current"):
        found = src.stat(path)
        if found.ok:
            return known(True, path)
        if found.state != "absent":
            return Fact(found.state, None, found.reason, path)
    return known(False, "/var/snap/docker/current")


def daemon_file(src: Source, socket: str, snap: Fact) -> Fact:
    """The daemon.json that the daemon behind this socket reads."""
    if socket.startswith("/run/user/"):
        home = src.env("HOME")
        if home.ok:
            return src.read(home.value.rstrip("/") + "/.config/docker/daemon.json")
    if snap.ok and snap.value:
        return src.read(SNAP_ROOT + "/current/config/daemon.json")
    return src.read("/etc/docker/daemon.json")


def daemon_settings(text: str) -> Dict[str, Any]:
    """The kept keys of daemon.json; an empty file is an empty table, anything but an object a ValueError."""
    loaded = json.loads(text) if text.strip() else {}
    if not isinstance(loaded, dict):
        raise ValueError("not an object")  # noqa: TRY004
    return {key: loaded[key] for key in sorted(loaded) if key in DAEMON_KEYS}


def _docker_origin(src: Source, system: Fact, where: Fact, snap: Fact, version: Fact) -> Fact:
    """Who installed the Docker that answers, or that would: desktop, apt, dnf, snap or static."""
    if system.ok and system.value == "Docker Desktop":
        return known("desktop", system.via)
    if where.ok and "/.docker/desktop/" in where.value:
        return known("desktop", where.via)
    binary = src.first(_places("dockerd"))
    if not binary.ok:
        if snap.ok and snap.value:
            return known("snap", snap.via)
        if version.ok:
            return known("static", version.via)
        return Fact(binary.state, None, binary.reason, "dockerd")
    packages = installed_packages(src)
    if packages.state == "unknown":
        return packages
    if packages.ok and any(name in packages.value for name in DOCKER_PACKAGES):
        return manager_of(src)
    return known("static", binary.value)


def _places(program: str) -> List[str]:
    return [folder + program for folder in ("/usr/bin/", "/usr/sbin/", "/usr/local/bin/")]


def _since(src: Source, socket: str, snap: Fact) -> Fact:
    """When dockerd started, from its pid file and /proc."""
    pid = dockerd_pid(src, socket, snap)
    if not pid.ok:
        return pid
    stat = src.read("/proc/%d/stat" % pid.value)
    boot = src.read("/proc/stat")
    if not stat.ok or not boot.ok:
        missing = stat if not stat.ok else boot
        return Fact(missing.state, None, missing.reason, missing.via)
    return stat.map(lambda text: started_at(text, boot.value))


def dockerd_pid(src: Source, socket: str, snap: Fact) -> Fact:
    """The daemon's process; Absent without a pid file."""
    path = socket[: -len(".sock")] + ".pid"
    if snap.ok and snap.value:
        path = SNAP_ROOT + "/common/run/docker.pid"
    return src.read(path).map(lambda text: int(text.strip()))


def started_at(stat: str, boot: str) -> int:
    """/proc/PID/stat and /proc/stat -> seconds since the epoch; the kernel reports 100 ticks a second to programs."""
    ticks = int(stat.rpartition(")")[2].split()[19])
    times = [int(line.split()[1]) for line in boot.splitlines() if line.startswith("btime ")]
    if not times:
        raise ValueError("no btime in /proc/stat")
    return times[0] + ticks // 100


def _default_shm(settings: Fact, src: Source, version: Fact) -> Fact:
    if settings.ok and "default-shm-size" in settings.value:
        return settings.map(lambda value: size_of(value["default-shm-size"]))
    if settings.state == "unknown":
        return settings
    has_docker = version.state != "absent" or any(src.stat(path).ok for path in _places("dockerd"))
    return known(DEFAULT_SHM, "Docker's own default") if has_docker else absent("dockerd")


def size_of(value: Any) -> int:
    """64m, "1gb" or a number of bytes -> bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.match(str(value))
    if not match:
        raise ValueError("%r is not a size" % value)
    power = " kmgt".index(match.group(2).lower() or " ")
    return int(float(match.group(1)) * 1024**power)


# the toolkit and the other engines ---------------------------------------------------------------


def _host_side(src: Source, docker: Dict[str, Fact], inside: bool) -> Dict[str, Fact]:
    config = src.read(CTK_CONFIG).map(lambda text: toml_subset.flatten(toml_subset.parse(text)))
    packages = toolkit_packages(src)
    containerd = _containerd_config(src)
    facts = {
        "toolkit_packages": packages,
        "toolkit_version": _toolkit_version(src, packages),
        "toolkit_config": config,
        "toolkit_mode": _mode(config),
        "containerd_version": _containerd_version(src),
        "containerd_runtimes": containerd.map(containerd_runtimes),
        "containerd_root": _containerd_root(src, containerd),
        "podman_version": _version_of(src, "podman", r"version (\S+)"),
        "podman_hook": _flag(src, HOOK),
        "cdi_specs": cdi.specs(src),
        "cdi_refresh": _cdi_refresh(src),
        "dev_char_links": _dev_char_links(src),
    }
    if inside:
        return {name: not_applicable(IN_CONTAINER) for name in facts}
    return facts


def toolkit_packages(src: Source) -> Fact:
    """Versions of the toolkit's packages, epoch and revision cut; Absent when none is installed."""

    def pick(installed: Dict[str, str]) -> Any:
        found = {name: upstream(installed[name]) for name in TOOLKIT_PACKAGES if name in installed}
        return found if found else absent("package manager")

    return installed_packages(src).map(pick)


def upstream(version: str) -> str:
    """1.17.8-1 -> 1.17.8, 0:1.18.0~rc.1-1 -> 1.18.0rc1."""
    return re.sub(r"^\d+:", "", version).partition("-")[0].replace("~rc.", "rc")


def _toolkit_version(src: Source, packages: Fact) -> Fact:
    for name in (
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container1",
    ):
        if packages.ok and name in packages.value:
            return known(packages.value[name], packages.via)
    for program in ("nvidia-ctk", "nvidia-container-cli"):
        there = src.first(["/usr/bin/" + program, "/usr/local/bin/" + program])
        if there.ok:
            return src.run([program, "--version"]).map(_toolkit_number)
        if there.state == "unknown":
            return there
    return absent("nvidia-ctk")


def _toolkit_number(done: Completed) -> str:
    match = _TOOLKIT_VERSION.search(done.stdout)
    if not match:
        raise ValueError("no version in the answer")
    return match.group(1)


def _mode(config: Fact) -> Fact:
    """The mode that the runtime is told; a file that says nothing means auto."""

    def pick(flat: Dict[str, Any]) -> str:
        return str(flat.get("nvidia-container-runtime.mode") or "auto")

    return config.map(pick)


def _version_of(src: Source, program: str, pattern: str) -> Fact:
    there = src.first(_places(program))
    if not there.ok:
        return Fact(there.state, None, there.reason, program)

    def find(done: Completed) -> str:
        match = re.search(pattern, done.stdout)
        if not match:
            raise ValueError("no version in the answer")
        return match.group(1)

    return src.run([program, "--version"]).map(find)


def _containerd_version(src: Source) -> Fact:
    return _version_of(src, "containerd", r" v?(\d+\.\d+\.\d+[^ ]*)")


def _containerd_config(src: Source) -> Fact:
    """config.toml with its drop-ins, as nested tables."""
    main = src.read("/etc/containerd/config.toml").map(toml_subset.parse)
    names = src.glob("/etc/containerd/conf.d/*.toml")
    if main.state == "unknown" or not names.ok or not names.value:
        return main
    tables: List[Dict[str, Any]] = [main.value] if main.ok else []
    for name in names.value:
        extra = src.read(name).map(toml_subset.parse)
        if not extra.ok:
            return extra
        tables.append(extra.value)
    return known({"files": tables}, "/etc/containerd/config.toml")


def containerd_runtimes(config: Dict[str, Any]) -> List[str]:
    """Names under any plugin's containerd.runtimes, of config versions 2 and 3."""
    found: List[str] = []
    for table in config.get("files") or [config]:
        for plugin in (table.get("plugins") or {}).values():
            runtimes = ((plugin or {}).get("containerd") or {}).get("runtimes") or {}
            found += list(runtimes)
    return sorted(set(found))


def _containerd_root(src: Source, config: Fact) -> Fact:
    if config.state == "unknown":
        return config
    tables = (config.value.get("files") or [config.value]) if config.ok else []
    root: Optional[str] = next((t["root"] for t in reversed(tables) if t.get("root")), None)
    if root:
        return known(root, config.via)
    return src.stat("/var/lib/containerd").map(lambda _: "/var/lib/containerd")


def _flag(src: Source, path: str) -> Fact:
    found = src.stat(path)
    if found.state == "unknown":
        return found
    return known(found.ok, path)


def _cdi_refresh(src: Source) -> Fact:
    unit = "nvidia-cdi-refresh.path"
    places = [folder + unit for folder in ("/usr/lib/systemd/system/", "/etc/systemd/system/")]
    if all(src.stat(path).state == "absent" for path in places):
        return absent(unit)
    shown = src.run(["systemctl", "show", "--property=ActiveState", unit])
    return shown.map(lambda done: done.stdout.strip().partition("=")[2] or unknown("no state"))


def _dev_char_links(src: Source) -> Fact:
    node = src.stat("/dev/nvidiactl")
    if node.state == "absent":
        return not_applicable("no /dev/nvidiactl")
    if not node.ok or not node.value.get("rdev"):
        return unknown(node.reason or "not a device node", "/dev/nvidiactl")
    link = "/dev/char/%s" % node.value["rdev"]
    found = src.stat(link)
    return known(found.ok, link) if found.state != "unknown" else found


# the kernel's side -------------------------------------------------------------------------------


def _kernel_side(src: Source, inside: bool) -> Dict[str, Fact]:
    devices = src.read("/sys/fs/selinux/booleans/container_use_devices")
    return {
        "cgroup_version": _cgroup(src),
        "selinux": not_applicable(IN_CONTAINER) if inside else _selinux(src),
        "selinux_container_use_devices": devices.map(lambda text: text.split()[0] == "1"),
        "apparmor": src.read("/sys/module/apparmor/parameters/enabled").map(
            lambda text: text.strip() == "Y"
        ),
    }


def _cgroup(src: Source) -> Fact:
    if src.stat("/sys/fs/cgroup/cgroup.controllers").ok:
        return known("v2", "/sys/fs/cgroup/cgroup.controllers")
    if src.stat("/sys/fs/cgroup/unified").ok:
        return known("hybrid", "/sys/fs/cgroup/unified")
    names = src.listdir("/sys/fs/cgroup")
    return names.map(lambda found: "v1" if found else absent("/sys/fs/cgroup"))


def _selinux(src: Source) -> Fact:
    mode = src.read("/sys/fs/selinux/enforce")
    if mode.state != "absent":
        return mode.map(lambda text: "enforcing" if text.strip() == "1" else "permissive")
    config = src.stat("/etc/selinux/config")
    return known("disabled", mode.via) if config.ok else absent(mode.via)
