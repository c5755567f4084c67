"""Whether containers have their devices and keep them: driver, device cgroups, SELinux, and the view from inside."""

from __future__ import annotations

from doctor.checks.areas.container_toolkit import (
    CONFIG,
    MODE,
    NO_DOCKER,
    NO_TOOLKIT,
    RESTART,
    mode_in_use,
    setting,
    statement,
)
from doctor.checks.areas.presence import (
    DRIVER_LADDER,
    HAS_GPU,
    docker_answers,
    gpu_containers,
    has_gpu,
    in_container,
)
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, known_or
from doctor.facts.tree import Facts


@check(
    "container.device-cgroup-lost",
    title="Running GPU containers keep their devices when systemd reloads",
    severity=WARN,
    reads=(
        "container.docker_socket",
        "container.docker_cgroup_driver",
        "container.dev_char_links",
        "container.running",
        *MODE,
    ),
    sources=("nvidia-container-toolkit#1227", "cloud-native-docs-troubleshooting"),
    fix=Fix(
        "make the links now and by a udev rule at each boot, or go over to CDI; then start the "
        "containers anew",
        command="sudo nvidia-ctk system create-dev-char-symlinks --create-all",
        remedy="cgroup",
    ),
)
def device_cgroup_lost(f: Facts, k: Knowledge) -> Result:
    """systemd rebuilds device rules from links in /dev/char; devices that a legacy hook injected have none."""
    if isinstance(f.container.toolkit_version, Absent):
        return skipped(NO_TOOLKIT)
    if not docker_answers(f):
        return skipped(NO_DOCKER)
    driver, mode = f.container.docker_cgroup_driver.value, mode_in_use(f, k)
    if driver != "systemd":
        return passed(f"Docker uses the {driver} cgroup driver")
    if mode != "legacy":
        return passed(f"the runtime is in {mode} mode, whose devices survive a reload")
    row = statement(k, "container.daemon-reload")
    if f.container.dev_char_links.value:
        return passed(
            "systemd cgroup driver and legacy mode, with the links in /dev/char", rows=[row]
        )
    hit = [item.name for item in gpu_containers(f)]
    return failed(
        "systemd cgroup driver, legacy mode and no NVIDIA links in /dev/char: the next `systemctl "
        f"daemon-reload` takes the GPUs from {', '.join(hit) or 'running containers'}",
        want="links in /dev/char, or CDI",
        rows=[row],
    )


@check(
    "container.selinux",
    title="SELinux lets containers use the NVIDIA devices",
    severity=WARN,
    reads=(
        "container.selinux",
        "container.selinux_container_use_devices",
        "container.podman_version",
        "container.docker_security",
        *HAS_GPU,
    ),
    sources=("cloud-native-docs-troubleshooting", "cloud-native-docs-cdi-support"),
    fix=Fix(
        "let containers use devices, or start GPU containers with --security-opt=label=disable",
        command="sudo setsebool -P container_use_devices on",
    ),
)
def selinux(f: Facts, k: Knowledge) -> Result:
    """An enforcing SELinux that confines containers keeps them from device nodes: NVML says Insufficient Permissions."""
    mode = known_or(f.container.selinux, "")
    if mode != "enforcing":
        return passed(f"SELinux does not enforce ({mode or 'none in this kernel'})")
    if not has_gpu(f):
        return skipped("no NVIDIA device for containers to use")
    confined = []
    if known_or(f.container.podman_version, ""):
        confined.append("podman")
    if any(item.startswith("name=selinux") for item in known_or(f.container.docker_security, [])):
        confined.append("Docker")
    if not confined:
        return passed("SELinux enforces, and no engine here labels its containers")
    if known_or(f.container.selinux_container_use_devices, False):
        return passed(f"SELinux enforces and container_use_devices is on for {', '.join(confined)}")
    return failed(
        f"SELinux enforces for containers of {', '.join(confined)} and container_use_devices is off",
        want="container_use_devices on",
        rows=[statement(k, "container.podman-selinux")],
    )


def gpu_nodes(f: Facts) -> list[str]:
    """Nodes of whole GPUs, and WSL2's one device; reads driver.nodes."""
    nodes = known_or(f.driver.nodes, {})
    return [
        name for name in nodes if name.removeprefix("/dev/nvidia").isdigit() or name == "/dev/dxg"
    ]


@check(
    "container.device-missing",
    title="This container was given its NVIDIA devices",
    severity=ERROR,
    needs=("gpu.not-on-bus",),
    reads=("host.container", "host.hardware", "driver.nodes", "pci.gpus", "wsl.dxg"),
    sources=("nvidia-docker#1034", "cloud-native-docs-docker-specialized"),
    fix=Fix(
        "start the container with its GPUs, on the host",
        command="docker run --gpus all ...  # on the host; podman: --device nvidia.com/gpu=all",
    ),
)
def device_missing(f: Facts, k: Knowledge) -> Result:
    """The host has GPUs and the container none: it was started without them, or lost them."""
    if not in_container(f):
        return skipped("not inside a container")
    if not has_gpu(f):
        return skipped("the host has no NVIDIA device")
    if f.host.hardware.value == "wsl2":
        return passed("/dev/dxg is in the container")
    gpus = gpu_nodes(f)
    if gpus and "/dev/nvidiactl" in known_or(f.driver.nodes, {}):
        return passed(f"{len(gpus)} GPU node(s) and /dev/nvidiactl are in the container")
    return failed(
        "the host has an NVIDIA device and this container has no "
        + ("/dev/nvidia0" if not gpus else "/dev/nvidiactl")
        + ": it was started without a GPU",
        want="/dev/nvidiactl and /dev/nvidia0",
    )


