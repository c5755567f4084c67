"""The driver of a simulated host: module, proc files, nodes, libraries and what the loader gives."""

from __future__ import annotations

from doctor.facts.versions import CudaVersion
from doctor.simulate.consequence import uvm_missing
from doctor.simulate.host import Board, Host
from doctor.simulate.loader import Libraries, newest_toolkit, physical, targets
from doctor.simulate.writer import RecordingWriter

UVM_MAJOR = 238
CAPS_MAJOR = 241
PARAMS = """\
ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
InitializeSystemMemoryAllocations: 1
UsePageAttributeTable: 4294967295
EnableMSI: 1
OpenRmEnableUnsupportedGpus: 1
PreserveVideoMemoryAllocations: 0
EnableGpuFirmware: 18
EnableGpuFirmwareLogs: 2
RegistryDwords: ""
RegistryDwordsPerDevice: ""
ExcludedGpus: ""
"""


def write(host: Host, out: RecordingWriter) -> None:
    """Exactly what the driver probe reads."""
    _libraries(host, out)
    if host.d.platform in ("wsl2", "jetson"):
        out.file("/proc/devices", _devices({}))
        return
    _modules(host, out)
    _kernel_side(host, out)
    _nodes(host, out)
    _tools(host, out)


def module_text(version: str, flavor: str, kernel: str) -> str:
    """What `modinfo nvidia` prints."""
    licence = "Dual MIT/GPL" if flavor == "open" else "NVIDIA"
    return (
        f"filename:       /lib/modules/{kernel}/updates/dkms/nvidia.ko\n"
        f"firmware:       nvidia/{version}/gsp_ga10x.bin\n"
        f"version:        {version}\n"
        f"license:        {licence}\n"
        "name:           nvidia\n"
        f"vermagic:       {kernel} SMP preempt mod_unload modversions \n"
    )


def _modules(host: Host, out: RecordingWriter) -> None:
    if host.in_container:
        return
    for kernel, version in (
        (host.kernel, host.driver.disk),
        (host.next_kernel, host.driver.disk_next),
    ):
        out.folder(f"/lib/modules/{kernel}")
        argv = ["modinfo", "-k", kernel, "nvidia"]
        if version:
            out.command(argv, module_text(version, host.driver.flavor, kernel))
        elif tuple(argv) not in {key[0] for key in out.commands}:
            out.command(argv, rc=1, stderr="modinfo: ERROR: Module nvidia not found.\n")


def _kernel_side(host: Host, out: RecordingWriter) -> None:
    version = host.driver.loaded
    majors = {}
    if version:
        out.file("/sys/module/nvidia/version", version + "\n")
        out.file("/sys/module/nvidia/taint", "OE\n" if host.driver.flavor == "open" else "POE\n")
        kind = (
            f"NVIDIA UNIX Open Kernel Module for {host.machine}"
            if host.driver.flavor == "open"
            else f"NVIDIA UNIX {host.machine} Kernel Module"
        )
        out.file(
            "/proc/driver/nvidia/version",
            f"NVRM version: {kind}  {version}  Release Build  (builder@host)  \n"
            f"GCC version:  gcc version {host.gcc} (GCC) \n",
        )
        out.file("/proc/driver/nvidia/params", _params(host))
        out.folder("/proc/driver/nvidia/gpus")
        majors = {"nvidia": 195, "nvidia-nvlink": 240, "nvidia-caps": CAPS_MAJOR}
        if not uvm_missing(host.d):
            majors["nvidia-uvm"] = UVM_MAJOR
        for board in _driven(host):
            out.file(
                f"/proc/driver/nvidia/gpus/{board.address}/information", _information(host, board)
            )
    out.file("/proc/devices", _devices(majors))


def _params(host: Host) -> str:
    lines = [line.partition(":") for line in PARAMS.splitlines()]
    values = {name: value.strip() for name, _, value in lines} | host.part.params
    return "".join(f"{name}: {value}\n" for name, value in values.items())


def _driven(host: Host) -> list[Board]:
    return [board for board in host.boards if board.initialised and board.part.on_bus]


def _information(host: Host, board: Board) -> str:
    return (
        f"Model: \t\t {board.name}\n"
        "IRQ:   \t\t 41\n"
        f"GPU UUID: \t {board.uuid}\n"
        f"Video BIOS: \t {(board.part.vbios or '96.00.a5.00.01').lower()}\n"
        "Bus Type: \t PCIe\n"
        f"Bus Location: \t {board.address}\n"
        f"Device Minor: \t {board.index}\n"
        f"GPU Firmware: \t {host.driver.firmware or 'N/A'}\n"
        "GPU Excluded:\t No\n"
    )


def _devices(majors: dict[str, int]) -> str:
    rows = [
        (1, "mem"),
        (5, "/dev/tty"),
        (10, "misc"),
        *((major, name) for name, major in majors.items()),
    ]
    lines = [f"{major:3d} {name}" for major, name in sorted(rows)]
    return "Character devices:\n" + "\n".join(lines) + "\n\nBlock devices:\n259 blkext\n"


