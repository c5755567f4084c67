"""The kernel side of a stand-in: what a kernel would show of modules, PCI devices and GPUs, laid out on a tmpfs.

Runs inside the stand-in with the system's Python. State lives in /run/standin and is new at every boot;
what survives a boot is read from the disk, as a kernel would: modules, modprobe.d, the initramfs, /boot.
"""

import json
import os
import re
import stat
import subprocess

RUN = "/run/standin"

ETC = "/etc/standin"

MODULES = "/lib/modules"

NODES = {"nvidiactl": (195, 255), "nvidia-uvm": (238, 0), "nvidia-uvm-tools": (238, 1)}

PLACES = (
    "updates/dkms",
    "updates",
    "extra",
    "weak-updates",
    "kernel/nvidia",
    "kernel/drivers/video",
)

NOUVEAU = "kernel/drivers/gpu/drm/nouveau/nouveau.ko"

OPEN_ONLY = ("2901",)
"""Boards that only the open modules drive: B200."""

FIRST = {"3182": 575}
"""The first branch that knows a board: B300."""

PARAMS = "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\nEnableGpuFirmware: 18\n"


class Refused(Exception):
    """What the kernel says when a module does not load or unload."""


def read(path, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return default


def write(path, text, mode=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)
    if mode is not None:
        os.chmod(path, mode)


def host():
    """The facts of this stand-in: distribution, kernels, compiler, hardware."""
    return json.loads(read(ETC + "/host.json", "{}"))


def gpus():
    """[{address, device, subsystem, uuid, memory, name}] on the bus."""
    rows = []
    for line in read(ETC + "/gpus").splitlines():
        parts = line.split("\t")
        if len(parts) == 6:
            keys = ("address", "device", "subsystem", "uuid", "memory", "name")
            rows.append(dict(zip(keys, parts, strict=True)))
    return rows


def switches():
    """[{address, device, ...}] of NVSwitches: /etc/standin/switches has an address a line."""
    return [
        {
            "address": line.strip(),
            "device": "22a3",
            "subsystem": "10de:1796",
            "memory": "33554432",
            "class": "068000",
        }
        for line in read(ETC + "/switches").splitlines()
        if line.strip()
    ]


def release():
    return read(RUN + "/release").strip() or os.uname().release


def kernels():
    """Releases in /boot, oldest first."""
    found = [name[8:] for name in os.listdir("/boot") if name.startswith("vmlinuz-")]
    return sorted(found, key=lambda text: [int(n) for n in re.findall(r"\d+", text)])


def fields(path):
    """The .modinfo strings of a module file."""
    with open(path, "rb") as handle:
        data = handle.read()
    found = {}
    for part in re.split(rb"\0+", data):
        name, equals, value = part.partition(b"=")
        if equals and re.match(rb"(version|license|vermagic|signer)\Z", name):
            found.setdefault(name.decode(), value.decode(errors="replace"))
    return found


def module_file(name, kernel):
    if name == "nouveau":
        path = "%s/%s/%s" % (MODULES, kernel, NOUVEAU)
        return path if os.path.exists(path) else None
    for place in PLACES:
        path = "%s/%s/%s/%s.ko" % (MODULES, kernel, place, name.replace("_", "-"))
        if os.path.exists(path):
            return path
    return None


def blacklisted(name, kernel):
    """By the initramfs for what it loads early, and by modprobe.d and the command line for the rest."""
    words = read(RUN + "/cmdline").split()
    for word in words:
        key, _, value = word.partition("=")
        names = ("modprobe.blacklist", "rd.driver.blacklist", "module_blacklist")
        if key in names and name in value.replace("-", "_").split(","):
            return True
    early = initramfs(kernel)
    texts = early if name == "nouveau" and early is not None else configuration()
    pattern = r"^\s*(blacklist\s+%s\s*$|install\s+%s\s+\S*/(false|true)\b)" % (name, name)
    return bool(re.search(pattern, texts, re.M))


def configuration():
    """All of modprobe.d, the first file of a name winning."""
    found = {}
    for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib"):
        base = folder + "/modprobe.d"
        for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
            if name.endswith(".conf"):
                found.setdefault(name, read(base + "/" + name))
    return "\n".join(found[name] for name in sorted(found)) + "\n"


def initramfs(kernel):
    """The configuration that the image of a kernel was built with, or None without an image."""
    for path in ("/boot/initrd.img-" + kernel, "/boot/initramfs-%s.img" % kernel):
        if os.path.exists(path):
            return read(path)
    return None


def loaded(name):
    return os.path.isdir("%s/module/%s" % (RUN, name.replace("-", "_")))


def secure_boot():
    return read(ETC + "/secure-boot").strip() == "on"


def permitted(name):
    """Raises where modprobe.d replaces loading by a command that fails."""
    if re.search(r"^\s*install\s+%s\s+\S*/false" % name, configuration(), re.M):
        raise Refused("ERROR: Error running install command '/bin/false' for module %s" % name)


def load(name):
    """What modprobe asks of the kernel."""
    name = name.replace("-", "_")
    if loaded(name):
        return
    kernel = release()
    if name in ("nvidia_modeset", "nvidia_drm", "nvidia_uvm"):
        load("nvidia")
        version = fields(module_file("nvidia", kernel))["version"]
        _show(name, version, "OE")
        if name == "nvidia_uvm":
            make_nodes(("nvidia-uvm", "nvidia-uvm-tools"))
        return
    path = module_file(name, kernel)
    if path is None:
        if name in ("nvidia", "nouveau"):
            raise Refused("FATAL: Module %s not found in directory %s/%s" % (name, MODULES, kernel))
        return
    if name == "nouveau":
        _show("nouveau", None, "")
        bind("nouveau", only_free=True)
        return
    info = fields(path)
    if info.get("vermagic", "").split(" ")[0] != kernel:
        log(
            "nvidia: version magic '%s' should be '%s SMP preempt mod_unload modversions '"
            % (info.get("vermagic"), kernel)
        )
        raise Refused("ERROR: could not insert 'nvidia': Exec format error")
    if secure_boot() and not info.get("signer"):
        log("Loading of module with unavailable key is rejected")
        raise Refused("ERROR: could not insert 'nvidia': Key was rejected by service")
    flavor = "open" if "GPL" in info.get("license", "") else "proprietary"
    if flavor == "proprietary" and any(row["device"] in OPEN_ONLY for row in gpus()):
        log(
            "NVRM: The NVIDIA GPU %s installed in this system requires use of the NVIDIA open kernel modules."
            % gpus()[0]["address"]
        )
        raise Refused("ERROR: could not insert 'nvidia': No such device")
    young = [
        row for row in gpus() if FIRST.get(row["device"], 0) > int(info["version"].split(".")[0])
    ]
    if young:
        log(
            "NVRM: The NVIDIA GPU %s (PCI ID: 10de:%s) installed in this system is not supported by the NVIDIA %s driver release."
            % (young[0]["address"], young[0]["device"], info["version"])
        )
        raise Refused("ERROR: could not insert 'nvidia': No such device")
    free = [row for row in gpus() if bound(row["address"]) in (None, "nvidia")]
    if not free:
        if gpus():
            log("NVRM: GPU %s is already bound to nouveau." % gpus()[0]["address"])
        log("NVRM: No NVIDIA devices probed.")
        raise Refused("ERROR: could not insert 'nvidia': No such device")
    _show("nvidia", info["version"], "OE" if flavor == "open" else "POE")
    bind("nvidia", only_free=True)
    _proc(info["version"], flavor)
    make_nodes(["nvidiactl"] + ["nvidia%d" % n for n, _ in enumerate(free)])
    log("nvidia: loading out-of-tree module taints kernel.")
    log(
        "NVRM: loading NVIDIA UNIX %sKernel Module  %s"
        % ("Open " if flavor == "open" else "x86_64 ", info["version"])
    )


def unload(name):
    """What rmmod asks of the kernel."""
    name = name.replace("-", "_")
    if not loaded(name):
        raise Refused("ERROR: Module %s is not currently loaded" % name)
    if name.startswith("nvidia") and users():
        raise Refused("ERROR: Module %s is in use" % name)
    if name == "nvidia":
        holders = [n for n in ("nvidia_uvm", "nvidia_drm", "nvidia_modeset") if loaded(n)]
        if holders:
            raise Refused("ERROR: Module nvidia is in use by: " + " ".join(holders))
    subprocess.run(["rm", "-rf", "%s/module/%s" % (RUN, name)], check=False)
    if name == "nvidia":
        subprocess.run(["rm", "-rf", RUN + "/driver/nvidia"], check=False)
        nodes = [n for n in os.listdir("/dev") if re.match(r"nvidia", n) and n != "nvidia-caps"]
        for node in nodes:
            os.unlink("/dev/" + node)
    if name in ("nvidia", "nouveau"):
        unbind(name)
    if name == "nvidia_uvm":
        for node in ("nvidia-uvm", "nvidia-uvm-tools"):
            if os.path.exists("/dev/" + node):
                os.unlink("/dev/" + node)
    tables()


def users():
    """GPU processes of the test's making, and the persistence daemon."""
    return [line for line in read(RUN + "/processes").splitlines() if line.strip()]


def _show(name, version, taint):
    base = "%s/module/%s" % (RUN, name)
    write(base + "/initstate", "live\n")
    write(base + "/refcnt", "0\n")
    write(base + "/taint", taint + "\n")
    if version:
        write(base + "/version", version + "\n")
    os.makedirs(base + "/holders", exist_ok=True)
    os.makedirs(base + "/parameters", exist_ok=True)
    tables()


def _proc(version, flavor):
    base = RUN + "/driver/nvidia"
    kind = "Open Kernel Module for x86_64" if flavor == "open" else "x86_64 Kernel Module"
    write(
        base + "/version",
        "NVRM version: NVIDIA UNIX %s  %s  Release Build  (builder@host)\nGCC version:  %s\n"
        % (kind, version, host()["compiler"]),
    )
    write(base + "/params", PARAMS)
    for number, row in enumerate(gpus()):
        lines = (
            "Model: \t\t %s\nIRQ:   \t\t 41\nGPU UUID: \t %s\nVideo BIOS: \t 96.00.a5.00.01\nBus Type: \t PCIe\n"
            "Bus Location: \t %s\nDevice Minor: \t %d\nGPU Firmware: \t %s\nGPU Excluded:\t No\n"
        )
        write(
            base + "/gpus/%s/information" % row["address"],
            lines % (row["name"], row["uuid"], row["address"], number, version),
        )


def make_nodes(names):
    for name in names:
        major, minor = NODES.get(name) or (195, int(name[6:]))
        path = "/dev/" + name
        if not os.path.exists(path):
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            os.chmod(path, 0o666)


def device(address):
    return "%s/devices/pci0000:16/0000:16:01.0/%s" % (RUN, address)


def bound(address):
    found = re.search(r"^DRIVER=(\S+)", read(device(address) + "/uevent"), re.M)
    return found.group(1) if found else None


def bind(driver, only_free):
    for row in gpus():
        if only_free and bound(row["address"]) is not None:
            continue
        show_device(row, driver)


def unbind(driver):
    for row in gpus():
        if bound(row["address"]) == driver:
            show_device(row, None)


def show_device(row, driver):
    base = device(row["address"])
    lines = ["DRIVER=" + driver] if driver else []
    kind = row.get("class", "030200")
    lines += [
        "PCI_CLASS=" + kind.lstrip("0").upper(),
        "PCI_ID=10DE:" + row["device"].upper(),
        "PCI_SUBSYS_ID=" + row["subsystem"].upper(),
    ]
    write(base + "/uevent", "\n".join([*lines, "PCI_SLOT_NAME=" + row["address"], ""]))
    for name, value in (
        ("vendor", "0x10de"),
        ("device", "0x" + row["device"]),
        ("class", "0x" + kind),
        ("numa_node", "0"),
        ("current_link_speed", "32.0 GT/s PCIe"),
        ("max_link_speed", "32.0 GT/s PCIe"),
        ("current_link_width", "16"),
        ("max_link_width", "16"),
    ):
        write("%s/%s" % (base, name), value + "\n")
    size = int(row["memory"])
    bar = 1 << (size - 1).bit_length()
    regions = [
        "0x%016x 0x%016x 0x%016x" % item
        for item in (
            (0xA0000000, 0xA0FFFFFF, 0x40200),
            (1 << 42, (1 << 42) + bar - 1, 0x14220C),
            (0, 0, 0),
            (0x1FFE000000, 0x1FFFFFFFFF, 0x14220C),
            (0, 0, 0),
            (0, 0, 0),
            (0, 0, 0),
        )
    ]
    write(base + "/resource", "\n".join(regions) + "\n")
    link = base + "/driver"
    if os.path.islink(link):
        os.unlink(link)
    if driver:
        os.makedirs("%s/drivers/%s" % (RUN, driver), exist_ok=True)
        os.symlink("%s/drivers/%s" % (RUN, driver), link)


def log(line):
    with open(RUN + "/dmesg", "a", encoding="utf-8") as handle:
        handle.write("[    4.000000] %s\n" % line)


def tables():
    """/proc/modules and /proc/devices, which follow from what is loaded."""
    names = sorted(os.listdir(RUN + "/module"))
    names = [name for name in names if os.path.exists("%s/module/%s/initstate" % (RUN, name))]
    write(
        RUN + "/modules", "".join("%s 65536 0 - Live 0x0000000000000000\n" % name for name in names)
    )
    rows = [(1, "mem"), (5, "/dev/tty"), (10, "misc")]
    if "nvidia" in names:
        rows += [(195, "nvidia"), (195, "nvidiactl"), (240, "nvidia-nvlink"), (241, "nvidia-caps")]
    if "nvidia_uvm" in names:
        rows.append((238, "nvidia-uvm"))
    lines = "".join("%3d %s\n" % row for row in sorted(rows))
    write(RUN + "/proc-devices", "Character devices:\n%s\nBlock devices:\n259 blkext\n" % lines)
