"""`docker run` lines and compose services as one record: what the container gets of the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from doctor.errors import UsageError

SWITCHES = frozenset(
    [
        "-d",
        "--detach",
        "-i",
        "--interactive",
        "-t",
        "--tty",
        "--rm",
        "--privileged",
        "--init",
        "--read-only",
        "--no-healthcheck",
        "--oom-kill-disable",
        "-P",
        "--publish-all",
        "--disable-content-trust",
        "-q",
        "--quiet",
        "--sig-proxy",
        "--use-api-socket",
        "--replace",
        "--tls-verify",
    ]
)
"""Options of docker and podman run that take no value; every other takes one."""

SHORT = {
    "-e": "--env",
    "-p": "--publish",
    "-v": "--volume",
    "-u": "--user",
    "-w": "--workdir",
    "-h": "--hostname",
    "-m": "--memory",
    "-l": "--label",
    "-c": "--cpu-shares",
    "-a": "--attach",
}
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container that is about to be run. Sizes in bytes; -1 in limits is unlimited."""

    name: str
    image: str
    args: tuple[str, ...] = ()
    gpus: bool = False
    shm: int | None = None
    ipc: str | None = None
    ulimits: dict[str, int] = {}
    ports: tuple[int, ...] = ()
    """Of the host."""
    host_network: bool = False
    env: dict[str, str] = {}
    privileged: bool = False
    capabilities_added: tuple[str, ...] = ()
    capabilities_dropped: tuple[str, ...] = ()
    no_new_privileges: bool = False
    mounts: tuple[str, ...] = ()
    """Host paths."""
    entrypoint: str | None = None