def _nodes(host: Host, out: RecordingWriter) -> None:
    out.folder("/dev")
    wanted: dict[str, str] = {}
    if host.driver.loaded:
        wanted["/dev/nvidiactl"] = "195:255"
        for board in _driven(host):
            wanted[f"/dev/nvidia{board.index}"] = f"195:{board.index}"
        if not uvm_missing(host.d):
            wanted["/dev/nvidia-uvm"] = f"{UVM_MAJOR}:0"
            wanted["/dev/nvidia-uvm-tools"] = f"{UVM_MAJOR}:1"
        wanted["/dev/nvidia-caps/nvidia-cap1"] = f"{CAPS_MAJOR}:1"
        wanted["/dev/nvidia-caps/nvidia-cap2"] = f"{CAPS_MAJOR}:2"
    for path, said in host.part.nodes.items():
        if said == "none":
            wanted.pop(path, None)
        elif said == "file":
            wanted.pop(path, None)
            out.file(path, keep=False)
        else:
            wanted.setdefault(path, f"{UVM_MAJOR}:0")
    for path, rdev in wanted.items():
        said = host.part.nodes.get(path, "0666")
        closed = path.startswith("/dev/nvidia-caps/")
        out.node(path, rdev, mode=0o400 if closed else int(said, 8))


def _tools(host: Host, out: RecordingWriter) -> None:
    if host.driver.library:
        out.file("/usr/bin/nvidia-smi", mode=0o755, keep=False)
        if host.part.modprobe and not host.in_container:
            out.file("/usr/bin/nvidia-modprobe", mode=0o4755, keep=False)
    persistenced = host.d.persistenced
    runs = persistenced is None or persistenced.state == "active"
    if runs and host.driver.loaded and not host.in_container:
        out.node("/run/nvidia-persistenced/socket", "", kind="socket")
    if host.driver.origin == "runfile" and (host.driver.library or host.driver.disk):
        version = host.part.version or host.driver.library or host.driver.disk
        out.file("/usr/bin/nvidia-uninstall", mode=0o755, keep=False)
        out.file(
            "/var/log/nvidia-installer.log",
            "nvidia-installer log file '/var/log/nvidia-installer.log'\n"
            f"creation time: Mon Nov  2 10:00:00 2026\ninstaller version: {version}\n",
        )


def _libraries(host: Host, out: RecordingWriter) -> None:
    found = Libraries(host, out)
    d = host.d
    conf = [physical(host, folder) for folder in d.ldconfig]
    if d.platform == "wsl2":
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            if d.wsl and name in (d.wsl.lib_dir or []):
                found.folders.setdefault("/usr/lib/wsl/lib", {})[name] = f"/usr/lib/wsl/lib/{name}"
        conf.append("/usr/lib/wsl/lib")
    elif d.platform == "jetson" and host.boards:
        found.add(f"{host.libdir}/nvidia", "libcuda.so.1", "libcuda.so.1.1")
        found.add(f"{host.libdir}/nvidia", "libnvidia-ml.so.1", "libnvidia-ml.so.1")
        conf.append(f"{host.libdir}/nvidia")
    elif host.driver.library:
        for stem in ("libcuda", "libnvidia-ml"):
            found.add(host.libdir, f"{stem}.so.1", f"{stem}.so.{host.driver.library}")
        for version in host.part.leftovers:
            out.file(f"{host.libdir}/libcuda.so.{version}", keep=False)
    if d.nccl.system:
        found.add(host.libdir, "libnccl.so.2", f"libnccl.so.{d.nccl.system}")
    if d.cudnn.system:
        major = d.cudnn.system.partition(".")[0]
        found.add(host.libdir, f"libcudnn.so.{major}", f"libcudnn.so.{d.cudnn.system}")
    for version in d.toolkits:
        _toolkit(host, found, version)
    newest = newest_toolkit(host)
    if newest:
        conf.append(targets(host, newest))
    if d.compat:
        folder = physical(host, d.compat.dir)
        found.add(folder, "libcuda.so.1", f"libcuda.so.{d.compat.version}")
    for folder in d.stubs:
        stub = f"{targets(host, newest or '13.0')}/stubs/libcuda.so"
        out.file(stub, keep=False)
        found.add(physical(host, folder), "libcuda.so.1", stub)
    found.configured(conf)


def _toolkit(host: Host, found: Libraries, version: str) -> None:
    cuda = CudaVersion.parse(version)
    folder = targets(host, version)
    if cuda.major >= 12:
        found.add(folder, f"libcudart.so.{cuda.major}", f"libcudart.so.{cuda.release}.90")
        found.add(folder, f"libnvJitLink.so.{cuda.major}", f"libnvJitLink.so.{cuda.release}.88")
    else:
        found.add(folder, f"libcudart.so.{cuda.major}.0", f"libcudart.so.{cuda.release}.90")
    found.out.file(f"{folder}/stubs/libcuda.so", keep=False)
