"""A stand-in's boot: the kernel side is laid out on a tmpfs and put over the real kernel's files, then systemd takes over."""

import os
import re
import stat
import subprocess
import sys
import uuid

sys.path.insert(0, "/usr/lib/standin")
from kernel import (
    ETC,
    RUN,
    Refused,
    blacklisted,
    device,
    gpus,
    host,
    kernels,
    load,
    log,
    module_file,
    read,
    secure_boot,
    show_device,
    switches,
    tables,
    write,
)


def boot():
    """Lay everything out and put it over the real kernel's files."""
    facts = host()
    found = kernels()
    wanted = read(ETC + "/boot-kernel").strip()
    kernel = (
        facts["release"]
        if facts.get("wsl")
        else wanted or (found[-1] if found else facts["release"])
    )
    os.makedirs(RUN + "/module", exist_ok=True)
    os.makedirs(RUN + "/driver", exist_ok=True)
    write(RUN + "/release", kernel + "\n")
    write(
        RUN + "/cmdline",
        read(ETC + "/cmdline") or "BOOT_IMAGE=/boot/vmlinuz-%s %s\n" % (kernel, arguments(kernel)),
    )
    write(
        RUN + "/version",
        "Linux version %s (builder@host) (%s, GNU ld 2.40) #1 SMP PREEMPT_DYNAMIC\n"
        % (kernel, facts["compiler"]),
    )
    write(RUN + "/boot-id", read(ETC + "/boot-id") or str(uuid.uuid4()) + "\n")
    write(RUN + "/dmesg", "[    0.000000] Linux version %s\n" % kernel)
    write(RUN + "/lockdown", "[none] integrity confidentiality\n")
    write(RUN + "/efi/efivars/.keep", "")
    for name, value in (
        ("SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", secure_boot()),
        ("BootCurrent-8be4df61-93ca-11d2-aa0d-00e098032b8c", True),
    ):
        with open(RUN + "/efi/efivars/" + name, "wb") as handle:
            handle.write(b"\x06\0\0\0" + (b"\x01" if value else b"\0"))
    os.unlink(RUN + "/efi/efivars/.keep")
    tables()
    _bridge()
    for row in gpus() + switches():
        show_device(row, None)
    _over()
    if not facts.get("wsl"):
        probe_devices(kernel)
    else:
        os.mknod("/dev/dxg", 0o666 | stat.S_IFCHR, os.makedev(10, 63))


def arguments(kernel):
    """What the boot loader gives the kernel: its loader entry's options, else the line of the menu."""
    for name in (
        sorted(os.listdir("/boot/loader/entries")) if os.path.isdir("/boot/loader/entries") else []
    ):
        if name.endswith("-%s.conf" % kernel):
            found = re.search(r"^options\s+(.*)$", read("/boot/loader/entries/" + name), re.M)
            if found:
                return found.group(1).strip()
    found = re.search(
        r"^\s*linux\s+/boot/vmlinuz-%s\s+(.*)$" % re.escape(kernel),
        read("/boot/grub/grub.cfg"),
        re.M,
    )
    return found.group(1).strip() if found else "root=/dev/nvme0n1p2 ro quiet"


def _bridge():
    base = RUN + "/devices/pci0000:16/0000:16:01.0"
    write(
        base + "/uevent",
        "DRIVER=pcieport\nPCI_CLASS=60400\nPCI_ID=8086:352A\nPCI_SLOT_NAME=0000:16:01.0\n",
    )
    with open(base + "/config", "wb") as handle:
        handle.write(b"\0" * 4096)
    os.makedirs(RUN + "/pci", exist_ok=True)
    os.makedirs(RUN + "/devices", exist_ok=True)
    for row in gpus() + switches():
        os.symlink(device(row["address"]), "%s/pci/%s" % (RUN, row["address"]))
    os.symlink(base, RUN + "/pci/0000:16:01.0")


def probe_devices(kernel):
    """What udev would load for the GPUs: nouveau early when nothing forbids it, else nvidia and what hangs on it."""
    if not gpus():
        return
    kept = read(ETC + "/kept-modules").split()
    if kept:
        for name in kept:
            load(name)
        return
    if module_file("nouveau", kernel) and not blacklisted("nouveau", kernel):
        load("nouveau")
    if module_file("nvidia", kernel) and not blacklisted("nvidia", kernel):
        try:
            load("nvidia")
            load("nvidia_uvm")
        except Refused as refused:
            log(str(refused))


def _over():
    pairs = [
        ("module", "/sys/module"),
        ("pci", "/sys/bus/pci/devices"),
        ("driver", "/proc/driver"),
        ("release", "/proc/sys/kernel/osrelease"),
        ("cmdline", "/proc/cmdline"),
        ("version", "/proc/version"),
        ("boot-id", "/proc/sys/kernel/random/boot_id"),
        ("modules", "/proc/modules"),
        ("proc-devices", "/proc/devices"),
        ("lockdown", "/sys/kernel/security/lockdown"),
    ]
    if not host().get("wsl"):
        pairs.append(("efi", "/sys/firmware/efi"))
        _cover("/sys/firmware", folder="efi")
    if not os.path.exists("/sys/kernel/security/lockdown"):
        _cover("/sys/kernel/security", file="lockdown")
    for source, target in pairs:
        if os.path.exists(target):
            subprocess.run(["mount", "--bind", "%s/%s" % (RUN, source), target], check=True)


def _cover(path, folder=None, file=None):
    """An empty place of the real kernel's, with something to mount over: EFI, which Docker masks, and securityfs."""
    if not os.path.isdir(path):
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=False)
    if folder:
        os.makedirs("%s/%s" % (path, folder), exist_ok=True)
    if file:
        write("%s/%s" % (path, file), "")
        write("%s/lsm" % path, "lockdown,capability,yama,apparmor")


def own_cgroups():
    """Docker shows the container's own part of each hierarchy, read-only; systemd and an engine inside write to it."""
    base = "/sys/fs/cgroup"
    writable = ["mount", "-o", "remount,bind,rw,nosuid,nodev,noexec,relatime"]
    subprocess.run([*writable, base], check=True)
    if os.path.exists(base + "/cgroup.controllers"):
        return
    for name in os.listdir(base):
        if os.path.ismount("%s/%s" % (base, name)):
            subprocess.run([*writable, "%s/%s" % (base, name)], check=True)
    if not os.path.ismount(base + "/systemd"):
        os.makedirs(base + "/systemd", exist_ok=True)
        options = ["-t", "cgroup", "-o", "none,name=systemd", "cgroup"]
        subprocess.run(["mount", *options, base + "/systemd"], check=True)


def init():
    """Process 1 until systemd takes over."""
    for mark in ("/.dockerenv", "/run/.containerenv"):
        if os.path.exists(mark):
            os.unlink(mark)
    os.makedirs(RUN, exist_ok=True)
    try:
        own_cgroups()
        boot()
    except Exception as problem:  # a stand-in that does not boot says why in `docker logs`
        print("stand-in kernel: %r" % problem, file=sys.stderr, flush=True)
        raise
    write("/run/systemd/timesync/synchronized", "")
    os.execv("/sbin/init", ["/sbin/init"])


if __name__ == "__main__":
    init()
