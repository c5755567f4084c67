"""Fabric manager, persistence, IMEX and DCGM with their units, and the units of engines."""

from __future__ import annotations

from doctor.simulate.description import ServicePart, UnitPart
from doctor.simulate.host import Host
from doctor.simulate.writer import RecordingWriter

HEALTHY_ORDER = ["network-online.target", "nvidia-persistenced.service"]
EXECUTABLES = {
    "vllm": "/opt/venv/bin/vllm serve /srv/model",
    "trtllm": "/opt/venv/bin/trtllm-serve /srv/model",
    "triton": "/opt/tritonserver/bin/tritonserver --model-repository=/srv/models",
    "ollama": "/usr/local/bin/ollama serve",
    "sglang": "/opt/venv/bin/python3 -m sglang.launch_server",
}
NVLINK5 = 10.0
"""Compute capability from which NVSwitch boards are driven through the subnet manager (filler,
not a rule).
"""


def write(host: Host, out: RecordingWriter) -> None:
    """What `systemctl show` and the programs say; a container shows nothing of its host."""
    if host.in_container:
        return
    _programs(host, out)
    if not runs_systemd(host):
        return
    from doctor.probes.areas.fabric import PROPERTIES, SERVICES

    out.folder("/run/systemd/system")
    services = {name: _described(host, name) for name in SERVICES}
    blocks = [_block(name, part) for name, part in services.items()]
    argv = ["systemctl", "show", "--no-pager", "-p", PROPERTIES]
    out.command([*argv, *SERVICES], "\n\n".join(blocks) + "\n")
    engines = {}
    for name, service in sorted(host.d.services.items()):
        unit = name if name.endswith(".service") else name + ".service"
        command = service.exec or _default_command(name)
        if unit in SERVICES or command is None:
            continue
        out.file(f"/etc/systemd/system/{unit}", unit_file(service, command))
        if _is_engine(command):
            engines[unit] = _service_block(unit, service)
    if engines:
        out.command([*argv, *engines], "\n\n".join(engines.values()) + "\n")


def runs_systemd(host: Host) -> bool:
    """Whether process 1 is systemd."""
    if host.in_container:
        return False
    return host.d.platform != "wsl2" or host.d.wsl is None or host.d.wsl.systemd


def unit_file(service: ServicePart, command: str) -> str:
    """The text of a unit an administrator wrote."""
    after = " ".join(service.after or HEALTHY_ORDER)
    return (
        f"[Unit]\nAfter={after}\nWants={after}\n\n[Service]\nExecStart={command}\n"
        f"Restart={service.restart}\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def _programs(host: Host, out: RecordingWriter) -> None:
    manager, imex = host.d.fabric_manager, host.d.imex
    if manager and manager.state != "absent":
        version = manager.version or host.driver.package or host.driver.library or ""
        _program(out, "/usr/bin/nv-fabricmanager", f"Fabric Manager version is : {version}\n")
        loaded = host.driver.loaded
        if loaded and version != loaded:
            out.file(
                "/var/log/fabricmanager.log",
                "[ERROR] [tid 1] fabric manager NVIDIA GPU driver interface version "
                f"{version} don't match with driver version {loaded}. Please update with matching "
                "NVIDIA driver package.\n",
            )
    if imex and imex.state != "absent":
        version = imex.version or host.driver.package or ""
        _program(out, "/usr/bin/nvidia-imex", f"IMEX version is: {version}\n")
    if _has_subnet_manager(host):
        out.file("/opt/nvidia/nvlsm/sbin/nvlsm", mode=0o755, keep=False)
        if host.family == "debian":
            out.command(["dpkg-query", "-W", "-f=${Version}", "nvlsm"], "2025.03.1-1")
        else:
            out.command(["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}", "nvlsm"], "2025.03.1-1")


def _program(out: RecordingWriter, path: str, said: str) -> None:
    out.file(path, mode=0o755, keep=False)
    out.command([path, "--version"], said)


def _has_subnet_manager(host: Host) -> bool:
    if host.d.nvlsm is not None:
        return host.d.nvlsm
    return any(
        board.on_nvswitch and float(board.compute_capability) >= NVLINK5 for board in host.boards
    )


def _described(host: Host, name: str) -> UnitPart | None:
    """The unit as described, else as a healthy host has it."""
    d = host.d
    parts = {
        "nvidia-fabricmanager.service": d.fabric_manager,
        "nvidia-persistenced.service": d.persistenced,
        "nvidia-imex.service": d.imex,
    }
    part = parts.get(name)
    service = d.services.get(name) or d.services.get(name.removesuffix(".service"))
    if part is None and service is not None:
        part = UnitPart(state=service.state, after=service.after)
    if part is None and name == "nvidia-persistenced.service" and host.driver.package:
        part = UnitPart(after=["systemd-modules-load.service"])
    if name == "nvidia-fabricmanager.service" and part and part.state == "active":
        version, loaded = part.version, host.driver.loaded
        if version and loaded and version != loaded:
            part = UnitPart(version=version, state="failed", after=part.after)
    return None if part is None or part.state == "absent" else part


def _block(name: str, part: UnitPart | None) -> str:
    if part is None:
        return _properties(name, load="not-found", active="inactive")
    return _properties(name, active=part.state, enabled="enabled", after=part.after, started=12.0)


def _service_block(name: str, service: ServicePart) -> str:
    after = service.after or HEALTHY_ORDER
    return _properties(
        name,
        active=service.state,
        enabled="enabled",
        after=after,
        restart=service.restart,
        started=service.started or 20.0,
    )


def _properties(
    name: str,
    *,
    load: str = "loaded",
    active: str,
    enabled: str = "",
    after: list[str] | None = None,
    restart: str = "no",
    started: float = 0.0,
) -> str:
    order = " ".join(["basic.target", "sysinit.target", *(after or [])])
    result = "exit-code" if active == "failed" else "success"
    stamp = int(started * 1e6) if active == "active" else 0
    wants = " ".join(item for item in after or [] if item.endswith((".target", ".service")))
    return "\n".join(
        [
            f"Restart={restart}",
            f"ActiveEnterTimestampMonotonic={stamp}",
            f"Result={result}",
            f"Id={name}",
            "Requires=" + ("" if load == "not-found" else "sysinit.target"),
            "Wants=" + wants,
            "After=" + ("" if load == "not-found" else order),
            f"LoadState={load}",
            f"ActiveState={active}",
            f"UnitFileState={enabled}",
        ]
    )


def _default_command(name: str) -> str | None:
    return next((text for word, text in EXECUTABLES.items() if word in name), None)


def _is_engine(command: str) -> bool:
    from doctor.probes.areas.fabric import engine_of

    return engine_of(command) is not None
