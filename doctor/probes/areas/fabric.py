"""NVSwitch fabric services, persistence, DCGM and the units of inference engines."""

import posixpath
import re
from typing import Any, Dict, List, Optional, Tuple

from doctor.probes.areas.host import IN_CONTAINER, container_of
from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.pattern import regex
from doctor.probes.source import Source

SERVICES = (
    "nvidia-fabricmanager.service",
    "nvidia-persistenced.service",
    "nvidia-imex.service",
    "nvidia-dcgm.service",
    "dcgm.service",
)
PROPERTIES = (
    "Id,LoadState,ActiveState,UnitFileState,Result,Restart,After,Wants,Requires,"
    "ActiveEnterTimestampMonotonic"
)
"""One call shows all units; the argument is fixed, so that a recording answers a newer doctor
too.
"""

UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
ENGINES = (
    ("vllm", regex(r"\bvllm\b|vllm[-_]openai", re.IGNORECASE)),
    ("tensorrt-llm", regex(r"\btrtllm|tensorrt[-_]?llm", re.IGNORECASE)),
    ("triton", regex(r"\btritonserver\b", re.IGNORECASE)),
    ("ollama", regex(r"\bollama\b", re.IGNORECASE)),
    ("sglang", regex(r"\bsglang\b", re.IGNORECASE)),
    ("tgi", regex(r"text-generation-(launcher|inference)", re.IGNORECASE)),
    ("llama.cpp", regex(r"\bllama-server\b", re.IGNORECASE)),
)
"""Programs and images by which a unit is known to start an engine."""

