"""The NVIDIA Container Toolkit, CDI specifications and what the kernel has for containers: cgroups, SELinux, AppArmor."""

from __future__ import annotations

from typing import Any

from doctor.facts.versions import Pep440Version
from doctor.simulate.containers import OLD, is_there
from doctor.simulate.description import CdiPart, ContainersPart
from doctor.simulate.host import Host
from doctor.simulate.knowledge import matrix
from doctor.simulate.writer import RecordingWriter

CONFIG = "/etc/nvidia-container-runtime/config.toml"
DEFAULTS: dict[str, dict[str, Any]] = {
    "": {"disable-require": False, "supported-driver-capabilities": "compute,utility"},
    "nvidia-container-cli": {
        "no-cgroups": False,
        "load-kmods": True,
        "ldconfig": "@/sbin/ldconfig",
    },
    "nvidia-container-runtime": {"mode": "auto", "log-level": "info"},
}


def write(host: Host, out: RecordingWriter) -> None:
    """The kernel's side everywhere; toolkit and CDI on the host only."""
    _cgroup(host, out)
    if host.family == "debian":
        out.file("/sys/module/apparmor/parameters/enabled", "Y\n")
    if host.in_container:
        return
    _selinux(host, out)
    if host.d.containers.dev_char_links and host.driver.loaded and host.boards:
        for minor in [*(board.index for board in host.boards), 255]:
            name = "nvidiactl" if minor == 255 else f"nvidia{minor}"
            out.link(f"/dev/char/195:{minor}", f"../{name}")
    part = host.d.containers
    if is_there(part.toolkit):
        _toolkit(part, out)
    for spec in _specs(host, part):
        out.file(spec.path, _spec_text(host, spec), mtime=OLD)
        for path in spec.mounts:
            # writers that come later make what the host has
            out.paths.setdefault(path, {"type": "absent"})


def _cgroup(host: Host, out: RecordingWriter) -> None:
    if host.d.cgroup == "v2":
        out.file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
        return
    for name in ("cpu", "devices", "memory"):
        out.folder(f"/sys/fs/cgroup/{name}")
    if host.d.cgroup == "hybrid":
        out.folder("/sys/fs/cgroup/unified")


def _selinux(host: Host, out: RecordingWriter) -> None:
    part = host.d.selinux
    if host.family == "rhel" or part.mode != "disabled":
        out.file("/etc/selinux/config", f"SELINUX={part.mode}\nSELINUXTYPE=targeted\n")
    if part.mode == "disabled":
        return
    out.file("/sys/fs/selinux/enforce", "1" if part.mode == "enforcing" else "0")
    booleans = {"container_use_devices": False, **part.booleans}
    for name, on in booleans.items():
        out.file(f"/sys/fs/selinux/booleans/{name}", f"{int(on)} {int(on)}")


def _at_least(part: ContainersPart, statement: str) -> bool:
    """Whether the toolkit is in the range of a rule of the matrix."""
    row = matrix().statement("container_rules", statement)
    version = Pep440Version.maybe(part.toolkit or "")
    return bool(row and row.versions and version and version.satisfies(row.versions))


def _toolkit(part: ContainersPart, out: RecordingWriter) -> None:
    names = ["nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime"]
    for name in [*names, "nvidia-container-runtime-hook"]:
        out.file(f"/usr/bin/{name}", keep=False, mode=0o755)
    said = f"NVIDIA Container Toolkit CLI version {part.toolkit}\ncommit: 0\n"
    out.command(["nvidia-ctk", "--version"], said)
    out.command(["nvidia-container-cli", "--version"], f"cli-version: {part.toolkit}\n")
    tables = {name: dict(values) for name, values in DEFAULTS.items()}
    for name, values in part.config.items():
        if isinstance(values, dict):
            tables.setdefault(name, {}).update(values)
        else:
            tables[""][name] = values
    out.file(CONFIG, toml(tables), mtime=OLD)
    if part.podman_hook:
        out.file("/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json", "{}\n")
    if _at_least(part, "container.cdi-refresh"):
        unit = "nvidia-cdi-refresh.path"
        out.file(f"/usr/lib/systemd/system/{unit}", "[Path]\nPathChanged=/lib/modules\n")
        out.command(
            ["systemctl", "show", "--property=ActiveState", unit],
            f"ActiveState={part.cdi_refresh}\n",
        )


def toml(tables: dict[str, Any]) -> str:
    """Tables of scalars and lists as TOML."""
    lines: list[str] = []
    for name, values in sorted(tables.items()):
        if name:
            lines.append(f"\n[{name}]")
        for key, value in values.items():
            if isinstance(value, bool):
                lines.append(f"{key} = {str(value).lower()}")
            elif isinstance(value, (int, float)):
                lines.append(f"{key} = {value}")
            elif isinstance(value, list):
                lines.append(f"{key} = [{', '.join(chr(34) + str(v) + chr(34) for v in value)}]")
            else:
                lines.append(f'{key} = "{value}"')
    return "\n".join(lines) + "\n"


def _specs(host: Host, part: ContainersPart) -> list[CdiPart]:
    """What was said; else what the refresh service of a newer toolkit writes."""
    if part.cdi is not None:
        return [part.cdi, *part.cdi_more]
    automatic = is_there(part.toolkit) and _at_least(part, "container.cdi-refresh")
    if not (automatic and host.driver.library and host.boards):
        return list(part.cdi_more)
    newer = _at_least(part, "container.cdi-spec-0-7")
    return [CdiPart(version="0.7.0" if newer else "0.5.0"), *part.cdi_more]


def _spec_text(host: Host, spec: CdiPart) -> str:
    driver = spec.driver or host.driver.library or "0"
    indexes = [str(board.index) for board in host.boards]
    every = ["all"] if host.d.platform == "wsl2" else [*indexes, "all"]
    devices = spec.devices if spec.devices is not None else every
    lines = ["---", f"cdiVersion: {spec.version}", "containerEdits:", "  deviceNodes:"]
    if spec.version >= "0.7.0":
        lines.insert(3, "  additionalGids:\n  - 44")
    wsl = host.d.platform == "wsl2"
    control = "/dev/dxg" if wsl else "/dev/nvidiactl"
    lines += [f"  - path: {control}", "  env:", "  - NVIDIA_VISIBLE_DEVICES=void", "  mounts:"]
    for name in ("libcuda", "libnvidia-ml"):
        path = f"/usr/lib/wsl/lib/{name}.so.1" if wsl else f"{host.libdir}/{name}.so.{driver}"
        lines += [f"  - containerPath: {path}", f"    hostPath: {path}", "    options:", "    - ro"]
    for path in spec.mounts:
        lines += [f"  - containerPath: {path}", f"    hostPath: {path}"]
    lines.append("devices:")
    for name in devices:
        nodes = indexes if name == "all" else [name.partition(":")[0]]
        paths = ["/dev/dxg"] if wsl else [f"/dev/nvidia{number}" for number in nodes]
        lines += ["- containerEdits:", "    deviceNodes:"]
        lines += [f"    - path: {path}" for path in paths]
        lines.append(f'  name: "{name}"')
    lines.append("kind: nvidia.com/gpu")
    return "\n".join(lines) + "\n"
