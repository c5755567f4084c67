"""Five driver versions that disagree on real hosts, and the device nodes."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Node(Record, frozen=True, kw_only=True):
    """A device node: type (char, file, ...), mode, owner."""

    type: str
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    rdev: str | None = None


class LibraryFile(Record, frozen=True, kw_only=True):
    """One shared library on disk."""

    path: str
    real: str
    version: str | None = None
    kind: str
    """driver, stub, compat, wheel, toolkit, wsl or system."""


class Resolution(Record, frozen=True, kw_only=True):
    """Which file a program gets for a soname, and why."""

    path: str
    real: str
    why: str
    """LD_LIBRARY_PATH:<dir>, ld.so.cache, default:<dir>."""
    version: str | None = None
    kind: str


class DriverFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """package, disk, disk_next, loaded, library and firmware are separate observations."""

    package: Fact[str] = NOT_PROBED
    """Driver version as packaged, without epoch and revision."""
    package_name: Fact[str] = NOT_PROBED
    disk: Fact[str] = NOT_PROBED
    """nvidia.ko for the running kernel."""
    disk_next: Fact[str] = NOT_PROBED
    """nvidia.ko for the kernel of the next boot."""
    loaded: Fact[str] = NOT_PROBED
    """/sys/module/nvidia/version."""
    library: Fact[str] = NOT_PROBED
    """Real file name of the driver's libcuda.so.1 or libnvidia-ml.so.1."""
    firmware: Fact[str] = NOT_PROBED
    """GSP firmware in use."""
    flavor: Fact[str] = NOT_PROBED
    """open or proprietary, of the loaded module."""
    flavor_disk: Fact[str] = NOT_PROBED
    runfile: Fact[str] = NOT_PROBED
    """Version installed by the .run installer; Absent when there is no trace of it."""
    params: Fact[dict[str, str]] = NOT_PROBED
    """/proc/driver/nvidia/params."""
    nodes: Fact[dict[str, Node]] = NOT_PROBED
    """/dev/nvidia*, nvidia-caps and dxg that exist."""
    uvm_major: Fact[int] = NOT_PROBED
    """Major number of nvidia-uvm in /proc/devices; Absent when the module is not loaded."""
    modprobe: Fact[bool] = NOT_PROBED
    """nvidia-modprobe is installed set-uid root, so a missing node appears on first use."""
    smi: Fact[str] = NOT_PROBED
    """Path of nvidia-smi."""
    libraries: Fact[list[LibraryFile]] = NOT_PROBED
    """Every copy found of libcuda, libnvidia-ml, libnccl, libcudart, libnvJitLink, libcudnn."""
    resolved: Fact[dict[str, Resolution]] = NOT_PROBED
    """soname -> what a program started here would load; a soname that would not be found is left out."""
    ld_library_path: Fact[list[str]] = NOT_PROBED
    ld_config: Fact[list[str]] = NOT_PROBED
    """Folders of ld.so.conf in order."""
    compat: Fact[dict[str, str]] = NOT_PROBED
    """cuda-compat folders: path -> version of their libcuda."""
    persistenced_socket: Fact[bool] = NOT_PROBED
