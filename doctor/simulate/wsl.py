"""What Windows maps into WSL2, and Linux driver files that should not be there."""

from __future__ import annotations

from doctor.simulate.host import Host
from doctor.simulate.writer import RecordingWriter

LIB_DIR = "/usr/lib/wsl/lib"


def write(host: Host, out: RecordingWriter) -> None:
    """Nothing outside WSL2. The libraries themselves are the driver writer's where it has them."""
    part = host.d.wsl
    if host.d.platform != "wsl2" or part is None:
        return
    if part.dxg:
        out.node("/dev/dxg", "10:125")
    out.folder(LIB_DIR)
    for name in part.lib_dir or []:
        path = f"{LIB_DIR}/{name}"
        if name == "libcuda.so.1" and part.libcuda_is_link:
            out.files.pop(path, None)
            out.link(path, "libcuda.so.1.1")
        elif path not in out.paths or out.paths[path]["type"] == "link":
            out.file(path, keep=False, mode=0o555)
    for path in part.linux_libraries:
        out.file(path, keep=False)
