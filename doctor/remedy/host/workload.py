"""What runs on the host that a step could disturb. What cannot be seen counts as something that runs."""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any

DOCKER = "/var/run/docker.sock"
SERVANTS = ("nvidia-persiste", "nv-fabricmanage", "nvidia-imex", "nvidia-powerd")
"""Names (as the kernel cuts them) of the driver's own services: they hold device nodes and are no workload."""
_SHIMS = ("containerd-shim", "conmon", "crio-conmon", "docker-containe")


def look(docker: str = DOCKER) -> dict[str, Any]:
    """-> {"gpu": ["python3 (pid 7)"], "containers": ["name (docker)"], "live_restore": bool, "unknown": [reason]}"""
    said: dict[str, Any] = {"gpu": [], "containers": [], "live_restore": False, "unknown": []}
    dockers = _docker(docker, said)
    shims = 0
    for pid in _pids():
        name = _name(pid)
        if name.startswith(_SHIMS):
            shims += 1
        held = _holds_gpu(pid)
        if held is None and os.geteuid() != 0:
            said["unknown"] = ["processes of other users cannot be seen without root"]
        if held and not _is_servant(pid, name):
            said["gpu"].append(f"{name} (pid {pid})")
    others = shims - dockers
    if others > 0:
        said["containers"].append(f"{others} of another engine than Docker")
        said["live_restore"] = False
    return said


def _is_servant(pid: str, name: str) -> bool:
    """By its program too: anybody can give a process any name."""
    if not name.startswith(SERVANTS):
        return False
    try:
        return os.readlink(f"/proc/{pid}/exe").startswith(("/usr/bin/", "/usr/sbin/"))
    except OSError:
        return False


def _pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _holds_gpu(pid: str) -> bool | None:
    """Whether a process has a device of the driver open or mapped; None when it could not be seen."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return None
    except OSError:
        return False
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("/dev/nvidia") or target == "/dev/dxg":
            return True
    return False


def _docker(path: str, said: dict[str, Any]) -> int:
    """Docker's running containers, from the daemon itself; how many of the shims are theirs."""
    if not any(_name(pid) == "dockerd" for pid in _pids()):
        return 0
    try:
        status, info = _get(path, "/info")
        listed_status, listed = _get(path, "/containers/json")
    except (OSError, ValueError, http.client.HTTPException) as error:
        said["unknown"].append(f"the running Docker daemon cannot be asked: {error}")
        return 0
    if status != 200 or listed_status != 200 or not isinstance(listed, list):
        said["unknown"].append(f"the running Docker daemon answers {status}")
        return 0
    said["live_restore"] = bool(isinstance(info, dict) and info.get("LiveRestoreEnabled"))
    for item in listed:
        names = item.get("Names") or [str(item.get("Id", ""))[:12]]
        said["containers"].append(f"{names[0].lstrip('/')} (docker)")
    return len(listed)


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=5)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(5)
        self.sock.connect(self.path)


def _get(path: str, target: str) -> tuple[int, Any]:
    connection = _Unix(path)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read(1 << 24))
    finally:
        connection.close()
