"""Which NCCL a program gets, which copies there are, and what steers it. No library is loaded."""

import posixpath
import re
from typing import Any, Dict, List, Optional

from doctor.probes.areas import python_env
from doctor.probes.areas.host import IN_CONTAINER, container_of
from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.reading import elf, wheel
from doctor.probes.source import Source

SONAME = "libnccl.so.2"
HOMES = ("NCCL_HOME", "NCCL_ROOT", "NCCL_ROOT_DIR")
FILES = ("VLLM_NCCL_SO_PATH", "LD_PRELOAD")
SYS_NICE = 23
"""Bit of CAP_SYS_NICE in CapEff."""


def probe(src: Source) -> Dict[str, Fact]:
    """-> system, loader, named, wheels, environment, conf, vmm_sysnice, remove_ipc."""
    loader = elf.Loader(src)
    configured = found_copy(src, loader, with_environment=False)
    return {
        "system": configured.map(lambda copy: copy["version"] or unknown("no version in its name")),
        "loader": found_copy(src, loader, with_environment=True),
        "named": named_copies(src),
        "wheels": wheels(src),
        "environment": environment(src),
        "conf": conf(src),
        "vmm_sysnice": numa_calls(src),
        "remove_ipc": remove_ipc(src),
    }


# copies


def copy_at(src: Source, path: str, why: str) -> Fact:
    """-> {"path", "version", "why"} of a libnccl; the version is in the real file's name, else
    in nccl.h beside it.
    """
    real = src.realpath(path)
    if not real.ok:
        return Fact(real.state, None, real.reason, path)
    version = version_in_name(real.value)
    if version is None:
        header = posixpath.dirname(posixpath.dirname(real.value)) + "/include/nccl.h"
        said = src.read(header).map(wheel.parse_nccl_header)
        version = said.value if said.ok else None
    return known({"path": path, "version": version, "why": why}, path)


def version_in_name(path: str) -> Optional[str]:
    """/usr/lib64/libnccl.so.2.28.3 -> 2.28.3."""
    found = re.search(r"libnccl\.so\.(\d+\.\d+\.\d+)$", path)
    return found.group(1) if found else None


def found_copy(src: Source, loader: elf.Loader, with_environment: bool) -> Fact:
    """The copy that the loader gives a program without a path of its own."""
    found = loader.resolve(SONAME, with_environment)
    return copy_at(src, found.value["path"], found.value["why"]) if found.ok else found


def named_copies(src: Source) -> Fact:
    """Copies that variables of the scope name; a name without a file is left out."""
    found: List[Dict[str, Any]] = []
    for name in HOMES + FILES:
        value = src.env(name)
        if value.state == "unknown":
            return value
        if not value.ok:
            continue
        paths = (
            [
                "%s/%s/%s" % (value.value.rstrip("/"), lib, SONAME)
                for lib in ("lib", "lib64", "build/lib")
            ]
            if name in HOMES
            else [part for part in re.split(r"[\s:]+", value.value) if "libnccl.so" in part]
        )
        for path in paths:
            copy = copy_at(src, path, "$" + name) if path.startswith("/") else absent(path)
            if copy.ok:
                found.append(copy.value)
                break
            if copy.state != "absent":
                return copy
    return known(found, "$NCCL_HOME and others")


def wheels(src: Source) -> Fact:
    """-> {path of a bundled libnccl: version}; a copy whose version nothing says is Unknown as a
    whole.
    """
    found: Dict[str, str] = {}
    places, unread = python_env.sites(src)
    hidden = sorted(place for place in unread if place.startswith("/"))
    if hidden and not places:
        return unknown("could not be listed", hidden[0])
    for site in places:
        path = python_env.bundled(src, site).get(SONAME)
        if path is None:
            for folder in (site.folder + "/nvidia", site.folder + "/nvidia/nccl/lib"):
                listed = src.listdir(folder)
                if listed.state == "unknown":
                    return unknown(listed.reason, folder)
            continue
        names = src.listdir(site.folder)
        packages = {
            name: version
            for name, (version, _) in wheel.distributions(names.value if names.ok else []).items()
        }
        version = python_env.nccl_version(src, path, packages)
        if version is None:
            return unknown("no wheel metadata says its version", path)
        found[path] = version
    return known(found, "nvidia-nccl-cu* wheels")


