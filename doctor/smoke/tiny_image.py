"""An image for the rung `container`, made of this host's own Python: no registry is asked and nothing is downloaded.

It holds one interpreter with the few modules and libraries that the probe loads. The driver's libraries and
`nvidia-smi` are what the container toolkit adds when a container starts, as it does for any image.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.smoke.child_answer import ask
from doctor.smoke.context import StageUnseen

if TYPE_CHECKING:
    from doctor.smoke.context import Context

DRIVER_NEEDS = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
"""What libcuda and libnvidia-ml name as needed."""
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
MERGED = ("/bin", "/sbin", "/lib", "/lib64")
"""Links on hosts with a merged /usr."""
LD_SO_CONF = b"""/usr/lib/x86_64-linux-gnu
/usr/lib/aarch64-linux-gnu
/usr/lib64
/usr/local/lib
"""
PASSWD = b"root:x:0:0:root:/:/\nnobody:x:65534:65534:nobody:/:/\n"


def write(ctx: Context, target: Path) -> str:
    """Write the image's root file system as a tar; the path of its Python."""
    answer = ask(ctx, "own_files", [], "own-files", 30.0)
    said = next((line for line in answer.lines if "executable" in line), None)
    if said is None:
        raise StageUnseen("this host's Python did not name its own files, so no image can be made")
    root = _Root()
    for merged in map(Path, MERGED):
        if merged.is_symlink():
            root.link(str(merged), str(merged.readlink()))
    libraries = [Path(path) for path in said["libraries"]]
    libc = next((item.parent for item in libraries if item.name.startswith("libc.so")), None)
    libraries += [libc / name for name in DRIVER_NEEDS] if libc else []
    for path in (Path(said["executable"]), *map(Path, said["modules"]), *libraries):
        root.file(path)
    for library in libraries:
        root.names_of(library)
    for name in (*LOADERS, "/etc/debian_version", "/etc/os-release"):
        root.file(Path(name))
    root.folder(said["dynload"])
    root.text("/etc/ld.so.conf", LD_SO_CONF)
    root.text("/etc/passwd", PASSWD)
    for folder, mode in (("/tmp", 0o1777), ("/proc", 0o555), ("/sys", 0o555), ("/smoke", 0o755)):
        root.folder(folder, mode)
    root.save(target)
    executable: str = said["executable"]
    return executable


class _Root:
    """A root file system in memory: each path once, folders before what is in them."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w")  # noqa: SIM115 - closed in save
        self._have: set[str] = set()

    def file(self, path: Path) -> None:
        """The content of a file under its own name, in the folder that the name really leads to."""
        if not path.is_file():
            return
        name = str(path.parent.resolve() / path.name)
        if name in self._have:
            return
        self._parents(name)
        entry = tarfile.TarInfo(name.lstrip("/"))
        data = path.read_bytes()
        entry.size = len(data)
        entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
        self._add(name, entry, data)

    def names_of(self, library: Path) -> None:
        """Links beside a library that lead to it, such as libz.so.1."""
        real = library.resolve()
        stem = real.name.partition(".so")[0]
        for beside in real.parent.glob(f"{stem}.so*"):
            name = str(beside)
            if beside.is_symlink() and beside.resolve() == real and name not in self._have:
                self._parents(name)
                self.link(name, real.name)

    def link(self, name: str, to: str) -> None:
        """A symbolic link."""
        entry = tarfile.TarInfo(name.lstrip("/"))
        entry.type, entry.linkname = tarfile.SYMTYPE, to
        self._add(name, entry, b"")

    def text(self, name: str, data: bytes) -> None:
        """A file that is not the host's."""
        self._parents(name)
        entry = tarfile.TarInfo(name.lstrip("/"))
        entry.size, entry.mode = len(data), 0o644
        self._add(name, entry, data)

    def folder(self, name: str, mode: int = 0o755) -> None:
        """An empty folder, unless it is there."""
        name = str(Path(name).resolve()) if Path(name).exists() else name
        if name in self._have or name == "/":
            return
        self._parents(name)
        entry = tarfile.TarInfo(name.lstrip("/"))
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._add(name, entry, b"")

    def save(self, target: Path) -> None:
        """Write it."""
        self._tar.close()
        target.write_bytes(self._bytes.getvalue())

    def _parents(self, name: str) -> None:
        parent = str(Path(name).parent)
        if parent not in self._have and parent != "/":
            self.folder(parent)

    def _add(self, name: str, entry: tarfile.TarInfo, data: bytes) -> None:
        self._have.add(name)
        self._tar.addfile(entry, io.BytesIO(data))
