"""What undo does not bring back byte for byte, each with its reason. Caches and logs outside /etc are not ours to keep."""

from __future__ import annotations

from fnmatch import fnmatchcase

EXEMPT = {
    "/etc/ld.so.cache": "ldconfig builds it anew from what is installed",
    "/etc/passwd": "system users stay: files may belong to them",
    "/etc/group": "system groups stay: files may belong to them",
    "/etc/shadow": "system users stay",
    "/etc/gshadow": "system groups stay",
    "/etc/subuid": "system users stay",
    "/etc/subgid": "system users stay",
    "/etc/passwd-": "a backup that the tools write by themselves",
    "/etc/group-": "a backup that the tools write by themselves",
    "/etc/shadow-": "a backup that the tools write by themselves",
    "/etc/gshadow-": "a backup that the tools write by themselves",
    "/etc/subuid-": "a backup that the tools write by themselves",
    "/etc/subgid-": "a backup that the tools write by themselves",
    "/etc/.pwd.lock": "a lock",
    "/etc/mtab": "the kernel's own list",
    "/etc/.updated": "systemd's own stamp",
    "/etc/apt/sources.list.d/*.distUpgrade": "the release upgrader's own backup",
    "/boot/initrd.img-*": "built anew from what is installed",
    "/boot/initramfs-*": "built anew from what is installed",
    "/boot/initrd-*": "built anew from what is installed",
    "/lib/modules/*/modules.*": "depmod builds them anew from the modules that are there",
    "/usr/lib/modules/*/modules.*": "depmod builds them anew from the modules that are there",
    "/var/lib/dpkg/*": "the package manager's own record",
    "/var/lib/apt/*": "the package manager's own record and lists",
    "/var/lib/rpm/*": "the package manager's own record",
    "/usr/lib/sysimage/rpm/*": "the package manager's own record",
    "/var/lib/dnf/*": "the package manager's own record",
    "/var/cache/*": "caches",
    "/var/log/*": "logs",
    "/var/lib/gpu-host-doctor/runs": "the record of the run itself",
    "/var/lib/gpu-host-doctor/runs/*": "the record of the run itself",
    "/var/lib/gpu-host-doctor/lock": "a lock",
    "/opt/gpu-host-doctor/bin*": "the doctor's own installation",
    "/opt/gpu-host-doctor/include*": "the doctor's own installation",
    "/opt/gpu-host-doctor/lib*": "the doctor's own installation",
    "/opt/gpu-host-doctor/share*": "the doctor's own installation",
    "/opt/gpu-host-doctor/pyvenv.cfg": "the doctor's own installation",
    "/var/lib/systemd/*": "systemd's own stamps",
    "/var/lib/docker/*": "the engine's data",
    "/var/lib/containerd/*": "the engine's data",
}


def exempt(path: str) -> str | None:
    """Why a path is not restored; None when it is."""
    reason = EXEMPT.get(path)
    if reason is not None:
        return reason
    return next((why for pattern, why in EXEMPT.items() if fnmatchcase(path, pattern)), None)