# environment


def environment(src: Source) -> Fact:
    """NCCL_* variables of the scope; Unknown under sudo, which drops them."""
    process = src.process().value
    if process.get("error"):
        return unknown(str(process["error"]), "$NCCL_*")
    if process.get("sudo") and process.get("scope", "shell") == "shell":
        return unknown("sudo resets the caller's environment (host.sudo-environment)", "$NCCL_*")
    env = process.get("env", {})
    return known({name: env[name] for name in sorted(env) if name.startswith("NCCL_")}, "$NCCL_*")


def conf(src: Source) -> Fact:
    """Variables of /etc/nccl.conf, then of ~/.nccl.conf; Absent when there is neither."""
    home = src.env("HOME")
    paths = ["/etc/nccl.conf"]
    if home.ok and home.value.startswith("/"):
        paths.append(posixpath.join(home.value, ".nccl.conf"))
    merged: Dict[str, str] = {}
    seen = []
    for path in paths:
        parsed = src.read(path).map(parse_conf)
        if parsed.state == "absent":
            continue
        if not parsed.ok:
            return parsed
        merged.update(parsed.value)
        seen.append(path)
    return known(merged, ", ".join(seen)) if seen else absent("/etc/nccl.conf")


def parse_conf(text: str) -> Dict[str, str]:
    """NAME=value lines; `#` starts a comment. A line that is neither is a ValueError."""
    found = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip()):
            raise ValueError("not NAME=value: %s" % line[:60])
        found[name.strip()] = value.strip()
    return found


def numa_calls(src: Source) -> Fact:
    """Whether the judged scope may make NUMA calls; a service without a known process was not
    looked at.
    """
    scope = str(src.process().value.get("scope", "shell"))
    if scope.startswith("service:"):
        return unknown("only a shell or a process shows it", scope)
    pid = scope.partition(":")[2] if scope.startswith("pid:") else "self"
    return src.read("/proc/%s/status" % pid).map(parse_numa_calls)


def parse_numa_calls(text: str) -> bool:
    """/proc/PID/status -> whether NUMA calls are open: no seccomp filter, or CAP_SYS_NICE in
    CapEff.
    """
    fields = dict(re.findall(r"^(Seccomp|CapEff):\s*(\S+)", text, re.MULTILINE))
    if fields.get("Seccomp") in ("0", "1"):
        return True
    return bool(int(fields["CapEff"], 16) >> SYS_NICE & 1)


def remove_ipc(src: Source) -> Fact:
    """RemoveIPC of logind: the last active line wins; without one, the default that the shipped
    file comments.
    """
    container = container_of(src)
    if not container.ok or container.value != "none":
        return not_applicable(IN_CONTAINER) if container.ok else container
    running = src.stat("/run/systemd/system")
    if running.state == "absent":
        return not_applicable("systemd does not run here")
    mains = [
        src.read(path) for path in ("/etc/systemd/logind.conf", "/usr/lib/systemd/logind.conf")
    ]
    drops: List[str] = []
    for folder in (
        "/usr/lib/systemd/logind.conf.d",
        "/run/systemd/logind.conf.d",
        "/etc/systemd/logind.conf.d",
    ):
        paths = src.glob(folder + "/*.conf")
        if not paths.ok:
            return paths
        drops += paths.value
    texts = []
    for fact in mains[::-1] + [src.read(path) for path in sorted(drops, key=posixpath.basename)]:
        if fact.state == "unknown":
            return fact
        texts += [fact.value] if fact.ok else []
    said = [
        value
        for text in texts
        for value in re.findall(r"^\s*RemoveIPC\s*=\s*(\w+)", text, re.MULTILINE)
    ]
    said = said or [
        value
        for text in texts
        for value in re.findall(r"^\s*#\s*RemoveIPC\s*=\s*(\w+)", text, re.MULTILINE)
    ]
    if not said:
        return unknown("no file says it, and builds of systemd differ", "/etc/systemd/logind.conf")
    return known(said[-1].lower() in ("yes", "true", "on", "1"), "logind.conf")
