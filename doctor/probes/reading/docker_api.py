"""Asks Docker over a local socket, with GET only. Starts nothing; an endpoint elsewhere is a fact, not a place to look."""

import functools
import json
import re
from typing import Any, Dict, List, Optional, Tuple

from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.pattern import regex
from doctor.probes.source import Source

SOCKET = "/var/run/docker.sock"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - this is what is looked for
MAX_CONTAINERS = 32
MAX_IMAGES = 24
REFUSED = "the socket is there but nothing listens"
DENIED = "permission denied"
ASLEEP = "docker.socket is there but dockerd does not run; asking would start it"
_WANTED_SOCKET = (
    "/etc/systemd/system/sockets.target.wants/docker.socket",
    "/etc/systemd/system/multi-user.target.wants/docker.socket",
)

_LOCAL_SOCKET = regex(
    r"^unix://(/(?:var/)?run/docker\.sock|/run/user/\d+/docker\.sock|/.+/\.docker/(?:run|desktop)/docker\.sock)$"
)
_ENV_PREFIXES = ("NVIDIA_REQUIRE_", "NCCL_", "CUDA_", "VLLM_", "TORCH_", "OMP_")
_ENV_NAMES = frozenset(
    {
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_DISABLE_REQUIRE",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "HF_HOME",
        "HF_HUB_OFFLINE",
        "NV_CUDA_CUDART_VERSION",
        "TENSORRT_VERSION",
        "TRT_LLM_VER",
        "TRT_LLM_VERSION",
        "API_KEY",
        "OPENAI_API_KEY",
    }
)
_SECRET = regex(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_OPTION = regex(r"^--?[a-z0-9-]*(?:key|token|secret|password)[a-z0-9-]*$", re.IGNORECASE)
_SECRET_IN_LINE = regex(
    r"(?P<option>--?[a-z0-9-]*(?:key|token|secret|password)[a-z0-9-]*)(?P<gap>[=\s]+)(?!-)\S+",
    re.IGNORECASE,
)
_NVIDIA_IMAGE = regex(
    r"nvidia|nvcr\.io|cuda|vllm|tensorrt|triton|sglang|text-generation-inference|pytorch|tensorflow|ollama|nim/"
)


def endpoint(src: Source) -> Fact:
    """DOCKER_HOST or the current context's endpoint; Absent when neither says anything."""
    host = src.env("DOCKER_HOST")
    if host.state == "unknown" or (host.ok and host.value):
        return host
    context = src.env("DOCKER_CONTEXT")
    if context.ok and context.value == "default":
        return absent("$DOCKER_CONTEXT")
    home = src.env("HOME")
    if not home.ok:
        return home if home.state == "unknown" else absent("$DOCKER_HOST")
    folder = home.value.rstrip("/") + "/.docker"
    if not context.ok:
        context = src.read(folder + "/config.json").map(_current_context)
    if not context.ok:
        return Fact(context.state, None, context.reason, context.via)
    import hashlib

    name = hashlib.sha256(context.value.encode("utf-8")).hexdigest()
    return src.read("%s/contexts/meta/%s/meta.json" % (folder, name)).map(_context_host)


def _current_context(text: str) -> Any:
    name = json.loads(text).get("currentContext") or "default"
    return absent("") if name == "default" else str(name)


def _context_host(text: str) -> Any:
    host = json.loads(text)["Endpoints"]["docker"].get("Host")
    return str(host) if host else absent("")


def socket_path(src: Source, where: Fact) -> str:
    """The local socket that the caller's docker command would use; the system's when that is elsewhere."""
    if where.ok:
        match = _LOCAL_SOCKET.match(where.value)
        if match:
            path = match.group(1)
            return SOCKET if path == "/run/docker.sock" else path
        return SOCKET
    if src.stat(SOCKET).state != "absent":
        return SOCKET
    rootless = src.glob("/run/user/*/docker.sock")
    return rootless.value[0] if rootless.ok and rootless.value else SOCKET


def get(src: Source, path: str, target: str) -> Fact:
    """One answer of the daemon behind the socket; Absent when none runs. A sleeping one is not asked: that would start it."""
    if asleep(src, path):
        return absent(ASLEEP)
    answer = src.http(path, target)
    return absent(REFUSED) if answer.reason == REFUSED else answer


def asleep(src: Source, path: str) -> bool:
    """Whether systemd holds the socket for a dockerd that does not run: a connection would start it."""
    if path != SOCKET or src.stat("/run/systemd/system").state == "absent":
        return False
    if not any(src.stat(place).ok for place in _WANTED_SOCKET):
        return False
    pid = src.read("/var/run/docker.pid").map(lambda text: int(text.strip()))
    if pid.state == "unknown":
        return False
    if not pid.ok:
        return True
    name = src.read("/proc/%d/comm" % pid.value)
    return name.state == "absent" or (name.ok and name.value.strip() != "dockerd")


def socket_state(version: Fact) -> Fact:
    """answers, asleep, refused or denied; Absent when there is no socket."""
    if version.via == ASLEEP:
        return known("asleep", "/var/run/docker.pid")
    if version.ok:
        return known("answers", version.via)
    if version.via == REFUSED:
        return known("refused", "/version")
    if version.state == "unknown" and version.reason in ("denied", DENIED):
        return known("denied", version.via)
    return Fact(version.state, None, version.reason, version.via)


def info_facts(info: Fact) -> Dict[str, Fact]:
    """What /info says, each alone: a key that this Docker does not know is Absent."""
    facts = {
        "docker_default_runtime": _key(info, "DefaultRuntime", str),
        "docker_cgroup_driver": _key(info, "CgroupDriver", str),
        "docker_cgroup_version": _key(info, "CgroupVersion", str),
        "docker_root": _key(info, "DockerRootDir", str),
        "docker_storage_driver": _key(info, "Driver", str),
        "docker_live_restore": _key(info, "LiveRestoreEnabled", bool),
        "docker_cdi_dirs": _key(info, "CDISpecDirs", list),
        "docker_system": _key(info, "OperatingSystem", str),
    }
    security = info.map(lambda value: [str(item) for item in value.get("SecurityOptions") or []])
    facts["docker_runtimes"] = info.map(lambda value: sorted(value["Runtimes"]))
    facts["docker_security"] = security
    facts["docker_rootless"] = security.map(lambda items: "name=rootless" in items)
    facts["docker_seccomp_sysnice"] = security.map(seccomp_lets_numa_calls)
    return facts


def _key(info: Fact, key: str, kind: type) -> Fact:
    def pick(value: Dict[str, Any]) -> Any:
        found = value.get(key)
        if found is None or found == "":
            return absent(info.via)
        if not isinstance(found, kind):
            raise ValueError("%s is not a %s" % (key, kind.__name__))  # noqa: TRY004
        return found

    return info.map(pick)


def seccomp_lets_numa_calls(options: List[str]) -> Any:
    """Docker's own profile refuses get_mempolicy and its like without CAP_SYS_NICE; a custom profile is not read."""
    for option in options:
        if option.startswith("name=seccomp"):
            profile = option.partition("profile=")[2]
            if profile in ("", "default", "builtin"):
                return False
            return True if profile == "unconfined" else unknown("seccomp profile %s" % profile)
    return True


def running(src: Source, path: str) -> Fact:
    """The running containers, inspected one by one."""
    listed = get(src, path, "/containers/json")
    if not listed.ok:
        return listed
    found: List[Dict[str, Any]] = []
    for item in listed.value[:MAX_CONTAINERS]:
        one = get(src, path, "/containers/%s/json" % item["Id"])
        if not one.ok and "404" in one.reason:
            continue  # it ended between the two questions
        parsed = one.map(container)
        if not parsed.ok:
            return Fact(parsed.state, None, parsed.reason, parsed.via)
        found.append(parsed.value)
    if len(listed.value) > MAX_CONTAINERS:
        return unknown("more than %d containers run" % MAX_CONTAINERS, listed.via)
    return known(found, listed.via)


def container(value: Dict[str, Any]) -> Dict[str, Any]:
    """The answer of inspect -> the fields of a Running."""
    config, host = value["Config"], value["HostConfig"]
    env = dict(item.partition("=")[::2] for item in config.get("Env") or [])
    gpus, cdi, ids = gpu_request(host, env)
    entry = config.get("Entrypoint") or []
    command = config.get("Cmd") or []
    return {
        "id": str(value["Id"])[:12],
        "name": str(value.get("Name") or "").lstrip("/"),
        "image": str(config.get("Image") or ""),
        "runtime": host.get("Runtime") or None,
        "gpus": gpus,
        "cdi": cdi,
        "shm": host.get("ShmSize"),
        "ipc": host.get("IpcMode") or None,
        "ulimits": {
            str(item["Name"]): [int(item["Soft"]), int(item["Hard"])]
            for item in host.get("Ulimits") or []
        },
        "privileged": bool(host.get("Privileged")),
        "capabilities_added": _capabilities(host.get("CapAdd")),
        "capabilities_dropped": _capabilities(host.get("CapDrop")),
        "no_new_privileges": any(
            option in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true")
            for option in host.get("SecurityOpt") or []
        ),
        "security": [str(option) for option in host.get("SecurityOpt") or []],
        "env": shown_environment(env),
        "args": shown_arguments(_list(entry) + _list(command)),
        "ports": published(value),
        "pid": (value.get("State") or {}).get("Pid") or None,
        "user": config.get("User") or None,
        "gpu_ids": ids,
        "network": host.get("NetworkMode") or None,
    }


def _list(value: Any) -> List[str]:
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _capabilities(names: Any) -> List[str]:
    return [str(name)[4:] if str(name).startswith("CAP_") else str(name) for name in names or []]


def gpu_request(host: Dict[str, Any], env: Dict[str, str]) -> Tuple[bool, bool, List[str]]:
    """Whether a container asked for GPUs, whether through CDI, and for which."""
    for request in host.get("DeviceRequests") or []:
        ids = [str(item) for item in request.get("DeviceIDs") or []]
        if request.get("Driver") == "cdi":
            if any(item.startswith("nvidia.com/") for item in ids):
                return True, True, [item.partition("=")[2] for item in ids]
            continue
        wanted = [name for group in request.get("Capabilities") or [] for name in group]
        if request.get("Driver") == "nvidia" or "gpu" in wanted:
            count = request.get("Count", 0)
            return True, False, ids or (["all"] if count == -1 else ["count:%d" % count])
    visible = env.get("NVIDIA_VISIBLE_DEVICES", "")
    if str(host.get("Runtime") or "").startswith("nvidia") and visible not in ("", "void", "none"):
        return True, host.get("Runtime") == "nvidia-cdi", visible.split(",")
    paths = [str(item.get("PathOnHost")) for item in host.get("Devices") or []]
    nodes = [item[len("/dev/nvidia") :] for item in paths if re.match(r"/dev/nvidia\d+$", item)]
    return bool(nodes) or "/dev/nvidiactl" in paths, False, nodes


def shown_environment(env: Dict[str, str]) -> Dict[str, str]:
    """The variables that decide something; a secret's value is never kept."""
    return {
        name: "(set)" if _SECRET.search(name) and env[name] else env[name]
        for name in sorted(env)
        if name in _ENV_NAMES or name.startswith(_ENV_PREFIXES)
    }


def shown_arguments(words: List[str]) -> List[str]:
    """The command line without the values of secret options."""
    shown: List[str] = []
    secret = False
    for word in words:
        option, equals, _ = word.partition("=")
        if secret and not word.startswith("-"):
            shown.append("(set)")
        elif equals and _SECRET_OPTION.match(option):
            shown.append(option + "=(set)")
        else:
            shown.append(_SECRET_IN_LINE.sub(r"\g<option>\g<gap>(set)", word))
        secret = not equals and bool(_SECRET_OPTION.match(word))
    return shown


def published(value: Dict[str, Any]) -> List[str]:
    """["0.0.0.0:8000->8000/tcp"]."""
    bindings = (value.get("NetworkSettings") or {}).get("Ports") or {}
    bindings = bindings or value["HostConfig"].get("PortBindings") or {}
    shown = [
        "%s:%s->%s" % (place.get("HostIp") or ANY_ADDRESS, place.get("HostPort") or "", inner)
        for inner, places in sorted(bindings.items())
        for place in places or []
    ]
    return list(dict.fromkeys(shown))


def images_unseen(src: Source, path: str) -> Fact:
    """How many GPU images were left out by the bound."""
    listed = get(src, path, "/images/json")
    return listed.map(
        lambda value: max(0, len([item for item in value if looks_like_nvidia(item)]) - MAX_IMAGES)
    )


def image_names(src: Source, path: str) -> Fact:
    """What every local image is called, by tag and by digest: ["vllm/vllm-openai:v0.20.0", "vllm/vllm-openai@sha256:..."]."""
    return get(src, path, "/images/json").map(
        lambda value: sorted(
            name
            for item in value
            for name in (item.get("RepoTags") or []) + (item.get("RepoDigests") or [])
            if "<none>" not in name
        )
    )


def images(src: Source, path: str) -> Fact:
    """Local images that look like GPU images, inspected: [{"ref", "env", "labels", "size"}]."""
    listed = get(src, path, "/images/json")
    if not listed.ok:
        return listed
    likely = [item for item in listed.value if looks_like_nvidia(item)]
    found: List[Dict[str, Any]] = []
    for item in likely[:MAX_IMAGES]:
        one = get(src, path, "/images/%s/json" % item["Id"])
        if not one.ok and "404" in one.reason:
            continue  # it was removed between the two questions
        parsed = one.map(functools.partial(image, item=item))
        if not parsed.ok:
            return Fact(parsed.state, None, parsed.reason, parsed.via)
        found.append(parsed.value)
    return known(found, listed.via)


def looks_like_nvidia(item: Dict[str, Any]) -> bool:
    """By name or label, so that only these few are inspected."""
    labels = item.get("Labels") or {}
    names = (item.get("RepoTags") or []) + (item.get("RepoDigests") or [])
    words = " ".join(names + list(labels) + [str(labels.get("maintainer") or "")]).lower()
    return bool(_NVIDIA_IMAGE.search(words))


def image(value: Dict[str, Any], item: Dict[str, Any]) -> Dict[str, Any]:
    """The answer of inspect -> the fields of an Image."""
    config = value.get("Config") or {}
    env = dict(entry.partition("=")[::2] for entry in config.get("Env") or [])
    labels = {
        str(key): str(text)
        for key, text in (config.get("Labels") or {}).items()
        if str(key).startswith("com.nvidia")
        or key in ("maintainer", "org.opencontainers.image.version")
    }
    tags: List[str] = item.get("RepoTags") or value.get("RepoTags") or []
    size: Optional[int] = item.get("Size")
    return {
        "ref": tags[0] if tags else str(item.get("Id")),
        "env": shown_environment(env),
        "labels": labels,
        "size": size,
    }
