"""Which fields of a container engine's answers may be recorded, and what each holds. The others are dropped."""

import re
from typing import Any, Callable, Dict, Optional

TEXT, HOST, CONTAINER, IMAGE, ENV, LABELS, ARGS, ADDRESS, PLACE = (
    "text host container image env labels args address place".split()
)

_VERSION: Dict[str, Any] = {
    **dict.fromkeys("Version ApiVersion MinAPIVersion Os Arch KernelVersion".split(), TEXT),
    "Components": [{"Name": TEXT, "Version": TEXT}],
    "Platform": {"Name": TEXT},
}
_INFO: Dict[str, Any] = {
    **dict.fromkeys(
        "ServerVersion DefaultRuntime CgroupDriver CgroupVersion DockerRootDir Driver LiveRestoreEnabled SecurityOptions "
        "CDISpecDirs OperatingSystem OSType OSVersion Architecture KernelVersion NCPU MemTotal Containers ContainersRunning "
        "Images Warnings InitBinary Isolation Rootless ExperimentalBuild LoggingDriver Debug".split(),
        TEXT,
    ),
    "Name": HOST,
    "Runtimes": {"*": {"path": TEXT, "runtimeArgs": TEXT}},
    "DiscoveredDevices": [{"Source": TEXT, "ID": TEXT}],
    "ContainerdCommit": {"ID": TEXT},
    "RuncCommit": {"ID": TEXT},
    "Swarm": {"LocalNodeState": TEXT},
}
_BINDING = [{"HostIp": ADDRESS, "HostPort": TEXT}]
_CONTAINER: Dict[str, Any] = {
    **dict.fromkeys("Id Created Driver Platform AppArmorProfile RestartCount".split(), TEXT),
    "Name": CONTAINER,
    "Image": TEXT,
    "Path": TEXT,
    "Args": ARGS,
    "State": dict.fromkeys(
        "Status Running Paused Restarting OOMKilled Dead Pid ExitCode StartedAt FinishedAt".split(),
        TEXT,
    ),
    "HostConfig": {
        **dict.fromkeys(
            "Runtime ShmSize Ulimits Privileged CapAdd CapDrop SecurityOpt Devices DeviceCgroupRules Memory MemorySwap "
            "RestartPolicy ReadonlyRootfs CgroupnsMode UsernsMode PublishAllPorts OomKillDisable Init NanoCpus CpusetCpus "
            "PidsLimit".split(),
            TEXT,
        ),
        **dict.fromkeys("IpcMode PidMode NetworkMode".split(), CONTAINER),
        "DeviceRequests": [
            dict.fromkeys("Driver Count DeviceIDs Capabilities Options".split(), TEXT)
        ],
        "PortBindings": {"*": _BINDING},
        "Binds": [PLACE],
    },
    "Config": {
        "Env": ENV,
        "Cmd": ARGS,
        "Entrypoint": ARGS,
        "Image": IMAGE,
        "User": TEXT,
        "Labels": LABELS,
        "ExposedPorts": TEXT,
    },
    "Mounts": [
        {"Type": TEXT, "Source": PLACE, "Destination": TEXT, "Mode": TEXT, "RW": TEXT},
    ],
    "NetworkSettings": {"Ports": {"*": _BINDING}},
}
_LISTED = [
    {
        **dict.fromkeys("Id ImageID Created State Status".split(), TEXT),
        "Names": [CONTAINER],
        "Image": IMAGE,
        "Command": ARGS,
        "Labels": LABELS,
        "Ports": [{"IP": ADDRESS, "PrivatePort": TEXT, "PublicPort": TEXT, "Type": TEXT}],
        "HostConfig": {"NetworkMode": CONTAINER},
    }
]
_IMAGE = {
    **dict.fromkeys("Id Created Size Architecture Os".split(), TEXT),
    "RepoTags": [IMAGE],
    "RepoDigests": [IMAGE],
    "Config": {"Env": ENV, "Labels": LABELS, "Cmd": ARGS, "Entrypoint": ARGS, "User": TEXT},
    "Labels": LABELS,
}
_LISTS = (
    (r"/version", _VERSION),
    (r"/info", _INFO),
    (r"/containers/json", _LISTED),
    (r"/containers/[\w.\-]+/json", _CONTAINER),
    (r"/images/json", [_IMAGE]),
    (r"/images/.+/json", _IMAGE),
)


def allowed(target: str, value: Any, leaf: Callable[[str, Any], Any]) -> Optional[Any]:
    """The answer with only the fields on its list, each passed through `leaf(kind, value)`. None: no list for it."""
    bare = re.sub(r"\A/v\d[\d.]*(?=/)|\A/libpod(?=/)", "", target.split("?", 1)[0])
    for pattern, shape in _LISTS:
        if re.match(pattern + r"\Z", bare):
            return _shown(shape, value, leaf)
    return None


def _shown(shape: Any, value: Any, leaf: Callable[[str, Any], Any]) -> Any:
    if value is None:
        return None
    if isinstance(shape, str):
        return leaf(shape, value)
    if isinstance(shape, list):
        return [_shown(shape[0], item, leaf) for item in value] if isinstance(value, list) else None
    if not isinstance(value, dict):
        return None
    if "*" in shape:
        return {leaf(TEXT, key): _shown(shape["*"], item, leaf) for key, item in value.items()}
    return {key: _shown(shape[key], item, leaf) for key, item in value.items() if key in shape}
