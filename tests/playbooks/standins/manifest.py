"""Everything on a stand-in's disk as one table, to be compared before and after: content, mode, owner, type, link, attributes.

Kernel file systems, tmpfs and the engine's data are other mounts and so not in it: they do not outlive a boot, or are Docker's own.
"""

from __future__ import annotations

import fnmatch
import json

from tests.playbooks.standins.host import Host

WALK = r"""
import hashlib, json, os, stat, sys
CACHE = "/run/standin/hashes.json"
try:
    known = json.load(open(CACHE))
except (OSError, ValueError):
    known = {}
fresh, rows = {}, {}
root = os.stat("/").st_dev
def digest(path, info):
    key = "%d:%d:%d:%d:%d" % (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode)
    old = known.get(path)
    if old and old[0] == key:
        fresh[path] = old
        return old[1]
    total = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            total.update(block)
    fresh[path] = [key, total.hexdigest()]
    return fresh[path][1]
def look(path):
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    if info.st_dev != root:
        return False
    row = [{stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFCHR: "char", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket"}.get(kind, "other"),
           "%o" % stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid]
    if kind == stat.S_IFREG:
        row.append(digest(path, info))
    if kind == stat.S_IFLNK:
        row.append(os.readlink(path))
    try:
        names = sorted(n for n in os.listxattr(path, follow_symlinks=False) if not n.startswith("trusted."))
    except OSError:
        names = []
    if names:
        row.append({n: os.getxattr(path, n, follow_symlinks=False).hex() for n in names})
    rows[path] = row
    return kind == stat.S_IFDIR
def walk(folder):
    for name in sorted(os.listdir(folder)):
        path = folder.rstrip("/") + "/" + name
        try:
            if look(path):
                walk(path)
        except FileNotFoundError:
            pass
sys.setrecursionlimit(5000)
walk("/")
json.dump(fresh, open(CACHE, "w"))
json.dump(rows, sys.stdout)
"""
EXEMPT = {
    "/etc/ld.so.cache": "made from what is installed; the order of its strings is ldconfig's",
    "/var/cache/ldconfig/*": "ldconfig's own cache",
    "/etc/passwd-": "backup that useradd writes",
    "/etc/group-": "backup that groupadd writes",
    "/etc/shadow-": "backup that useradd writes",
    "/etc/gshadow-": "backup that groupadd writes",
    "/etc/passwd": "system users of packages stay: another file may belong to them",
    "/etc/group": "system groups of packages stay",
    "/etc/shadow": "system users of packages stay",
    "/etc/gshadow": "system groups of packages stay",
    "/boot/initrd.img-*": "built again at each change of modprobe.d; a real one holds times",
    "/boot/initramfs-*": "built again at each change of modprobe.d; a real one holds times",
    "/var/log/*": "logs grow",
    "/var/lib/systemd/*": "systemd's timers, random seed, enabled-state of deb-systemd-helper and catalogue",
    "/var/tmp/systemd-private-*": "private temporary folders of services, new at every start",
    "/etc/.pwd.lock": "lock file of the shadow tools",
    "/etc/.updated": "systemd's own mark of a finished boot",
    "/var/.updated": "systemd's own mark of a finished boot",
    "/etc/machine-id": "made at the first boot",
    "/var/cache/*": "package managers' and others' caches: made again",
    "/var/lib/apt/*": "package lists, extended states, periodic stamps: made again by apt-get update",
    "/var/lib/dpkg/*": "dpkg's own records and their backups; the package set itself is compared apart",
    "/var/lib/dnf/*": "dnf's history, which grows; the package set itself is compared apart",
    "/var/lib/rpm/*": "rpm's database; the package set itself is compared apart",
    "/usr/lib/sysimage/rpm/*": "rpm's database; the package set itself is compared apart",
    "/var/lib/gpu-host-doctor": "the doctor's own state",
    "/var/lib/gpu-host-doctor/*": "the doctor's own state",
    "/lib/modules/*/modules.*": "depmod's tables: made again from the modules",
    "/usr/lib/modules/*/modules.*": "depmod's tables: made again from the modules",
    "/root/.ansible*": "Ansible's temporary folder on the target",
    "/root/.gnupg*": "gpg's own folder, made by the first look at a key",
    "*/__pycache__*": "Python's compiled files",
    "/etc/ssh/ssh_host_*": "unchanged by any role; regenerated only by sshd's package",
    "/etc/resolv.conf": "Docker's",
    "/etc/hosts": "Docker's",
    "/etc/hostname": "Docker's",
    "/dev/console": "Docker's",
}
"""Paths that may differ after an undo, each with its reason. A pattern covers what is below it."""


def manifest(host: Host) -> dict[str, list[object]]:
    """path -> [type, mode, uid, gid, content hash or link target, attributes] of the whole root file system."""
    found: dict[str, list[object]] = json.loads(
        host.run(["/usr/bin/python3", "-I", "-"], input=WALK, timeout=180).stdout
    )
    return found


def exempt(path: str) -> bool:
    """Whether a path may differ."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in EXEMPT)


def differences(
    before: dict[str, list[object]], after: dict[str, list[object]]
) -> dict[str, tuple[object, object]]:
    """What is not as before, exempt paths left out."""
    return {
        path: (before.get(path), after.get(path))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path) and not exempt(path)
    }
