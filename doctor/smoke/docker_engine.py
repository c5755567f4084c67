"""The local Docker daemon for the rung `container`: connect, make a container without privileges, say what it lacks for GPUs."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from doctor.facts.model import Absent, Known
from doctor.smoke.image_guest import MEMORY_LABEL
from doctor.smoke.processes import MARK

if TYPE_CHECKING:
    from docker import DockerClient

    from doctor.smoke.context import Context

SOCKET = "/var/run/docker.sock"
HOOKS = ("nvidia-container-runtime-hook", "nvidia-cdi-hook")
FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/local/nvidia/toolkit", "/run/current-system/sw/bin")
RLIMITS = {"3": "stack", "6": "nproc", "7": "nofile", "8": "memlock"}
"""RLIMIT_* of Linux by number."""
CDI_DIRS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")
INSTALL = (
    "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
)


class Refused(Exception):
    """What the daemon, or the way to it, says against what was asked."""

    @property
    def limit(self) -> str:
        """The resource limit that could not be set, by the number of setrlimit that runc gives; empty for another refusal."""
        found = re.search(r"setting rlimit type (\d+)", str(self))
        return RLIMITS.get(found.group(1), "") if found else ""

    def without_program(self, name: str) -> bool:
        """Whether the image has no such program, in runc's or crun's words."""
        text = str(self)
        return name in text and ("executable file not found" in text or "no such file" in text)

    @classmethod
    def of(cls, error: Exception) -> Refused | None:
        """The daemon's sentence; None for an error that is not the daemon's."""
        from docker.errors import APIError, DockerException

        if isinstance(error, APIError):
            return cls(str(error.explanation or error))
        return cls(str(error)) if isinstance(error, DockerException) else None


def why_not_tried(ctx: Context) -> str | None:
    """Why Docker has no part in this run: its endpoint is another host's, or there is none here and no image was asked for."""
    named = os.environ.get("DOCKER_HOST")
    if named is None and isinstance(ctx.facts.container.docker_host, Known):
        named = ctx.facts.container.docker_host.value
    if named is not None:
        local = named.startswith("unix://")
        return None if local else f"docker leads to {named}, which is not this host"
    if ctx.options.image is None and isinstance(ctx.facts.container.docker_socket, Absent):
        return "there is no Docker here, and no image was asked for"
    return None


def why_no_cdi(ctx: Context, docker: DockerClient) -> str | None:
    """Why CDI is not tried: the host has no specification, or its daemon does not read them."""
    specs = ctx.facts.container.cdi_specs
    if not isinstance(specs, Known) or not specs.value:
        return "no CDI specification"
    return None if docker.info().get("CDISpecDirs") else "this Docker has CDI off"


def client(ctx: Context) -> DockerClient:
    """A connection to the daemon, closed at the end of the run. Refused when nobody answers."""
    import docker
    from docker.errors import DockerException

    path = os.environ.get("DOCKER_HOST", SOCKET).removeprefix("unix://")
    try:
        with socket.socket(
            socket.AF_UNIX
        ) as probe:  # the SDK leaves a socket open that did not connect
            probe.settimeout(10)
            probe.connect(path)
        found = docker.from_env(timeout=60)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from None
    except DockerException as error:
        raise Refused(str(error)) from None
    ctx.resources.on_release("connection to Docker", found.close)
    return found


def gpu_device(how: str | None) -> list[Any]:
    """Device requests: as `--gpus all`, or as `--device nvidia.com/gpu=all`."""
    from docker.types import DeviceRequest

    if how is None:
        return []
    if how == "cdi":
        return [DeviceRequest(driver="cdi", device_ids=["nvidia.com/gpu=all"])]
    return [DeviceRequest(count=-1, capabilities=[["gpu"]])]


def made_container(
    ctx: Context,
    docker: DockerClient,
    image: str,
    command: Sequence[str],
    *,
    shm: int,
    ulimits: Mapping[str, int],
    devices: Sequence[Any],
) -> Any:
    """Made and not started: the engine's user, no capability, no network; removed at the end of the run."""
    from docker.types import Ulimit

    uid = ctx.user.uid if ctx.user.uid is not None else os.geteuid()
    gid = ctx.user.gid if ctx.user.gid is not None else os.getegid()
    container = docker.containers.create(
        image,
        command=list(command[1:]),
        entrypoint=list(command[:1]),
        environment={MARK: ctx.run, "CUDA_CACHE_DISABLE": "1"},
        user=f"{uid}:{gid}",
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        ipc_mode="private",
        shm_size=shm,
        ulimits=[Ulimit(name=name, soft=value, hard=value) for name, value in ulimits.items()],
        device_requests=list(devices) or None,
        labels={MEMORY_LABEL: ctx.run},
        log_config={"type": "json-file"},
    )
    ctx.resources.on_release(f"container {container.short_id}", lambda: _remove(container))
    return container


def missing_for_gpus(ctx: Context) -> tuple[list[str], str, str]:
    """What a container needs for GPUs and is not here: (each thing in words, what to do, the next command)."""
    missing = []
    toolkit = any(ctx.source.exists(f"{folder}/{hook}").ok for hook in HOOKS for folder in FOLDERS)
    if not toolkit:
        missing.append(f"the NVIDIA Container Toolkit (no {' and no '.join(HOOKS)})")
    nodes = [path for path in NODES if ctx.source.stat(path).state == "absent"]
    if nodes:
        missing.append(f"the driver's device nodes ({', '.join(nodes)})")
    specs = ctx.facts.container.cdi_specs
    if not isinstance(specs, Known) or not specs.value:
        missing.append(f"a CDI specification in {', '.join(CDI_DIRS[:2])}")
    runtimes = ctx.facts.container.docker_runtimes
    if isinstance(runtimes, Known) and "nvidia" not in runtimes.value:
        missing.append(f"the runtime nvidia in Docker (it has {', '.join(runtimes.value)})")
    if nodes:
        return missing, "load the driver on the host first", "doctor check --only 'driver.*'"
    if not toolkit:
        return (
            missing,
            f"install the NVIDIA Container Toolkit: {INSTALL}",
            "doctor plan --want container",
        )
    return (
        missing,
        "register the toolkit with Docker and restart it when no container is needed",
        "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
    )


def _remove(container: Any) -> None:
    from docker.errors import NotFound

    try:
        container.remove(force=True)
    except NotFound:
        return
