"""What NVML and cuInit answer on a host in this state. Measured on real hosts where one fault was made at a time."""

from __future__ import annotations

from doctor.facts.versions import DriverVersion
from doctor.simulate.description import Description
from doctor.simulate.host import Board, Host

NODES_OF_EVERY_GPU = ("/dev/nvidiactl", "/dev/nvidia-uvm")


def nvml_answer(host: Host) -> str:
    """Name of nvmlInit's result."""
    said = host.d.says.get("nvml")
    if isinstance(said, str):
        return said
    if host.driver.library is None or (host.d.platform == "jetson" and not host.boards):
        return "NVML_ERROR_LIBRARY_NOT_FOUND"
    if host.d.platform == "wsl2":
        missing = "libnvidia-ml.so.1" not in (host.d.wsl.lib_dir or [] if host.d.wsl else [])
        return "NVML_ERROR_LIBRARY_NOT_FOUND" if missing else "ok"
    if host.driver.loaded is None or node_state(host, "/dev/nvidiactl") == "none":
        return "NVML_ERROR_DRIVER_NOT_LOADED"
    if node_state(host, "/dev/nvidiactl") == "file":
        return "NVML_ERROR_UNKNOWN"
    if host.driver.library != host.driver.loaded:
        return "NVML_ERROR_LIB_RM_VERSION_MISMATCH"
    return "ok"


def cuda_answer(host: Host) -> int | None:
    """cuInit's code; None without a libcuda."""
    said = host.d.says.get("cuInit")
    if isinstance(said, int):
        return said
    first = first_libcuda(host)
    if first == "stub":
        return 34
    if host.driver.library is None and first != "compat":
        return None
    if host.d.platform == "wsl2":
        lib_dir = host.d.wsl.lib_dir or [] if host.d.wsl else []
        if "libcuda.so.1" not in lib_dir:
            return None
        return 100 if not host.boards or none_visible(host) else 0
    return _native(host, first)


def _native(host: Host, first: str) -> int:
    if host.driver.loaded is None and host.d.platform != "jetson":
        return 100
    if first == "compat":
        answer = _compat(host)
        if answer:
            return answer
    elif host.driver.library != host.driver.loaded and host.d.platform != "jetson":
        return 803
    if not usable(host) or none_visible(host):
        return 100
    if node_state(host, "/dev/nvidiactl") != "char":
        return 100
    if node_state(host, "/dev/nvidia-uvm") != "char":
        return 999
    if any(board.on_nvswitch and board.part.fabric != "completed" for board in usable(host)):
        return 802
    return 0


def usable(host: Host) -> list[Board]:
    """Boards that CUDA could use: initialised, with a node, not in MIG mode without instances."""
    return [
        board
        for board in host.boards
        if board.initialised
        and board.part.on_bus
        and board.part.mig != "on"
        and node_state(host, f"/dev/nvidia{board.index}") == "char"
    ]


def none_visible(host: Host) -> bool:
    """CUDA_VISIBLE_DEVICES is set and names no device before its first wrong entry."""
    text = host.d.env.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return False
    first = text.split(",")[0].strip()
    if first.isdigit():
        return int(first) >= len(host.boards)
    if first.startswith(("GPU-", "MIG-")):
        return not any(board.uuid.startswith(first) for board in host.boards)
    return True


def node_state(host: Host, path: str) -> str:
    """char, file or none. A set-uid nvidia-modprobe makes a missing node on first use, not one that is something else."""
    said = host.part.nodes.get(path)
    if said == "file":
        return "file"
    if said == "none" or (
        path.startswith("/dev/nvidia-uvm") and said is None and uvm_missing(host.d)
    ):
        return "char" if host.part.modprobe and not host.in_container else "none"
    return "char"


def uvm_missing(d: Description) -> bool:
    """The description lists the loaded modules and nvidia_uvm is not among them."""
    return d.modules is not None and "nvidia_uvm" not in d.modules


def first_libcuda(host: Host) -> str:
    """Whose libcuda.so.1 a program gets: stub, compat or driver. LD_LIBRARY_PATH, then ld.so.conf, then the system's folders."""
    d = host.d
    for folder in [*d.ld_library_path, *d.ldconfig]:
        plain = folder.rstrip("/")
        if plain in [item.rstrip("/") for item in d.stubs]:
            return "stub"
        if d.compat is not None and plain == d.compat.dir.rstrip("/"):
            return "compat"
        if plain == host.libdir:
            return "driver"
    return "driver"


def _compat(host: Host) -> int:
    """0 when the compat library may sit on the loaded driver, else 803 or 804."""
    from doctor.matrix.query import gpu_by_name
    from doctor.simulate.knowledge import matrix

    assert host.d.compat is not None  # noqa: S101 - the caller found it first in the path
    compat, loaded = host.d.compat.version, host.driver.loaded or ""
    if compat == loaded:
        return 0
    if DriverVersion.parse(compat) < DriverVersion.parse(loaded):
        return 803
    families = [gpu_by_name(matrix(), board.name) for board in host.boards]
    return 0 if all(family and family.forward_compat for family in families) else 804
