"""Resource limits: of the judged scope, of systemd's defaults and of the running dockerd. Each is its own observation."""

from typing import Any, Dict, List, Optional

from doctor.probes.areas.container import daemon_file, daemon_settings, dockerd_pid, snap_docker
from doctor.probes.areas.host import IN_CONTAINER, in_container
from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.pattern import regex
from doctor.probes.reading import docker_api
from doctor.probes.reading.rlimits import parse_limits
from doctor.probes.source import Source

NAMES = ("memlock", "stack", "nofile", "nproc")
UNLIMITED = 2**63
"""RLIM_INFINITY and what is as good as that: larger values are written as -1."""

_CONF_LINE = regex(r"^\s*[^\s#]\S*\s+(?:soft|hard|-)\s+(?:memlock|stack|nofile|nproc)\s+\S+")


def probe(src: Source) -> Dict[str, Fact]:
    """All fields of LimitFacts."""
    inside = in_container(src)
    socket = docker_api.socket_path(src, docker_api.endpoint(src))
    if inside:
        host: Dict[str, Fact] = {
            name: not_applicable(IN_CONTAINER)
            for name in ("systemd", "dockerd", "docker_defaults", "limits_conf")
        }
    else:
        host = {
            "systemd": _systemd(src),
            "dockerd": _dockerd(src, socket),
            "docker_defaults": _docker_defaults(src, socket),
            "limits_conf": _limits_conf(src),
        }
    return dict(host, scope=_scope(src))


def _scope(src: Source) -> Fact:
    process = src.process()

    def pick(value: Dict[str, Any]) -> Any:
        if value.get("error"):
            return unknown(str(value["error"]), "process")
        if not value.get("rlimits"):
            return unknown("the limits of the scope were not seen", "process")
        return {name: pair(value["rlimits"].get(name)) for name in NAMES}

    return process.map(pick, "limits of the %s" % (process.value or {}).get("scope", "shell"))


def pair(values: Optional[List[Any]]) -> Optional[List[int]]:
    """[soft, hard] with -1 for unlimited; None for what was not said."""
    if not values:
        return None
    return [-1 if int(item) < 0 or int(item) >= UNLIMITED - 1 else int(item) for item in values[:2]]


def _systemd(src: Source) -> Fact:
    """DefaultLimit* of the running manager: the files may have changed since it read them."""
    if src.stat("/run/systemd/system").state == "absent":
        return absent("/run/systemd/system")
    properties = [
        "DefaultLimit%s%s" % (name.upper(), kind) for name in NAMES for kind in ("", "Soft")
    ]
    shown = src.run(["systemctl", "show", "--property=" + ",".join(properties)])
    return shown.map(lambda done: systemd_limits(done.stdout))


def systemd_limits(text: str) -> Any:
    """Lines of `systemctl show` -> limits."""
    rows = dict(line.strip().partition("=")[::2] for line in text.splitlines() if "=" in line)
    found: Dict[str, Any] = {}
    for name in NAMES:
        key = "DefaultLimit" + name.upper()
        hard, soft = rows.get(key), rows.get(key + "Soft")
        if hard and soft:
            found[name] = pair([_number(soft), _number(hard)])
    return found if found else unknown("systemd did not say its default limits")


def _number(text: str) -> int:
    return -1 if text in ("infinity", "unlimited") else int(text)


def _dockerd(src: Source, socket: str) -> Fact:
    pid = dockerd_pid(src, socket, snap_docker(src))
    if not pid.ok:
        return pid
    return src.read("/proc/%d/limits" % pid.value).map(process_limits)


def process_limits(text: str) -> Any:
    """/proc/PID/limits -> limits."""
    found: Dict[str, Any] = {name: pair(value) for name, value in parse_limits(text).items()}
    return found if found else unknown("no limits in the file")


def _docker_defaults(src: Source, socket: str) -> Fact:
    settings = daemon_file(src, socket, snap_docker(src)).map(daemon_settings)
    return settings.map(default_ulimits)


def default_ulimits(settings: Dict[str, Any]) -> Any:
    """default-ulimits of daemon.json -> limits; Absent when the file names none."""
    given = settings.get("default-ulimits") or {}
    found = {
        name: pair([given[name]["Soft"], given[name]["Hard"]]) for name in NAMES if name in given
    }
    return found if found else absent("")


def _limits_conf(src: Source) -> Fact:
    paths = src.glob("/etc/security/limits.d/*.conf")
    if not paths.ok:
        return paths
    lines: List[str] = []
    for path in ["/etc/security/limits.conf", *paths.value]:
        text = src.read(path)
        if text.state == "unknown":
            return text
        if text.ok:
            lines += conf_lines(text.value)
    return known(lines, "/etc/security/limits.conf /etc/security/limits.d")


def conf_lines(text: str) -> List[str]:
    """Active lines about the four limits, spaces squeezed."""
    return [
        " ".join(line.partition("#")[0].split())
        for line in text.splitlines()
        if _CONF_LINE.match(line)
    ]
