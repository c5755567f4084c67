"""The short YAML description of a host. What is left out is a healthy host's value; a misspelt key names the nearest right one."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A section of a description."""


class GpuPart(Part, kw_only=True, forbid_unknown_fields=True):
    """One kind of GPU, `count` times."""

    name: str
    count: int = 1
    bound_to: str | None = None
    """nvidia, nouveau, nova_core, vfio-pci, none; default nvidia when a module is loaded."""
    driver_model: str | None = None
    bar1: str | None = None
    """Size such as 128G, 256M or 0."""
    ecc: bool | None = None
    ecc_uncorrected: int = 0
    mig: str = "off"
    """off, on (no instances) or a number of instances."""
    row_remap: str = "none"
    """none, pending or failed."""
    vbios: str | None = None
    pcie: str | None = None
    """Link now as 'gen5 x16'; the maximum is the GPU's own."""
    pcie_max: str | None = None
    throttle: list[str] = []
    persistence: bool = True
    processes: list[dict[str, Any]] = []
    memory_used: str | None = None
    device_id: str | None = None
    fabric: str | None = None
    """not-supported, not-started, in-progress, completed or an NVML status."""
    nvlink_down: int = 0
    on_bus: bool = True
    compute_mode: Literal["default", "exclusive-process", "prohibited"] = "default"
    power_limit: int | None = None
    """Watts; default the board's own limit."""


class DriverPart(Part, kw_only=True, forbid_unknown_fields=True):
    """Each version alone, or none. Versions left out follow `version`."""

    version: str | None = None
    package: str | None = None
    disk: str | None = None
    disk_next: str | None = None
    loaded: str | None = None
    library: str | None = None
    firmware: str | None = None
    flavor: Literal["open", "proprietary"] | None = None
    origin: Literal["distro", "cuda-repo", "runfile"] | None = msgspec.field(
        default=None, name="from"
    )
    nodes: dict[str, str] = {}
    """/dev path -> none, file, or an octal mode."""
    modprobe: bool = True
    params: dict[str, str] = {}
    """Parameters of the loaded module that differ from its own, as /proc/driver/nvidia/params names them."""
    leftovers: list[str] = []
    """Versions of other drivers whose libcuda still lies in the system's library folder."""


class DkmsPart(Part, kw_only=True, forbid_unknown_fields=True):
    """State of the nvidia module in DKMS."""

    state: Literal["none", "added", "built", "installed", "failed"] | None = None
    """Left out: installed where the driver's packages build their module, as the CUDA repository's do on Debian and Ubuntu."""
    log: str = ""
    version: str | None = None


class SelinuxPart(Part, kw_only=True, forbid_unknown_fields=True):
    """SELinux of the host."""

    mode: Literal["enforcing", "permissive", "disabled"] = "disabled"
    booleans: dict[str, bool] = {}
    labels: dict[str, str] = {}
    denials: list[str] = []


class UnitPart(Part, kw_only=True, forbid_unknown_fields=True):
    """A package with a unit."""

    version: str | None = None
    state: str = "active"
    """active, failed, inactive, absent."""
    after: list[str] = []


class CdiPart(Part, kw_only=True, forbid_unknown_fields=True):
    """One CDI specification file."""

    path: str = "/var/run/cdi/nvidia.yaml"
    driver: str | None = None
    version: str = "0.5.0"
    devices: list[str] | None = None
    mounts: list[str] = []
    """Further host paths that it mounts."""


class ImagePart(Part, kw_only=True, forbid_unknown_fields=True):
    """A local image."""

    ref: str
    env: dict[str, str] = {}
    labels: dict[str, str] = {}
    size: str = "9G"


class RunningPart(Part, kw_only=True, forbid_unknown_fields=True):
    """A running container."""

    image: str
    name: str | None = None
    shm: str | None = None
    ipc: str | None = None
    ulimits: dict[str, Any] = {}
    gpus: bool | list[str] = False
    cdi: bool = False
    runtime: str | None = None
    privileged: bool = False
    cap_add: list[str] = []
    cap_drop: list[str] = []
    no_new_privileges: bool = False
    env: dict[str, str] = {}
    args: list[str] = []
    ports: list[str] = []
    user: str | None = None
    network: str | None = None
    """host, none or a network's name; default bridge."""


