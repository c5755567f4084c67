"""Docker, containerd and podman as their files, sockets and commands show them."""

from __future__ import annotations

import json
from typing import Any

from doctor.facts.versions import Pep440Version
from doctor.simulate.description import ContainersPart, ImagePart, RunningPart
from doctor.simulate.host import Host
from doctor.simulate.knowledge import matrix
from doctor.simulate.sizes import size
from doctor.simulate.writer import RecordingWriter

PID = 1001
OLD = 1_790_000_000
"""When a file was changed that the running daemon has read."""
DEFAULT_SHM = 64 << 20
SNAP = "/var/snap/docker"


def write(host: Host, out: RecordingWriter) -> None:
    """Nothing of the host's engines is seen from inside a container."""
    if host.in_container:
        return
    part = host.d.containers
    if is_there(part.docker):
        _docker(host, part, out)
    if is_there(part.containerd) or (is_there(part.docker) and _packaged(part)):
        _containerd(part, out)
    if is_there(part.podman):
        out.file("/usr/bin/podman", keep=False, mode=0o755)
        out.command(["podman", "--version"], f"podman version {part.podman}\n")


def is_there(version: str | None) -> bool:
    """Whether a version is said."""
    return version not in (None, "none")


def origin(host: Host, part: ContainersPart) -> str:
    """Where Docker comes from; the distribution's package manager unless said."""
    return part.origin or ("apt" if host.family == "debian" else "dnf")


def _packaged(part: ContainersPart) -> bool:
    return part.origin not in ("snap", "desktop")


def socket_of(part: ContainersPart) -> str:
    """Rootless Docker listens in its user's runtime folder."""
    return "/run/user/1000/docker.sock" if part.rootless else "/var/run/docker.sock"


def settings(part: ContainersPart) -> dict[str, Any]:
    """What daemon.json says: the given keys, with the NVIDIA runtime where the toolkit was configured."""
    installed = is_there(part.toolkit) or bool(part.toolkit_packages)
    configured = ["nvidia"] if installed and part.toolkit_in_docker else []
    runtimes = configured if part.runtimes is None else part.runtimes
    named = {
        name: {"args": [], "path": "nvidia-container-runtime" if name == "nvidia" else name}
        for name in runtimes
    }
    said = dict(part.daemon_json)
    if named:
        said["runtimes"] = {**named, **said.get("runtimes", {})}
    return said


def known_runtimes(part: ContainersPart) -> list[str]:
    """What the running daemon knows: its own, and what its file had when it started."""
    if part.daemon_runtimes is not None:
        return sorted({"io.containerd.runc.v2", "runc", *part.daemon_runtimes})
    read = [] if part.origin == "snap" else list(settings(part).get("runtimes", {}))
    return sorted({"io.containerd.runc.v2", "runc", *read})


def _docker(host: Host, part: ContainersPart, out: RecordingWriter) -> None:
    snap = part.origin == "snap"
    if snap:
        out.link(f"{SNAP}/current", "2915")
        out.file("/snap/bin/docker", keep=False, mode=0o755)
    elif part.origin != "desktop":
        out.file("/usr/bin/dockerd", keep=False, mode=0o755)
        out.file("/usr/bin/docker", keep=False, mode=0o755)
    said = settings(part)
    if said:
        stale = part.daemon_runtimes is not None and not snap
        text = json.dumps(said, indent=4) + "\n"
        for path in _daemon_files(part):
            out.file(path, text, mtime=None if stale else OLD)
    socket = socket_of(part)
    out.node(socket, "", kind="socket", mode=0o660)
    out.folder("/run/systemd/system")
    if not snap and not part.rootless and part.origin != "desktop":
        wanted = "/etc/systemd/system/sockets.target.wants/docker.socket"
        out.link(wanted, "/usr/lib/systemd/system/docker.socket")
    if part.daemon_running:
        if part.origin != "desktop":
            _process(part, out)
        _answers(host, part, out)
    elif snap or part.rootless or part.origin == "desktop":
        for target in ("/version", "/info", "/containers/json", "/images/json"):
            refused = "the socket is there but nothing listens"
            out.http[f"unix://{socket} GET {target}"] = {"error": refused}


