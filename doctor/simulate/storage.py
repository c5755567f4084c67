"""Shared memory and the file systems, each as its mount, its size and what is free."""

from __future__ import annotations

from doctor.simulate.containers import is_there, settings
from doctor.simulate.description import DiskPart
from doctor.simulate.host import Host
from doctor.simulate.sizes import size
from doctor.simulate.writer import RecordingWriter

SHM = "/dev/shm"
ROOT = DiskPart(size="1T", free="600G")


def write(host: Host, out: RecordingWriter) -> None:
    """Places that the probe asks for get the numbers of the file system that holds them."""
    disks = {"/": ROOT, **host.d.disk}
    lines: list[str] = []
    for path in sorted(disks):
        kind = "overlay" if path == "/" and host.in_container else "ext4"
        mode = "ro" if disks[path].read_only else "rw"
        lines.append(f"/dev/disk{len(lines)} {path} {kind} {mode},relatime 0 0")
    lines.append(f"tmpfs {SHM} tmpfs rw,nosuid,nodev,inode64 0 0")
    out.file("/proc/self/mounts", "\n".join(lines) + "\n")
    for path in {*disks, *_places(host, out)}:
        holder = max(
            (m for m in disks if path == m or path.startswith(m.rstrip("/") + "/")), key=len
        )
        disk = disks[holder]
        if path not in out.paths:
            out.folder(path)
        out.statvfs(path, total=size(disk.size), avail=size(disk.free))
    _shm(host, out)


def _places(host: Host, out: RecordingWriter) -> set[str]:
    places = {"/", "/tmp"}
    env = {**out.process.get("env", {}), **host.d.env}
    home = env.get("HOME", "")
    if home.startswith("/"):
        places.add(home)
        # a folder of its own shows that it is there
        places |= {p for p in (f"{home}/.cache/huggingface",) if p in host.d.disk}
    places |= {env[key] for key in ("HF_HOME", "HF_HUB_CACHE") if env.get(key, "").startswith("/")}
    part = host.d.containers
    if not host.in_container and is_there(part.docker):
        default = "/var/snap/docker/common/var-lib-docker" if part.origin == "snap" else ""
        default = default or "/var/lib/docker"
        if part.rootless:
            default = "/home/user/.local/share/docker"
        places.add(str(settings(part).get("data-root", default)))
    if "/var/lib/containerd" in out.paths:
        places.add("/var/lib/containerd")
    return places


def _shm(host: Host, out: RecordingWriter) -> None:
    part = host.d.shm
    total = size(part.size, "shm.size") if part.size else size(host.d.mem, "mem") // 2
    used = size(part.used, "shm.used")
    out.folder(SHM, mode=0o1777)
    names: list[str] = []
    for orphan in part.orphans:
        for number in range(orphan.count):
            name = f"{orphan.name}{number:06x}"
            names.append(name)
            out.file(f"{SHM}/{name}", keep=False, size=size(orphan.size, "shm.orphans.size"))
            used += size(orphan.size, "shm.orphans.size")
    out.statvfs(SHM, total=total, avail=max(0, total - used))
    if names:
        _no_mapping(out)


def _no_mapping(out: RecordingWriter) -> None:
    """grep finds none of the names in any process."""
    if "/proc" not in out.paths:
        out.folder("/proc")
    pids = sorted(int(name) for name in out.paths["/proc"].get("entries", []) if name.isdigit())
    maps = [f"/proc/{pid}/maps" for pid in pids]
    out.command(["grep", "-hoE", "-s", "dev/shm/[^ ]+", "/dev/null", *maps], rc=1)
