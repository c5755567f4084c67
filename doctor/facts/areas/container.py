"""Container engines, the NVIDIA toolkit, CDI and cgroups."""

from typing import Any

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Running(Record, frozen=True, kw_only=True):
    """A running container, as inspect shows it."""

    id: str
    name: str
    image: str
    runtime: str | None = None
    gpus: bool = False
    """Device requests, CDI devices, NVIDIA_VISIBLE_DEVICES with the nvidia runtime, or /dev/nvidia* mapped."""
    cdi: bool = False
    shm: int | None = None
    """Bytes."""
    ipc: str | None = None
    ulimits: dict[str, list[int]] = {}
    privileged: bool = False
    capabilities_added: list[str] = []
    capabilities_dropped: list[str] = []
    no_new_privileges: bool = False
    env: dict[str, str] = {}
    """Allow-listed names only; secrets appear as "(set)"."""
    args: list[str] = []
    ports: list[str] = []
    pid: int | None = None
    user: str | None = None
    gpu_ids: list[str] = []
    """Indexes or UUIDs, ["all"], or ["count:N"]."""
    network: str | None = None
    security: list[str] = []
    """--security-opt."""


class Image(Record, frozen=True, kw_only=True):
    """A local image with NVIDIA labels or environment."""

    ref: str
    env: dict[str, str] = {}
    """NVIDIA_REQUIRE_*, CUDA_VERSION, NV_* that matter."""
    labels: dict[str, str] = {}
    size: int | None = None
    """Bytes."""


class CdiSpec(Record, frozen=True, kw_only=True):
    """A CDI specification file for nvidia.com."""

    path: str
    cdi_version: str | None = None
    kind: str | None = None
    driver_version: str | None = None
    """Taken from the library names it mounts."""
    devices: list[str] = []
    mtime: int | None = None
    missing_paths: list[str] = []
    """Host paths it mounts that are not there."""


class ContainerFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file on disk and the running daemon are two observations."""

    docker_version: Fact[str] = NOT_PROBED
    """Of the running daemon."""
    docker_from: Fact[str] = NOT_PROBED
    """apt, dnf, snap, desktop, static; Absent when there is no Docker."""
    docker_socket: Fact[str] = NOT_PROBED
    """answers, asleep (systemd holds it for a dockerd that does not run), refused, denied; Absent when there is none."""
    docker_host: Fact[str] = NOT_PROBED
    """DOCKER_HOST or the current context's endpoint, when it is not the local socket."""
    docker_rootless: Fact[bool] = NOT_PROBED
    docker_runtimes: Fact[list[str]] = NOT_PROBED
    """Known to the running daemon."""
    docker_default_runtime: Fact[str] = NOT_PROBED
    docker_cgroup_driver: Fact[str] = NOT_PROBED
    docker_cgroup_version: Fact[str] = NOT_PROBED
    docker_root: Fact[str] = NOT_PROBED
    docker_storage_driver: Fact[str] = NOT_PROBED
    docker_live_restore: Fact[bool] = NOT_PROBED
    docker_cdi_dirs: Fact[list[str]] = NOT_PROBED
    docker_security: Fact[list[str]] = NOT_PROBED
    docker_seccomp_sysnice: Fact[bool] = NOT_PROBED
    """Whether containers may make NUMA calls without --cap-add SYS_NICE; Docker's own seccomp profile refuses them."""
    daemon_json: Fact[dict[str, Any]] = NOT_PROBED
    """Parsed /etc/docker/daemon.json (allow-listed keys)."""
    daemon_json_mtime: Fact[int] = NOT_PROBED
    docker_since: Fact[int] = NOT_PROBED
    """Seconds since the epoch when dockerd started."""
    docker_default_shm: Fact[int] = NOT_PROBED
    """Bytes: default-shm-size of the file, else Docker's 64 MiB."""
    running: Fact[list[Running]] = NOT_PROBED
    images: Fact[list[Image]] = NOT_PROBED
    image_names: Fact[list[str]] = NOT_PROBED
    """What every local image is called, by tag and by digest, NVIDIA's or not."""
    images_unseen: Fact[int] = NOT_PROBED
    """GPU images beyond the number that is inspected."""
    containerd_version: Fact[str] = NOT_PROBED
    containerd_runtimes: Fact[list[str]] = NOT_PROBED
    """Runtimes named in config.toml."""
    containerd_root: Fact[str] = NOT_PROBED
    podman_version: Fact[str] = NOT_PROBED
    podman_hook: Fact[bool] = NOT_PROBED
    """The old OCI hook file lies beside podman."""
    toolkit_version: Fact[str] = NOT_PROBED
    """nvidia-ctk or package nvidia-container-toolkit."""
    toolkit_packages: Fact[dict[str, str]] = NOT_PROBED
    """nvidia-container-toolkit, -base, libnvidia-container1, -tools: versions."""
    toolkit_config: Fact[dict[str, Any]] = NOT_PROBED
    """Parsed config.toml of nvidia-container-runtime, flat: "nvidia-container-cli.no-cgroups" -> false."""
    toolkit_mode: Fact[str] = NOT_PROBED
    """auto, legacy or cdi."""
    cdi_specs: Fact[list[CdiSpec]] = NOT_PROBED
    cdi_refresh: Fact[str] = NOT_PROBED
    """State of nvidia-cdi-refresh.path."""
    cgroup_version: Fact[str] = NOT_PROBED
    """v1, v2 or hybrid."""
    dev_char_links: Fact[bool] = NOT_PROBED
    """/dev/char has links to the nvidia nodes."""
    selinux: Fact[str] = NOT_PROBED
    """enforcing, permissive, disabled; Absent when the kernel has none."""
    selinux_container_use_devices: Fact[bool] = NOT_PROBED
    apparmor: Fact[bool] = NOT_PROBED
    snap_docker: Fact[bool] = NOT_PROBED