def _daemon_files(part: ContainersPart) -> list[str]:
    if part.origin == "snap":
        # a person writes the file that the snap does not read
        return ["/etc/docker/daemon.json"]
    if part.rootless:
        return ["/home/user/.config/docker/daemon.json", "/root/.config/docker/daemon.json"]
    return ["/etc/docker/daemon.json"]


def _process(part: ContainersPart, out: RecordingWriter) -> None:
    path = socket_of(part)[: -len(".sock")] + ".pid"
    out.file(f"{SNAP}/common/run/docker.pid" if part.origin == "snap" else path, f"{PID}\n")
    out.file(f"/proc/{PID}/comm", "dockerd\n")
    fields = ["S", "1", *["0"] * 17, "1200", *["0"] * 30]
    out.file(f"/proc/{PID}/stat", f"{PID} (dockerd) {' '.join(fields)}\n")


def _answers(host: Host, part: ContainersPart, out: RecordingWriter) -> None:
    socket = socket_of(part)
    containerd = part.containerd if is_there(part.containerd) else "1.7.28"
    out.get(
        socket,
        "/version",
        {
            "Version": part.docker,
            "ApiVersion": "1.51",
            "Os": "linux",
            "Components": [
                {"Name": "Engine", "Version": part.docker},
                {"Name": "containerd", "Version": containerd},
            ],
        },
    )
    out.get(socket, "/info", _info(host, part))
    running = [(f"{n:012x}{n:052x}", item) for n, item in enumerate(part.running, start=0xC0FFEE)]
    out.get(socket, "/containers/json", [{"Id": ident} for ident, _ in running])
    for place, (ident, item) in enumerate(running):
        out.get(socket, f"/containers/{ident}/json", inspected(ident, place, item, part))
    images = [(f"sha256:{n:064x}", item) for n, item in enumerate(part.images, start=0xA0)]
    out.get(socket, "/images/json", [_listed(ident, item) for ident, item in images])
    for ident, local in images:
        env = [f"{key}={value}" for key, value in local.env.items()]
        config = {"Env": env, "Labels": local.labels or None}
        body = {"Id": ident, "RepoTags": [local.ref], "Config": config}
        out.get(socket, f"/images/{ident}/json", body)


def _info(host: Host, part: ContainersPart) -> dict[str, Any]:
    said = settings(part)
    security = ["name=seccomp,profile=builtin"]
    if host.family == "debian":
        security.insert(0, "name=apparmor")
    if part.rootless:
        security.append("name=rootless")
    if host.d.cgroup == "v2":
        security.append("name=cgroupns")
    root = {"snap": f"{SNAP}/common/var-lib-docker"}.get(part.origin or "", "/var/lib/docker")
    if part.rootless:
        root = "/home/user/.local/share/docker"
    return {
        "ServerVersion": part.docker,
        "Driver": said.get("storage-driver", "overlay2"),
        "CgroupDriver": _cgroup_driver(part, said),
        "CgroupVersion": "2" if host.d.cgroup == "v2" else "1",
        "DockerRootDir": said.get("data-root", root),
        "OperatingSystem": "Docker Desktop" if part.origin == "desktop" else host.pretty_name,
        "OSType": "linux",
        "Runtimes": {name: {"path": name} for name in known_runtimes(part)},
        "DefaultRuntime": _default_runtime(part, said),
        "LiveRestoreEnabled": bool(said.get("live-restore", False)),
        "SecurityOptions": security,
        "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"] if reads_cdi(part, said) else [],
    }


def _default_runtime(part: ContainersPart, said: dict[str, Any]) -> str:
    wanted = str(said.get("default-runtime", "runc"))
    return wanted if wanted in known_runtimes(part) else "runc"


def _cgroup_driver(part: ContainersPart, said: dict[str, Any]) -> str:
    for option in said.get("exec-opts", []):
        if option.startswith("native.cgroupdriver="):
            return str(option.partition("=")[2])
    return part.cgroup_driver


def reads_cdi(part: ContainersPart, said: dict[str, Any]) -> bool:
    """On by default, or switched on where this Docker has the switch."""
    row = matrix().index("container_engines").get("docker")
    version = Pep440Version.maybe(part.docker or "")
    if row is None or version is None or row.cdi_since is None or row.cdi_default_since is None:
        return False
    switch = said.get("features", {}).get("cdi")
    return bool(version >= row.cdi_since and switch) or (
        version >= row.cdi_default_since and switch is not False
    )