class ContainersPart(Part, kw_only=True, forbid_unknown_fields=True):
    """Engines and the NVIDIA toolkit. Versions; "none" for not installed."""

    docker: str | None = None
    podman: str | None = None
    containerd: str | None = None
    toolkit: str | None = None
    toolkit_packages: dict[str, str] = {}
    runtimes: list[str] | None = None
    """In daemon.json."""
    daemon_runtimes: list[str] | None = None
    """What the running daemon knows; default as the file."""
    cgroup_driver: str = "systemd"
    rootless: bool = False
    origin: Literal["apt", "dnf", "snap", "desktop"] | None = msgspec.field(
        default=None, name="from"
    )
    config: dict[str, Any] = {}
    """Tables of nvidia-container-runtime's config.toml."""
    daemon_json: dict[str, Any] = {}
    daemon_running: bool = True
    cdi: CdiPart | None = None
    cdi_more: list[CdiPart] = []
    """Further specifications beside the first."""
    images: list[ImagePart] = []
    running: list[RunningPart] = []
    dev_char_links: bool = True
    toolkit_in_docker: bool = True
    """nvidia-ctk runtime configure was run; runtimes says more."""
    podman_hook: bool = False
    cdi_refresh: str = "active"
    """State of nvidia-cdi-refresh.path, where the toolkit has it."""


class OrphanPart(Part, kw_only=True, forbid_unknown_fields=True):
    """Files left in /dev/shm."""

    name: str
    count: int = 1
    size: str = "9M"


class ShmPart(Part, kw_only=True, forbid_unknown_fields=True):
    """/dev/shm of the scope."""

    size: str | None = None
    used: str = "0"
    orphans: list[OrphanPart] = []


class PythonPart(Part, kw_only=True, forbid_unknown_fields=True):
    """One environment."""

    path: str
    version: str = "3.12.3"
    packages: dict[str, str] = {}
    tags: dict[str, str] = {}
    """package -> wheel tag, for example manylinux_2_34_x86_64."""
    requires: dict[str, list[str]] = {}
    """package -> Requires-Dist lines; what is left out is what the matrix says of the release."""
    requires_python: dict[str, str] = {}
    bare: bool = False
    """Only the packages listed; otherwise what they pin is there too."""


class UnattendedPart(Part, kw_only=True, forbid_unknown_fields=True):
    """Automatic upgrades."""

    enabled: bool = False
    package_blacklist: list[str] = []
    log: str = ""


class ServicePart(Part, kw_only=True, forbid_unknown_fields=True):
    """A unit beside the known ones."""

    state: str = "active"
    after: list[str] = []
    """Default: after the network and nvidia-persistenced."""
    exec: str = ""
    restart: str = "on-failure"
    started: float | None = None
    """Seconds after boot."""


class WslPart(Part, kw_only=True, forbid_unknown_fields=True):
    """WSL2."""

    windows_driver: str | None = None
    kernel: str | None = None
    memory: str | None = None
    systemd: bool = True
    lib_dir: list[str] | None = None
    libcuda_is_link: bool = True
    dxg: bool = True
    linux_libraries: list[str] = []
    """Paths of libraries of a Linux driver."""


class CompatPart(Part, kw_only=True, forbid_unknown_fields=True):
    """A cuda-compat folder."""

    dir: str = "/usr/local/cuda/compat"
    version: str


class DiskPart(Part, kw_only=True, forbid_unknown_fields=True):
    """A file system."""

    size: str
    free: str
    read_only: bool = False


class PendingPart(Part, kw_only=True, forbid_unknown_fields=True):
    """An upgrade that waits."""

    name: str
    version: str


class LibrariesPart(Part, kw_only=True, forbid_unknown_fields=True):
    """NCCL or cuDNN of the system."""

    system: str | None = None
    copies: dict[str, str] = {}
    """Further copies of NCCL: path of the library (ending in libnccl.so.2) -> version."""