@check(
    "container.visible-devices-void",
    title="NVIDIA_VISIBLE_DEVICES and the devices in this container agree",
    severity=WARN,
    needs=("container.device-missing",),
    reads=("host.container", "cuda.environment", "driver.nodes"),
    sources=("cloud-native-docs-docker-specialized", "moby#52704"),
    fix=Fix(
        "start the container with --gpus or a CDI device, on the host",
        command="docker run --gpus all ...  # on the host",
    ),
)
def visible_devices_void(f: Facts, k: Knowledge) -> Result:
    """void is normal when CDI brought the devices; without devices it means that none were asked for."""
    if not in_container(f):
        return skipped("not inside a container")
    said = known_or(f.cuda.environment, {}).get("NVIDIA_VISIBLE_DEVICES")
    nodes = gpu_nodes(f)
    row = statement(k, "container.visible-devices")
    if said in ("void", "none", "") and not nodes:
        return failed(
            f'NVIDIA_VISIBLE_DEVICES is "{said}" and no NVIDIA device is in the container',
            want="a list of devices",
            rows=[row],
        )
    if said == "void":
        return passed("NVIDIA_VISIBLE_DEVICES is void, as is normal where CDI brought the devices")
    shown = "unset" if said is None else said
    return passed(f"NVIDIA_VISIBLE_DEVICES is {shown}, {len(nodes)} node(s) are here", rows=[row])


@check(
    "container.host-driver-missing",
    title="The driver that containers would use is loaded on the host",
    severity=ERROR,
    needs=DRIVER_LADDER,
    reads=(
        "host.hardware",
        "driver.loaded",
        "container.toolkit_version",
        "container.docker_socket",
    ),
    sources=("nvidia-docker#1642",),
    fix=Fix(
        "mend the host's driver first; the container's cannot be",
        command="doctor check --only 'driver.*'",
    ),
)
def host_driver_missing(f: Facts, k: Knowledge) -> Result:
    """nvidia-container-cli refuses every GPU container when the host's driver is not loaded."""
    if isinstance(f.container.toolkit_version, Absent):
        return skipped(NO_TOOLKIT)
    if f.host.hardware.value in ("wsl2", "jetson"):
        return skipped("the driver is not a loadable module here")
    loaded = known_or(f.driver.loaded, "")
    if loaded:
        return passed(f"driver {loaded} is loaded for containers")
    return failed(
        "the toolkit is installed and no NVIDIA driver is loaded: every GPU container fails with "
        '"nvml error: driver not loaded"',
        want="a loaded driver",
    )


@check(
    "container.no-cgroups",
    title="no-cgroups fits the daemon: true for rootless Docker, false for rootful",
    severity=ERROR,
    reads=("container.docker_socket", "container.docker_rootless", *MODE),
    sources=("nvidia-container-toolkit#381", "nvidia-container-toolkit#1246"),
    fix=Fix(
        "set no-cgroups to what the daemon needs and restart it",
        command="sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups=false --in-place && "
        + RESTART,
        disturbs="service",
        remedy="container_toolkit",
    ),
)
def no_cgroups(f: Facts, k: Knowledge) -> Result:
    """Rootful with true: no device rules, so NVML says Unknown Error. Rootless with false: the mount is refused."""
    if isinstance(f.container.toolkit_version, Absent):
        return skipped(NO_TOOLKIT)
    if not docker_answers(f):
        return skipped(NO_DOCKER)
    said = setting(f, "nvidia-container-cli.no-cgroups") is True
    rootless = f.container.docker_rootless.value
    if mode_in_use(f, k) == "cdi" and setting(f, "nvidia-container-runtime.mode") == "cdi":
        return passed(f"the runtime is in CDI mode, where no-cgroups = {str(said).lower()} is moot")
    kind = "rootless" if rootless else "rootful"
    if said == rootless:
        return passed(f"no-cgroups is {str(said).lower()} and Docker is {kind}")
    right = str(rootless).lower()
    row = statement(
        k,
        "container.no-cgroups-false-rootless-breaks"
        if rootless
        else "container.no-cgroups-rootful-breaks",
    )
    happens = (
        "the device rules are refused and the container does not start"
        if rootless
        else "containers see the device files and may not open them"
    )
    restart = "systemctl --user restart docker" if rootless else RESTART
    set_to = f"sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups={right} --in-place"
    return failed(
        f"no-cgroups is {str(said).lower()} in {CONFIG} and Docker is {kind}: {happens}",
        want=f"no-cgroups = {right}",
        command=f"{set_to} && {restart}",
        rows=[row, statement(k, "container.no-cgroups-rootless")],
    )
