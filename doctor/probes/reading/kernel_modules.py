"""Modules on disk: nvidia.ko per kernel, DKMS' tree, modprobe.d and modules-load.d."""

import re
from typing import Any, Dict, List, Optional

from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.source import Source

MODULES = "/lib/modules"
SUFFIXES = (".ko", ".ko.zst", ".ko.xz", ".ko.gz")
_PLACES = (
    "updates/dkms",
    "updates",
    "extra",
    "extra/nvidia*",
    "extra/drivers/video/nvidia",
    "weak-updates",
    "weak-updates/nvidia*",
    "weak-updates/drivers/video/nvidia",
    "kernel/nvidia*",
    "kernel/drivers/video",
    "kernel/drivers/char/drm",
    "nvidia*",
)
"""Where DKMS, precompiled packages of Debian, Ubuntu and EL, and the run file put nvidia.ko, below /lib/modules/R."""
_CONF_DIRS = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
"""In order of precedence: a file of the same name in an earlier one replaces the later."""


def installed(src: Source) -> Fact:
    """Releases with a kernel's own modules; a folder that only holds left-over DKMS builds is none."""
    names = src.listdir(MODULES)
    if not names.ok:
        return names
    found = []
    for name in names.value:
        for mark in ("kernel", "modules.builtin"):
            fact = src.stat("%s/%s/%s" % (MODULES, name, mark))
            if fact.ok:
                found.append(name)
                break
            if fact.state == "unknown":
                return fact
    return known(found, MODULES)


def nvidia_files(src: Source, releases: List[str], read: List[str]) -> Fact:
    """Every nvidia.ko of the given releases; those of `read` are opened for version, flavour and signer."""
    found: List[Dict[str, Any]] = []
    for release in releases:
        path = module_path(src, release, "nvidia")
        info = module_info(src, release) if release in read else absent("")
        if path.state == "unknown":
            return path
        if path.ok or info.ok:
            row: Dict[str, Any] = {"kernel": release, "path": path.value}
            row.update({name: value for name, value in (info.value or {}).items() if value})
            found.append(row)
    return known(found, MODULES + "/*")


def module_path(src: Source, release: str, name: str) -> Fact:
    """Path of a module file of one kernel, as modprobe would prefer it: updates before extra before the kernel's own."""
    base = "%s/%s/" % (MODULES, release)
    if src.stat(base.rstrip("/")).state == "absent":
        return absent(base)
    for place in _PLACES:
        fact = src.glob(base + place + "/" + name + ".ko*")
        if not fact.ok:
            return fact
        for path in fact.value:
            if path.endswith(SUFFIXES) and src.exists(path).ok:
                return known(path, path)
    return absent(base)


def module_info(src: Source, release: str) -> Fact:
    """What modinfo reads of the nvidia module that modprobe would load into a kernel; it opens compressed files too."""
    if src.stat("%s/%s" % (MODULES, release)).state == "absent":
        return absent(MODULES + "/" + release)
    done = src.run(["modinfo", "-k", release, "nvidia"], ok=(0,))
    return done.map(lambda out: parse_modinfo(out.stdout))


def parse_modinfo(text: str) -> Dict[str, Optional[str]]:
    """Lines "version:        580.95.05"; the open modules say Dual MIT/GPL, the proprietary ones NVIDIA."""
    pairs = [
        line.partition(":") for line in text.splitlines() if ":" in line and line[:1].isalpha()
    ]
    fields = {name.strip(): value.strip() for name, _, value in reversed(pairs)}
    if "version" not in fields and "vermagic" not in fields:
        raise ValueError("modinfo names neither version nor vermagic")
    license_ = fields.get("license", "")
    flavor = "open" if "GPL" in license_ else ("proprietary" if license_ else None)
    return {
        "path": fields.get("filename"),
        "version": fields.get("version"),
        "flavor": flavor,
        "vermagic": fields.get("vermagic"),
        "signer": fields.get("signer"),
    }


def loaded(src: Source) -> Fact:
    """Names of loaded modules; where the kernel has no /proc/modules, the folders of /sys/module that have an initstate."""
    table = src.read("/proc/modules")
    if table.state != "absent":
        return table.map(
            lambda text: sorted(line.split()[0] for line in text.splitlines() if line.strip())
        )
    names = src.listdir("/sys/module")
    if not names.ok:
        return names
    return known(
        [name for name in names.value if src.stat("/sys/module/%s/initstate" % name).ok],
        "/sys/module",
    )


