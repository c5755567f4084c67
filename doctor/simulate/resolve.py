"""A description -> the whole host: healthy values where nothing is said, and what follows from what is said."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.facts.versions import DriverVersion
from doctor.simulate.catalog import Model, model
from doctor.simulate.consequence import cuda_answer, nvml_answer
from doctor.simulate.consistency import check_consistency
from doctor.simulate.decode import decode
from doctor.simulate.description import Description, DriverPart, GpuPart, UnitPart, WslPart
from doctor.simulate.distributions import Release, release
from doctor.simulate.host import Board, Driver, Host
from doctor.simulate.sizes import MIB, size

DEFAULT_DRIVER = "580.178.04"
"""A long-term driver that has not ended; boards it does not know get the newest of their last branch."""
OLDER_DRIVERS = {"470": "470.256.02", "390": "390.157"}
WSL_KERNEL = "5.15.167.4-microsoft-standard-WSL2"
JETSON_KERNEL = "5.15.148-tegra"
WSL_LIBRARIES = [
    "libcuda.so",
    "libcuda.so.1",
    "libcuda.so.1.1",
    "libd3d12.so",
    "libd3d12core.so",
    "libdxcore.so",
    "libnvcuvid.so",
    "libnvcuvid.so.1",
    "libnvdxdlkernels.so",
    "libnvidia-encode.so",
    "libnvidia-encode.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-opticalflow.so",
    "libnvidia-opticalflow.so.1",
    "libnvoptix.so.1",
    "nvidia-smi",
]
DXGDMAL_SINCE = 555
"""Windows drivers from this branch on bring libnvdxgdmal.so.1 (NVIDIA/nvidia-container-toolkit#520)."""


def resolve(raw: Any) -> Host:
    """UsageError for a wrong key, a wrong type or a contradiction."""
    d = raw if isinstance(raw, Description) else decode(raw)
    distro = release(d.distro)
    check_consistency(d)
    parts = [GpuPart(name=gpu) if isinstance(gpu, str) else gpu for gpu in d.gpus]
    models = [(part, model(part.name)) for part in parts for _ in range(part.count)]
    kernel = d.kernel or _default_kernel(d, distro)
    next_kernel = d.next_kernel or kernel
    driver = _driver(d, models, kernel == next_kernel)
    d = _filled(d, models, driver)
    boards = _boards(d, models, driver)
    driver = _unloaded_if_refused(d, driver, boards)
    boards = tuple(_bound(board, driver) for board in boards)
    host = Host(
        d=d,
        family=distro.family,
        distro_id=distro.id,
        distro_version=distro.version,
        pretty_name=distro.pretty,
        os_release=distro.os_release,
        kernel=kernel,
        next_kernel=next_kernel,
        glibc=d.glibc or distro.glibc,
        gcc=d.gcc[0] if d.gcc and d.gcc[0] != "none" else distro.gcc,
        python=distro.python,
        machine=d.machine,
        libdir=f"/usr/lib/{d.machine}-linux-gnu" if distro.family == "debian" else "/usr/lib64",
        boards=boards,
        driver=driver,
        driver_cuda=_native_cuda(d, driver),
        init="",
        cuda=None,
        in_container=d.platform == "container",
    )
    host = msgspec.structs.replace(host, init=nvml_answer(host))
    return msgspec.structs.replace(host, cuda=cuda_answer(host))


def _default_kernel(d: Description, distro: Release) -> str:
    if d.platform == "wsl2":
        return d.wsl.kernel if d.wsl and d.wsl.kernel else WSL_KERNEL
    return JETSON_KERNEL if d.platform == "jetson" else distro.kernel_for(d.machine)


def _driver(d: Description, models: list[tuple[GpuPart, Model]], same_kernel: bool) -> Driver:
    if d.platform == "wsl2":
        windows = (d.wsl.windows_driver if d.wsl else None) or (DEFAULT_DRIVER if models else None)
        linux = d.driver if isinstance(d.driver, DriverPart) else None
        return Driver(library=_version(windows), package=_version(linux.package) if linux else None)
    if d.driver == "none" or (d.driver is None and not models):
        return Driver()
    part = d.driver if isinstance(d.driver, DriverPart) else DriverPart(version=d.driver)
    said = part.version or _said_version(part) or _default_version(models)
    flavor = part.flavor or _default_flavor(said, models)
    version = _version(said)
    origin = part.origin or "cuda-repo"
    in_dkms = d.dkms.state in ("added", "built", "failed")
    disk = _first(part.disk, None if in_dkms else version)
    disk_next = _first(part.disk_next, disk)
    loaded = _first(part.loaded, disk)
    library = _first(part.library, version)
    package = _first(part.package, None if origin == "runfile" else version)
    inside = d.platform == "container"
    return Driver(
        package=None if inside else package,
        disk=None if inside and part.disk is None else disk,
        disk_next=None if inside and part.disk_next is None else disk_next,
        loaded=loaded,
        library=library,
        firmware=_first(part.firmware, _firmware(loaded, models)),
        flavor=flavor,
        origin=origin,
    )


def _version(text: str | None) -> str | None:
    return None if text in (None, "none") else text


def _first(said: str | None, otherwise: str | None) -> str | None:
    return otherwise if said is None else _version(said)


def _said_version(part: DriverPart) -> str | None:
    said = (part.loaded, part.library, part.package, part.disk)
    return next((text for text in said if text not in (None, "none")), None)


def _branch(version: str) -> int:
    return DriverVersion.parse(version).branch


def _default_version(models: list[tuple[GpuPart, Model]]) -> str:
    from doctor.matrix.query import gpu_by_name, supports

    matrix = _matrix()
    for _, board in models:
        family = gpu_by_name(matrix, board.name)
        if family and supports(matrix, family, _branch(DEFAULT_DRIVER)) is False:
            last = str(family.last_branch)
            return OLDER_DRIVERS.get(last, DEFAULT_DRIVER)
    return DEFAULT_DRIVER


def _default_flavor(version: str, models: list[tuple[GpuPart, Model]]) -> str:
    from doctor.matrix.query import gpu_by_name, module_flavor_required

    if version == "none":
        return "open"
    matrix = _matrix()
    for _, board in models:
        family = gpu_by_name(matrix, board.name)
        answer = module_flavor_required(matrix, family, _branch(version)) if family else None
        if answer and answer.flavor in ("open", "proprietary"):
            return str(answer.flavor)
    return "open" if _branch(version) >= 560 else "proprietary"


def _firmware(loaded: str | None, models: list[tuple[GpuPart, Model]]) -> str | None:
    turing_or_newer = any(float(board.capability) >= 7.5 for _, board in models)
    return loaded if loaded and turing_or_newer else None


def _matrix() -> Any:
    from doctor.simulate.knowledge import matrix

    return matrix()


def _native_cuda(d: Description, driver: Driver) -> str | None:
    from doctor.matrix.query import native_cuda

    if driver.library is None:
        return None
    row = native_cuda(_matrix(), _branch(driver.library))
    return str(row.cuda) if row else None


def _filled(d: Description, models: list[tuple[GpuPart, Model]], driver: Driver) -> Description:
    """The sections that a healthy host of this kind would have."""
    filled: dict[str, Any] = {}
    if d.nvswitch and d.modules is None and any(_nvlink5(board) for _, board in models):
        filled["modules_extra"] = sorted({*d.modules_extra, "ib_umad", "mlx5_ib"})
    if d.nvswitch and d.fabric_manager is None and d.platform != "container":
        filled["fabric_manager"] = UnitPart(version=driver.loaded or driver.library)
    elif d.fabric_manager is not None and d.fabric_manager.version is None:
        gone = d.fabric_manager.state == "absent"
        version = None if gone else driver.loaded or driver.library
        filled["fabric_manager"] = msgspec.structs.replace(d.fabric_manager, version=version)
    elif d.fabric_manager is not None and _refuses(d.fabric_manager, driver):
        filled["fabric_manager"] = msgspec.structs.replace(d.fabric_manager, state="failed")
    if d.platform == "wsl2":
        wsl = d.wsl or WslPart()
        if wsl.lib_dir is None and driver.library:
            new = [] if _branch(driver.library) < DXGDMAL_SINCE else ["libnvdxgdmal.so.1"]
            wsl = msgspec.structs.replace(wsl, lib_dir=sorted([*WSL_LIBRARIES, *new]))
        filled["wsl"] = msgspec.structs.replace(wsl, windows_driver=driver.library)
    return msgspec.structs.replace(d, **filled) if filled else d


def _nvlink5(board: Model) -> bool:
    """Blackwell's NVSwitches are driven through the InfiniBand stack (NVIDIA/gpu-operator#2781)."""
    return board.nvlinks > 0 and float(board.capability) >= 10


def _refuses(unit: UnitPart, driver: Driver) -> bool:
    """Fabric manager ends at once when its version is not the loaded driver's."""
    return bool(driver.loaded) and unit.state == "active" and unit.version != driver.loaded


def _boards(
    d: Description, models: list[tuple[GpuPart, Model]], driver: Driver
) -> tuple[Board, ...]:
    boards = []
    for index, (part, board) in enumerate(models):
        sxm = d.nvswitch > 0 and board.nvlinks > 0
        on_switch = sxm or part.fabric not in (None, "not-supported")
        part = _fabric(d, part, on_switch)
        bar1 = board.bar1 * MIB if part.bar1 is None else size(part.bar1, "gpus.bar1")
        refusal = _refusal(d, part, board, driver, bar1)
        if board.bar1 == 0:
            bar1 = 0
        boards.append(
            Board(
                index=index,
                part=part,
                name=board.name,
                uuid=f"GPU-{index:08x}-51d0-4d00-8000-{index:012x}",
                address=_address(d, index),
                device_id=part.device_id or board.device,
                compute_capability=board.capability,
                memory=board.memory * MIB,
                bar1=bar1,
                nvlinks=board.nvlinks if sxm or part.fabric or d.nvswitch else 0,
                pcie_generation=board.generation,
                pcie_width=board.width,
                ecc_supported=board.ecc,
                mig_supported=board.mig,
                bound_to=None if part.bound_to in (None, "none") else part.bound_to,
                on_nvswitch=on_switch,
                initialised=not refusal,
                refusal=refusal,
            )
        )
    return tuple(boards)


def _address(d: Description, index: int) -> str:
    if d.platform == "vm":
        return f"0000:00:{5 + index:02x}.0"
    return f"0000:{0x17 + 0x11 * (index % 13):02x}:00.0" if index < 13 else f"0001:{index:02x}:00.0"


def _fabric(d: Description, part: GpuPart, on_switch: bool) -> GpuPart:
    """With a fabric and no word about its state: completed when fabric manager runs, or when a container cannot see it."""
    if not on_switch or part.fabric is not None:
        return part
    unit = d.fabric_manager
    done = d.platform == "container" or unit is None or unit.state == "active"
    return msgspec.structs.replace(part, fabric="completed" if done else "in-progress")


def _refusal(d: Description, part: GpuPart, board: Model, driver: Driver, bar1: int) -> str:
    from doctor.matrix.query import gpu_by_name, module_flavor_required, supports

    if part.bound_to not in (None, "nvidia"):
        return "held"
    version = driver.loaded or driver.disk
    if version is None or d.platform in ("wsl2", "jetson"):
        return ""
    if bar1 == 0 and board.bar1:
        return "bar1"
    matrix = _matrix()
    family = gpu_by_name(matrix, board.name)
    if family is None:
        return ""
    if supports(matrix, family, DriverVersion.parse(version)) is False:
        return "unsupported"
    needed = module_flavor_required(matrix, family, _branch(version))
    if needed and needed.flavor in ("open", "proprietary") and needed.flavor != driver.flavor:
        return f"flavor-{driver.flavor}"
    return ""


def _unloaded_if_refused(d: Description, driver: Driver, boards: tuple[Board, ...]) -> Driver:
    """The module leaves again when its probe fails for every board; a proprietary one that needs the open flavour stays."""
    part = d.driver if isinstance(d.driver, DriverPart) else DriverPart()
    if part.loaded is not None or not boards:
        return driver
    probe_fails = {"held", "flavor-open", "unsupported", "bar1"}
    if all(board.refusal in probe_fails for board in boards):
        return msgspec.structs.replace(driver, loaded=None, firmware=None)
    return driver


def _bound(board: Board, driver: Driver) -> Board:
    """A board nobody holds is bound to nvidia once the module is loaded and its probe accepted the board."""
    if board.part.bound_to is not None or driver.loaded is None:
        return board
    accepted = board.initialised or board.refusal == "flavor-proprietary"
    return msgspec.structs.replace(board, bound_to="nvidia" if accepted else None)