VERSION = regex(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b")
MASK = "/dev/null"
"""Where `systemctl mask` leads a unit's name: it starts nothing, whatever a packaged unit of that name says."""
LOG = "/var/log/fabricmanager.log"
LOG_LINES = 20


def probe(src: Source) -> Dict[str, Fact]:
    """-> manager_version, manager, manager_log, nvlsm_version, imex_version, imex, persistenced,
    dcgm, engines.
    """
    container = container_of(src)
    if not container.ok or container.value != "none":
        names = (
            "manager_version manager manager_log nvlsm_version imex_version imex "
            "persistenced dcgm engines"
        )
        outside = not_applicable(IN_CONTAINER) if container.ok else container
        return dict.fromkeys(names.split(), outside)
    units = show(src, SERVICES)
    dcgm = _unit(units, "nvidia-dcgm.service")
    return {
        "manager_version": version_of(src, "/usr/bin/nv-fabricmanager"),
        "manager": _unit(units, "nvidia-fabricmanager.service"),
        "manager_log": src.read(LOG).map(lambda text: text.splitlines()[-LOG_LINES:]),
        "nvlsm_version": nvlsm_version(src),
        "imex_version": version_of(src, "/usr/bin/nvidia-imex"),
        "imex": _unit(units, "nvidia-imex.service"),
        "persistenced": _unit(units, "nvidia-persistenced.service"),
        "dcgm": dcgm if dcgm.state != "absent" else _unit(units, "dcgm.service"),
        "engines": engines(src),
    }


# units


def show(src: Source, names: Tuple[str, ...]) -> Fact:
    """Known({unit: properties}) of `systemctl show`; Absent where systemd does not run."""
    running = src.stat("/run/systemd/system")
    if not running.ok:
        return running
    shown = src.run(["systemctl", "show", "--no-pager", "-p", PROPERTIES] + list(names))
    if shown.state == "absent":
        return unknown("systemd runs but there is no systemctl", shown.via)
    return shown.map(lambda done: parse_show(done.stdout), "systemctl show")


def parse_show(text: str) -> Dict[str, Dict[str, str]]:
    """Blocks of Name=value lines, one block a unit -> {Id: {name: value}}."""
    found: Dict[str, Dict[str, str]] = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        pairs = {}
        for line in block.splitlines():
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError("not a property of a unit: %s" % line[:60])
            pairs[name.strip()] = value.strip()
        if "Id" not in pairs or "LoadState" not in pairs:
            raise ValueError("a unit without Id or LoadState")
        found[pairs["Id"]] = pairs
    return found


def _unit(units: Fact, name: str) -> Fact:
    def pick(shown: Dict[str, Dict[str, str]]) -> Any:
        if name not in shown:
            return unknown("systemctl said nothing of %s" % name, "systemctl show " + name)
        if shown[name]["LoadState"] == "not-found":
            return absent("systemctl show " + name)
        return unit_of(shown[name])

    return units.map(pick, "systemctl show " + name)


def unit_of(properties: Dict[str, str], engine: Optional[str] = None) -> Dict[str, Any]:
    """Properties of one unit -> the record of doctor.facts.areas.fabric.Unit."""
    entered = properties.get("ActiveEnterTimestampMonotonic", "")
    wants = properties.get("Wants", "").split() + properties.get("Requires", "").split()
    return {
        "name": properties["Id"],
        "load": properties["LoadState"],
        "active": properties["ActiveState"],
        "enabled": properties.get("UnitFileState") or None,
        "after": sorted(properties.get("After", "").split()),
        "wants": sorted(set(wants)),
        "since": int(entered) // 1000000 if entered.isdigit() and entered != "0" else None,
        "result": properties.get("Result") or None,
        "restart": properties.get("Restart") or None,
        "engine": engine,
    }


# engines


def engine_files(src: Source) -> Fact:
    """Known({unit: (engine, ExecStart lines)}) of unit files that start an inference engine.

    The administrator's units are read; of the packaged ones only those whose name says so.
    """
    found: Dict[str, Tuple[str, List[str]]] = {}
    for folder in reversed(UNIT_FOLDERS):
        names = src.listdir(folder)
        if names.state == "absent":
            continue
        if not names.ok:
            return names
        for name in names.value:
            if not name.endswith(".service"):
                continue
            if folder != UNIT_FOLDERS[0] and engine_of(name[:-8]) is None:
                continue
            path = posixpath.join(folder, name)
            link = src.stat(path)
            if link.ok and link.value.get("target") == MASK:
                found.pop(name, None)
                continue
            text = src.read(path)
            if text.state == "absent":
                continue
            if not text.ok:
                return text
            lines = exec_lines(text.value)
            engine = engine_of("\n".join(lines))
            if engine:
                found[name] = (engine, lines)
    return known(found, UNIT_FOLDERS[0])


def exec_lines(text: str) -> List[str]:
    """The ExecStart= values of a unit file, continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [
        line.partition("=")[2].strip().lstrip("-@:+!")
        for line in joined.splitlines()
        if line.strip().startswith("ExecStart=")
    ]


def engine_of(text: str) -> Optional[str]:
    """The engine that a command or a unit name speaks of, or None."""
    for name, pattern in ENGINES:
        if pattern.search(text):
            return name
    return None


def engines(src: Source) -> Fact:
    """-> the units that start an engine; Known([]) when there is none."""
    files = engine_files(src)
    if not files.ok:
        return files
    running = src.stat("/run/systemd/system")
    if not running.ok:
        return running
    names = tuple(sorted(name for name in files.value if "@." not in name))
    if not names:
        return known([], files.via)
    units = show(src, names)

    def pick(shown: Dict[str, Dict[str, str]]) -> List[Dict[str, Any]]:
        return [
            unit_of(shown[name], files.value[name][0])
            for name in names
            if name in shown and shown[name]["LoadState"] != "not-found"
        ]

    return units.map(pick)


# versions


def version_of(src: Source, program: str) -> Fact:
    """What `PROGRAM --version` says, for example 580.95.05; Absent when the program is not
    installed.
    """
    there = src.stat(program)
    if not there.ok:
        return there
    return src.run([program, "--version"]).map(lambda done: parse_version(done.stdout))


def parse_version(text: str) -> str:
    """`Fabric Manager version is : 580.95.05` -> 580.95.05."""
    found = VERSION.search(text)
    if not found:
        raise ValueError("no version in: %s" % text.strip()[:80])
    return found.group(1)


def nvlsm_version(src: Source) -> Fact:
    """Version of the package nvlsm, asked only where the program is; "installed" where no
    package says one.
    """
    program = "/opt/nvidia/nvlsm/sbin/nvlsm"
    there = src.stat(program)
    if not there.ok:
        return there
    for argv in (
        ["dpkg-query", "-W", "-f=${Version}", "nvlsm"],
        ["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}", "nvlsm"],
    ):
        said = src.run(argv)
        if said.ok and said.value.stdout.strip():
            return known(said.value.stdout.strip(), said.via)
    return known("installed", program)