def _listed(ident: str, item: ImagePart) -> dict[str, Any]:
    labels = item.labels or {"maintainer": "NVIDIA CORPORATION <cudatools@nvidia.com>"}
    return {
        "Id": ident,
        "RepoTags": [item.ref],
        "Labels": labels,
        "Size": size(item.size, "containers.images.size"),
    }


def inspected(ident: str, place: int, item: RunningPart, part: ContainersPart) -> dict[str, Any]:
    """The answer of inspect for a running container."""
    runtime = item.runtime or str(settings(part).get("default-runtime", "runc"))
    env = [f"{key}={value}" for key, value in item.env.items()]
    if item.gpus and item.runtime and not any(e.startswith("NVIDIA_VISIBLE") for e in env):
        ids = "all" if item.gpus is True else ",".join(item.gpus)
        env.append(f"NVIDIA_VISIBLE_DEVICES={'void' if item.cdi else ids}")
    return {
        "Id": ident,
        "Name": f"/{item.name or 'container-' + str(place)}",
        "State": {"Status": "running", "Pid": 2000 + place},
        "Config": {
            "Image": item.image,
            "Env": env,
            "Entrypoint": None,
            "Cmd": item.args,
            "User": item.user or "",
        },
        "HostConfig": {
            "Runtime": runtime,
            "ShmSize": DEFAULT_SHM if item.shm is None else size(item.shm, "running.shm"),
            "IpcMode": item.ipc or "private",
            "NetworkMode": item.network or "bridge",
            "Privileged": item.privileged,
            "CapAdd": item.cap_add or None,
            "CapDrop": item.cap_drop or None,
            "SecurityOpt": ["no-new-privileges"] if item.no_new_privileges else None,
            "Ulimits": [_ulimit(name, value) for name, value in item.ulimits.items()],
            "DeviceRequests": _requests(item),
            "Devices": [],
        },
        "NetworkSettings": {"Ports": dict(_port(text) for text in item.ports)},
    }


def _requests(item: RunningPart) -> list[dict[str, Any]] | None:
    if not item.gpus or item.runtime:
        return None
    ids = None if item.gpus is True else list(item.gpus)
    if item.cdi:
        named = [f"nvidia.com/gpu={name}" for name in ids or ["all"]]
        return [{"Driver": "cdi", "Count": 0, "DeviceIDs": named, "Capabilities": None}]
    count = -1 if ids is None else 0
    return [{"Driver": "", "Count": count, "DeviceIDs": ids, "Capabilities": [["gpu"]]}]


def _ulimit(name: str, value: Any) -> dict[str, Any]:
    soft, hard = value if isinstance(value, list) else (value, value)
    return {"Name": name, "Soft": _limit(soft), "Hard": _limit(hard)}


def _limit(value: Any) -> int:
    return -1 if value == "unlimited" else size(value)


def _port(text: str) -> tuple[str, list[dict[str, str]]]:
    """8000 or 127.0.0.1:8000:8000."""
    parts = text.split(":")
    address = parts[0] if len(parts) == 3 else ""
    return f"{parts[-1]}/tcp", [{"HostIp": address or "0.0.0.0", "HostPort": parts[-2:][0]}]  # noqa: S104


def _containerd(part: ContainersPart, out: RecordingWriter) -> None:
    version = part.containerd if is_there(part.containerd) else "1.7.28"
    out.file("/usr/bin/containerd", keep=False, mode=0o755)
    out.command(["containerd", "--version"], f"containerd containerd.io {version} 05044ec\n")
    out.folder("/var/lib/containerd", mode=0o711)
    if not is_there(part.docker) and is_there(part.toolkit):
        lines = ["version = 2", ""]
        for name in ["runc", *(part.runtimes if part.runtimes is not None else ["nvidia"])]:
            lines.append(f'[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]')
            lines.append('  runtime_type = "io.containerd.runc.v2"')
        out.file("/etc/containerd/config.toml", "\n".join(lines) + "\n", mtime=OLD)
