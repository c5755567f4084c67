"""Disk space where images, engines and caches live."""

from __future__ import annotations

import shlex

from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.storage import Disk
from doctor.facts.model import known_or
from doctor.facts.tree import Facts

GIB = 1 << 30
IMAGE_SHARE = 0.15
"""The kubelet's default: it deletes images below imagefs.available 15 % (kubelet-eviction)."""
ROOT_SHARE = 0.05
ROOM_FOR_IMAGES = 40 * GIB
"""Twice the 20 GB that GPU images reach (jupyterhub-deploy-kubernetes-jetstream#76): where that is free, a share says nothing."""
ROOM_FOR_WORK = 5 * GIB
"""Logs, compiled kernels and torch caches of one engine's start; where more is free, a share says nothing."""


def shown(size: int) -> str:
    """Bytes as people say them."""
    return f"{size / GIB:.1f} GiB"


def tight(disk: Disk, share: float, room: int) -> bool:
    """Whether both the share and the amount are too small."""
    return disk.free < disk.size * share and disk.free < room


def image_store(f: Facts, purpose: str, name: str, prune: str) -> Result:
    """The file system of one engine's images."""
    disk = f.storage.disks.value.get(purpose)
    if disk is None:
        return skipped(f"{name} keeps no images here")
    largest = max(
        (item.size or 0 for item in known_or(f.container.images, [])),
        default=0,
    )
    fits = f"{shown(disk.free)} free of {shown(disk.size)} for {disk.path} on {disk.mount}"
    if tight(disk, IMAGE_SHARE, max(ROOM_FOR_IMAGES, 2 * largest)):
        return failed(
            f"{name} has {fits}: a GPU image of 10 to 20 GB does not fit twice",
            want=f"{shown(max(ROOM_FOR_IMAGES, 2 * largest))} or {IMAGE_SHARE:.0%} free",
            command=prune,
            evidence=[seen(f"disk.{purpose}", disk.free, disk.path)],
        )
    return passed(f"{name} has {fits}")


@check(
    "disk.docker-root",
    title="There is room for images in Docker's folder",
    severity=WARN,
    reads=("storage.disks", "container.images"),
    sources=("kubelet-eviction", "jupyterhub-deploy-kubernetes-jetstream#76"),
    fix=Fix(
        "remove unused images, or move data-root to a larger disk",
        command="docker system df && docker image prune -a",
    ),
)
def docker_root(f: Facts, k: Knowledge) -> Result:
    """GPU images are 10 to 20 GB, and a pull holds two copies of a layer."""
    return image_store(f, "docker", "Docker", "docker system df && docker image prune -a")


@check(
    "disk.containerd-root",
    title="There is room for images in containerd's folder",
    severity=WARN,
    reads=("storage.disks", "container.images"),
    sources=("kubelet-eviction", "jupyterhub-deploy-kubernetes-jetstream#76"),
    fix=Fix(
        "remove unused images, or move containerd's root to a larger disk",
        command="sudo crictl rmi --prune",
    ),
)
def containerd_root(f: Facts, k: Knowledge) -> Result:
    """containerd's folder is on the system disk unless it was moved."""
    return image_store(f, "containerd", "containerd", "sudo crictl rmi --prune")


@check(
    "disk.space",
    title="There is room on the system's, temporary and cache file systems",
    severity=WARN,
    reads=("storage.disks",),
    sources=("kubelet-eviction",),
    fix=Fix("make room", command="sudo du -xh --max-depth=2 / | sort -h | tail -20"),
)
def space(f: Facts, k: Knowledge) -> Result:
    """Without room engines cannot write logs, compiled kernels or caches."""
    disks = f.storage.disks.value
    looked = {name: disks[name] for name in ("root", "tmp", "home", "hf-cache") if name in disks}
    bad = {name: disk for name, disk in looked.items() if tight(disk, ROOT_SHARE, ROOM_FOR_WORK)}
    if bad:
        name, disk = next(iter(bad.items()))
        return failed(
            f"{name} ({disk.path}) has {shown(disk.free)} free of {shown(disk.size)} on {disk.mount}",
            want=f"{shown(ROOM_FOR_WORK)} or {ROOT_SHARE:.0%} free",
            command=f"sudo du -xh --max-depth=2 {shlex.quote(disk.mount)} | sort -h | tail -20",
            evidence=[seen(f"disk.{key}", item.free, item.path) for key, item in bad.items()],
        )
    least = min(looked.values(), key=lambda disk: disk.free, default=None)
    room = f"least is {shown(least.free)} on {least.mount}" if least else "none was there"
    return passed(f"{', '.join(looked)} have room, {room}")


@check(
    "disk.read-only",
    title="File systems that engines write to can be written",
    severity=ERROR,
    reads=("storage.disks",),
    sources=("man-mount",),
    fix=Fix(
        "look for the kernel's error first: it remounts a file system read-only when its disk fails",
        command="sudo dmesg --level=err | tail -20",
        kind="hardware",
    ),
)
def read_only(f: Facts, k: Knowledge) -> Result:
    """A root that is read-only by design is left out; what engines write to is not."""
    disks = f.storage.disks.value
    written = {name: disk for name, disk in disks.items() if name not in ("root", "home")}
    bad = {name: disk for name, disk in written.items() if disk.read_only}
    if bad:
        name, disk = next(iter(bad.items()))
        return failed(
            f"{name} ({disk.path}) is on {disk.mount}, which is mounted read-only",
            want="mounted read-write",
        )
    return passed(f"{', '.join(written)} are on file systems mounted read-write")
