"""Limits of the shell, of systemd's defaults and of dockerd."""

from __future__ import annotations

from typing import Any

from doctor.simulate.containers import PID, is_there
from doctor.simulate.host import Host
from doctor.simulate.sizes import size
from doctor.simulate.writer import RecordingWriter

UNLIMITED = 2**64 - 1
HEALTHY: dict[str, list[Any]] = {
    "memlock": ["unlimited", "unlimited"],
    "stack": ["8M", "unlimited"],
    "nofile": [65536, 1048576],
    "nproc": [2062640, 2062640],
}
SYSTEMD: dict[str, list[Any]] = {
    "memlock": ["unlimited", "unlimited"],
    "stack": ["8M", "unlimited"],
    "nofile": [65536, 524288],
    "nproc": [2062640, 2062640],
}
_ROWS = {
    "stack": ("Max stack size", "bytes"),
    "nproc": ("Max processes", "processes"),
    "nofile": ("Max open files", "files"),
    "memlock": ("Max locked memory", "bytes"),
}


def write(host: Host, out: RecordingWriter) -> None:
    """Every scope alone: the file limits.conf is not the limit of a running service."""
    said = host.d.limits
    shell = merged(HEALTHY, said.get("shell", {}))
    out.process["rlimits"] = {
        name: [_number(item) for item in pair] for name, pair in shell.items()
    }
    if host.in_container:
        return
    out.file("/etc/security/limits.conf", "# /etc/security/limits.conf\n")
    systemd = host.d.platform != "wsl2" or (host.d.wsl is not None and host.d.wsl.systemd)
    if systemd:
        out.folder("/run/systemd/system")
        _systemd(merged(SYSTEMD, said.get("systemd", {})), out)
    if is_there(host.d.containers.docker) and f"/proc/{PID}/comm" in out.files:
        limits = merged(_dockerd_defaults(), said.get("dockerd", {}))
        lines = ["Limit                     Soft Limit           Hard Limit           Units     "]
        for name, (label, unit) in _ROWS.items():
            soft, hard = (_shown(item) for item in limits[name])
            lines.append(f"{label:<25} {soft:<20} {hard:<20} {unit:<10}")
        out.file(f"/proc/{PID}/limits", "\n".join(lines) + "\n")


def _dockerd_defaults() -> dict[str, list[Any]]:
    return {**HEALTHY, "nofile": [1048576, 1048576], "nproc": ["unlimited", "unlimited"]}


def merged(healthy: dict[str, list[Any]], said: dict[str, Any]) -> dict[str, list[Any]]:
    """One value means soft and hard alike."""
    pairs = {
        name: list(value) if isinstance(value, list) else [value, value]
        for name, value in said.items()
    }
    return {**healthy, **pairs}


def _number(item: Any) -> int:
    return -1 if item == "unlimited" else size(item, "limits")


def _shown(item: Any) -> str:
    number = _number(item)
    return "unlimited" if number < 0 else str(number)


def _systemd(limits: dict[str, list[Any]], out: RecordingWriter) -> None:
    from doctor.probes.areas.limits import NAMES

    properties = [f"DefaultLimit{n.upper()}{kind}" for n in NAMES for kind in ("", "Soft")]
    lines = []
    for name in NAMES:
        soft, hard = (_number(item) for item in limits[name])
        for kind, number in (("", hard), ("Soft", soft)):
            shown = "infinity" if number < 0 else str(number)
            lines.append(f"DefaultLimit{name.upper()}{kind}={shown}")
    out.command(
        ["systemctl", "show", "--property=" + ",".join(properties)], "\n".join(lines) + "\n"
    )