# DKMS -----------------------------------------------------------------------------------------------------------


def dkms(src: Source) -> Fact:
    """NVIDIA's entries as `dkms status` would print them, from its tree; Absent without DKMS."""
    root = "/var/lib/dkms"
    names = src.listdir(root)
    if not names.ok:
        return names
    found: List[Dict[str, Any]] = []
    for module in [name for name in names.value if name.startswith("nvidia")]:
        inside = src.listdir("%s/%s" % (root, module))
        if not inside.ok:
            return unknown(inside.reason or "gone", inside.via)
        installed_for = [name for name in inside.value if name.startswith("kernel-")]
        for version in [name for name in inside.value if name[:1].isdigit()]:
            rows = _dkms_version(src, "%s/%s" % (root, module), version, installed_for)
            if not rows.ok:
                return rows
            found += [dict(row, module=module, version=version) for row in rows.value]
    return known(found, root)


def _dkms_version(src: Source, base: str, version: str, links: List[str]) -> Fact:
    folder = "%s/%s" % (base, version)
    names = src.listdir(folder)
    if not names.ok:
        return unknown(names.reason or "gone", folder)
    if "source" not in names.value or src.exists(folder + "/source").state == "absent":
        return known([{"kernel": None, "state": "broken"}], folder)
    rows: List[Dict[str, Any]] = []
    for kernel in [name for name in names.value if name[:1].isdigit()]:
        state = "built"
        for link in links:
            target = src.stat("%s/%s" % (base, link))
            if target.ok and (target.value.get("target") or "").startswith(
                "%s/%s/" % (version, kernel)
            ):
                state = "installed"
        rows.append({"kernel": kernel, "state": state})
    return known(rows or [{"kernel": None, "state": "added"}], folder)


def dkms_log(src: Source) -> Fact:
    """Tail of the make.log that a failed build left; DKMS moves the log of a good one elsewhere."""
    logs = src.glob("/var/lib/dkms/nvidia*/*/build/make.log")
    if not logs.ok:
        return logs
    newest: List[Any] = []
    for path in logs.value:
        record = src.stat(path)
        newest.append((record.value.get("mtime") or 0 if record.ok else 0, path))
    if not newest:
        return absent("/var/lib/dkms/nvidia*/*/build/make.log")
    return src.read(max(newest)[1]).map(lambda text: tail_of_log(text))


def tail_of_log(text: str) -> str:
    """The first line, which names the kernel, and the last lines that say why."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:1] + lines[1:][-25:])[:4000]


# configuration of modprobe --------------------------------------------------------------------------------------


def conf_files(src: Source, folder: str) -> Fact:
    """[(path, text)] of *.conf in a configuration folder of all places, the first of a name winning."""
    found: Dict[str, Any] = {}
    for place in _CONF_DIRS:
        names = src.glob("%s/%s/*.conf" % (place, folder))
        if not names.ok:
            return names
        for path in names.value:
            name = path.rpartition("/")[2]
            if name in found:
                continue
            text = src.read(path)
            if text.state == "unknown":
                return text
            if text.ok:
                found[name] = (path, text.value)
    return known([found[name] for name in sorted(found)], folder)


def parse_blacklist(text: str) -> List[str]:
    """Modules that modprobe.d keeps from loading: blacklist, or install with a command that does nothing."""
    found = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) == 2 and words[0] == "blacklist":
            found.append(words[1].replace("-", "_"))
        if (
            len(words) >= 3
            and words[0] == "install"
            and words[2].rpartition("/")[2] in ("false", "true")
        ):
            found.append(words[1].replace("-", "_"))
    return found


def blacklist_of_cmdline(text: str) -> List[str]:
    """modprobe.blacklist=, rd.driver.blacklist=, module_blacklist= and nouveau.modeset=0's like."""
    found = []
    for word in text.split():
        name, _, value = word.partition("=")
        if name in ("modprobe.blacklist", "rd.driver.blacklist", "module_blacklist", "rdblacklist"):
            found += [item.replace("-", "_") for item in value.split(",") if item]
    return found


def parse_options(text: str) -> Dict[str, str]:
    """options lines of NVIDIA's modules and nouveau."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) > 2 and words[0] == "options" and re.match(r"nvidia|nouveau|nova", words[1]):
            name = words[1].replace("-", "_")
            found[name] = (found.get(name, "") + " " + " ".join(words[2:])).strip()
    return found