class Description(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole host. See `doctor schema description`."""

    platform: Literal["bare-metal", "vm", "container", "wsl2", "jetson"] = "bare-metal"
    distro: str = "ubuntu-24.04"
    machine: Literal["x86_64", "aarch64", "ppc64le"] = "x86_64"
    name: str = "simulated"
    kernel: str | None = None
    next_kernel: str | None = None
    previous_kernel: str | None = None
    kernel_compiler: str | None = None
    gcc: list[str] = []
    headers: str | None = None
    """A release, or none; default the running kernel's."""
    cmdline: str | None = None
    gpus: list[str | GpuPart] = []
    driver: str | DriverPart | None = None
    modules: list[str] | None = None
    modules_extra: list[str] = []
    blacklist: list[str] | None = None
    """Left out: what the driver's packages blacklist."""
    modprobe_options: dict[str, str] = {}
    """Module -> options that an administrator set."""
    modules_load: list[str] = []
    initramfs_stale: bool = False
    reboot_required: list[str] = []
    """Packages that asked for a reboot."""
    no_modules_extra: bool = False
    """Ubuntu without linux-modules-extra for its kernels, as cloud images are."""
    mok_pending: bool = False
    """A key waits for its enrolment at the next boot."""
    kernel_removed: bool = False
    """The running kernel's package is gone, and its modules with it."""
    suspends: int = 0
    """How often the host was suspended since it started."""
    dkms: DkmsPart = msgspec.field(default_factory=DkmsPart)
    secure_boot: bool | Literal["on", "off"] = False
    lockdown: str = "none"
    selinux: SelinuxPart = msgspec.field(default_factory=SelinuxPart)
    fabric_manager: UnitPart | None = None
    nvswitch: int = 0
    persistenced: UnitPart | None = None
    imex: UnitPart | None = None
    iommu: Literal["off", "passthrough", "translated"] = "off"
    acs: bool = False
    containers: ContainersPart = msgspec.field(default_factory=ContainersPart)
    container_runtime: str = "docker"
    """With platform container: docker, podman, kubernetes."""
    cgroup: Literal["v1", "v2", "hybrid"] = "v2"
    shm: ShmPart = msgspec.field(default_factory=ShmPart)
    limits: dict[str, dict[str, Any]] = {}
    """shell, systemd, dockerd -> memlock, stack, nofile, nproc; unlimited or a number (bytes for the first two)."""
    toolkits: list[str] = []
    nccl: LibrariesPart = msgspec.field(default_factory=LibrariesPart)
    cudnn: LibrariesPart = msgspec.field(default_factory=LibrariesPart)
    compat: CompatPart | None = None
    stubs: list[str] = []
    """Folders in which libcuda.so.1 is the toolkit's stub."""
    ld_library_path: list[str] = []
    ldconfig: list[str] = []
    """Folders that ld.so.conf puts before the system's."""
    env: dict[str, str] = {}
    python: list[PythonPart] = []
    packages: dict[str, str] = {}
    repos: list[str] | None = None
    """Third-party repositories: cuda, cuda-ubuntu2404, epel, crb, docker, nvidia-container-toolkit, a URL, a whole `deb` line;
    options follow the name: `cuda-rhel10 gpgcheck=0 module_hotfixes=1`. Left out: those the host's packages come from."""
    holds: list[str] | None = None
    """Left out: the driver, fabric manager and kernel packages are held."""
    broken: list[str] = []
    """Packages that dpkg left half-configured."""
    pending: list[PendingPart] = []
    dnf_module: str | None = None
    unattended_upgrades: UnattendedPart = msgspec.field(default_factory=UnattendedPart)
    services: dict[str, ServicePart] = {}
    wsl: WslPart | None = None
    l4t: str | None = None
    infiniband: list[str] = []
    """mlx5_0:up, mlx5_1:down, ..."""
    pci: list[str] = []
    """Further devices as vendor:device:class:driver."""
    xid: list[int | str] = []
    kernel_log: list[str] = []
    """Further lines of the kernel log."""
    disk: dict[str, DiskPart] = {}
    mem: str = "512G"
    cpus: int = 64
    glibc: str | None = None
    """A version, or musl."""
    clock_synchronized: bool = True
    root: bool = True
    sudo: bool = False
    nccl_conf: dict[str, str] = {}
    remove_ipc: bool = False
    nvlsm: bool | None = None
    """The NVLink subnet manager; default as NVLink 5 with NVSwitch needs it."""
    interfaces: dict[str, str] = {}
    """Network interface -> up or down; default eth0 up."""
    container_caps: list[str] = []
    """With platform container: capabilities beside Docker's default ones, for example SYS_NICE."""
    as_of: str = "2026-11-30"
    says: dict[str, Any] = {}
    """argv prefix, cuInit, nvml or a unit name -> an output that no other field implies."""


def schema() -> dict[str, Any]:
    """JSON Schema of a description, for `doctor schema description`: what `decode` takes, YAML's words included."""
    found: dict[str, Any] = _with_plain_words(msgspec.json.schema(Description))
    return found


def _with_plain_words(value: Any) -> Any:
    """Where text is meant, YAML may have read a number or on and off; the decoder gives the text back."""
    if isinstance(value, list):
        return [_with_plain_words(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "string":
        return {**value, "type": ["string", "integer", "boolean"]}
    return {key: _with_plain_words(item) for key, item in value.items()}