def size(text: str) -> int | None:
    """Bytes of 1g, 64m, 16GB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?", text.strip().lower())
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def parse_run(words: Sequence[str], start: int) -> Container:
    """The words after `docker run`, from `start`. UsageError when there is no image."""
    options: dict[str, list[str]] = {}
    position = start
    while position < len(words) and words[position].startswith("-"):
        name, equals, value = words[position].partition("=")
        position += 1
        if re.fullmatch(r"-[a-z]{2,}", name) and all(
            f"-{letter}" in SWITCHES for letter in name[1:]
        ):
            continue
        if len(name) > 2 and not name.startswith("--"):
            name, equals, value = name[:2], "=", name[2:] + equals + value
        name = SHORT.get(name, name)
        if name in SWITCHES:
            options.setdefault(name, []).append(value if equals else "true")
            continue
        if not equals:
            if position >= len(words):
                raise UsageError(
                    f"--want launch: {name} names no value", "write the whole docker run line"
                )
            value = words[position]
            position += 1
        options.setdefault(name, []).append(value)
    if position >= len(words):
        raise UsageError(
            "--want launch: the docker run line names no image",
            "write docker run OPTIONS IMAGE COMMAND",
        )
    return _container(words[position], tuple(words[position + 1 :]), options)


def _container(image: str, args: tuple[str, ...], options: dict[str, list[str]]) -> Container:
    def last(name: str) -> str | None:
        return options[name][-1] if name in options else None

    env = _environment([item for name in ("--env",) for item in options.get(name, [])])
    network = last("--network") or last("--net")
    security = options.get("--security-opt", [])
    return Container(
        name=last("--name") or image,
        image=image,
        args=args,
        gpus="--gpus" in options
        or any("nvidia" in item for item in options.get("--device", []))
        or (
            last("--runtime") == "nvidia"
            and env.get("NVIDIA_VISIBLE_DEVICES", "all") not in ("", "void", "none")
        ),
        shm=size(last("--shm-size") or ""),
        ipc=last("--ipc"),
        ulimits=_ulimits(options.get("--ulimit", [])),
        ports=tuple(port for item in options.get("--publish", []) for port in _host_port(item)),
        host_network=network == "host",
        env=env,
        privileged=last("--privileged") in ("true", ""),
        capabilities_added=tuple(options.get("--cap-add", [])),
        capabilities_dropped=tuple(options.get("--cap-drop", [])),
        no_new_privileges=any(
            item.startswith("no-new-privileges") and "false" not in item for item in security
        ),
        mounts=tuple(item.split(":")[0] for item in options.get("--volume", []))
        + _binds(options.get("--mount", [])),
        entrypoint=last("--entrypoint"),
    )


def _environment(items: Sequence[str]) -> dict[str, str]:
    found = {}
    for item in items:
        name, _, value = item.partition("=")
        found[name] = (
            "(set)"
            if any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSWORD"))
            else value
        )
    return found


def _ulimits(items: Sequence[str]) -> dict[str, int]:
    found = {}
    for item in items:
        name, _, value = item.partition("=")
        soft = value.partition(":")[0]
        if re.fullmatch(r"-?\d+", soft):
            found[name] = int(soft)
        elif soft == "unlimited":
            found[name] = -1
    return found


def _host_port(item: str) -> list[int]:
    parts = item.partition("/")[0].split(":")
    host = parts[-2] if len(parts) > 1 else ""
    return [int(host)] if host.isdigit() and 0 < int(host) < 65536 else []


def _binds(items: Sequence[str]) -> tuple[str, ...]:
    found = []
    for item in items:
        fields = dict(part.partition("=")[::2] for part in item.split(","))
        source = fields.get("source") or fields.get("src")
        if source:
            found.append(source)
    return tuple(found)


def parse_service(name: str, service: dict[str, Any]) -> Container | None:
    """One service of a compose file, or None where it has no image to judge."""
    image = service.get("image")
    if not isinstance(image, str):
        return None
    env = service.get("environment")
    pairs = (
        [f"{key}={value}" for key, value in env.items()] if isinstance(env, dict) else _words(env)
    )
    limits = service.get("ulimits") if isinstance(service.get("ulimits"), dict) else {}
    security = _words(service.get("security_opt"))
    environment = _environment(pairs)
    shm = service.get("shm_size")
    return Container(
        name=name,
        image=image,
        args=tuple(_words(service.get("command"))),
        gpus=_compose_gpus(service)
        or (
            service.get("runtime") == "nvidia"
            and environment.get("NVIDIA_VISIBLE_DEVICES", "all") not in ("", "void", "none")
        ),
        shm=shm if isinstance(shm, int) else size(str(shm or "")),
        ipc=str(service["ipc"]) if "ipc" in service else None,
        ulimits={str(key): _limit(value) for key, value in (limits or {}).items()},
        ports=tuple(port for item in service.get("ports") or [] for port in _compose_port(item)),
        host_network=service.get("network_mode") == "host",
        env=environment,
        privileged=service.get("privileged") is True,
        capabilities_added=tuple(_words(service.get("cap_add"))),
        capabilities_dropped=tuple(_words(service.get("cap_drop"))),
        no_new_privileges=any(
            item.startswith("no-new-privileges") and "false" not in item for item in security
        ),
        mounts=tuple(_compose_mount(item) for item in service.get("volumes") or []),
        entrypoint=" ".join(_words(service.get("entrypoint"))) or None,
    )


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        import shlex

        try:
            return shlex.split(value)
        except ValueError:
            return value.split()
    return [str(item) for item in value] if isinstance(value, list) else []


def _limit(value: Any) -> int:
    soft = value.get("soft") if isinstance(value, dict) else value
    return soft if isinstance(soft, int) else -1


def _compose_gpus(service: dict[str, Any]) -> bool:
    if service.get("gpus"):
        return True
    place: Any = service
    for key in ("deploy", "resources", "reservations", "devices"):
        place = place.get(key) if isinstance(place, dict) else None
    devices = place if isinstance(place, list) else []
    return any(
        isinstance(item, dict)
        and (item.get("driver") in ("nvidia", "cdi") or "gpu" in str(item.get("capabilities")))
        for item in devices
    ) or any("nvidia" in item for item in _words(service.get("devices")))


def _compose_port(item: Any) -> list[int]:
    if isinstance(item, dict):
        published = str(item.get("published", ""))
        return [int(published)] if published.isdigit() and 0 < int(published) < 65536 else []
    return _host_port(str(item))


def _compose_mount(item: Any) -> str:
    return str(item.get("source", "")) if isinstance(item, dict) else str(item).split(":")[0]
