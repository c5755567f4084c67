"""Shared libraries of a simulated host: folder by folder, and what ld.so.cache makes of them. No writer of its own."""

from __future__ import annotations

from doctor.facts.versions import CudaVersion
from doctor.simulate.host import Host
from doctor.simulate.writer import RecordingWriter

CACHE_TAG = {"x86_64": "libc6,x86-64", "aarch64": "libc6,AArch64", "ppc64le": "libc6,64bit"}


class Libraries:
    """Which library lies where, and under which names."""

    def __init__(self, host: Host, out: RecordingWriter) -> None:
        self.host = host
        self.out = out
        self.folders: dict[str, dict[str, str]] = {}
        """Folder -> soname -> path of the link or file."""

    def add(self, folder: str, soname: str, real: str) -> None:
        """A library and the link with its soname; `real` is a name in the folder or a path elsewhere."""
        path = f"{folder}/{soname}"
        if "/" not in real:
            self.out.file(f"{folder}/{real}", keep=False, size=1 << 20)
        if real != soname:
            self.out.link(path, real)
        self.folders.setdefault(folder, {})[soname] = path

    def configured(self, folders: list[str]) -> None:
        """ld.so.conf names these folders first; ldconfig -p lists what it found, the system's folder last."""
        self.out.file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
        self.out.folder("/etc/ld.so.conf.d")
        if self.host.machine == "aarch64":
            self.out.file("/lib/ld-linux-aarch64.so.1", keep=False, mode=0o755)
        for number, folder in enumerate(folders):
            self.out.file(f"/etc/ld.so.conf.d/{number:03d}-simulated.conf", folder + "\n")
        self.out.command(["ldconfig", "-p"], self._cache([*folders, self.host.libdir]))

    def _cache(self, folders: list[str]) -> str:
        entries = [
            (soname, path)
            for folder in folders
            for soname, path in self.folders.get(folder.rstrip("/"), {}).items()
        ]
        tag = CACHE_TAG[self.host.machine]
        lines = [
            f"\t{soname} ({tag}) => {path}"
            for soname, path in sorted(entries, key=lambda entry: entry[0], reverse=True)
        ]
        lines.append(f"\tlibc.so.6 ({tag}) => {self.host.libdir}/libc.so.6")
        return f"{len(lines)} libs found in cache `/etc/ld.so.cache'\n" + "\n".join(lines) + "\n"


def toolkit_folder(version: str) -> str:
    """/usr/local/cuda-13.0 for 13.0 and for 13.0.2."""
    return f"/usr/local/cuda-{CudaVersion.parse(version).release}"


def targets(host: Host, version: str) -> str:
    """The toolkit's library folder."""
    machine = "sbsa" if host.machine == "aarch64" else host.machine
    return f"{toolkit_folder(version)}/targets/{machine}-linux/lib"


def newest_toolkit(host: Host) -> str | None:
    """The toolkit /usr/local/cuda leads to."""
    versions = sorted(host.d.toolkits, key=CudaVersion.parse)
    return versions[-1] if versions else None


def physical(host: Host, folder: str) -> str:
    """A folder under /usr/local/cuda as it lies on disk: below the toolkit the link leads to."""
    newest = newest_toolkit(host)
    plain = folder.rstrip("/")
    if newest and (plain + "/").startswith("/usr/local/cuda/"):
        return toolkit_folder(newest) + plain[len("/usr/local/cuda") :]
    return plain
