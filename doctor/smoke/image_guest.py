"""The engine in its image: a container without privileges, the model mounted read-only, its port on the loopback only."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.smoke.context import StageUnseen
from doctor.smoke.guest import INSIDE
from doctor.smoke.ports import LOOPBACK
from doctor.smoke.processes import MARK

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Mount

SHM_BYTES = 1 << 30
MEMORY_LABEL = "gpu-host-doctor.smoke"
"""Label that every container of a run carries."""


class Container:
    """A container of the run."""

    def __init__(self, ctx: Context, container: Any, log: Path) -> None:
        self._ctx = ctx
        self._container = container
        self.log = log
        self.started = time.monotonic()
        self._ended: int | None = None

    @property
    def pid(self) -> int | None:
        """As the daemon's host has it: this one, but for a daemon in a VM."""
        found = self._container.attrs.get("State", {}).get("Pid")
        return int(found) if found and Path(f"/proc/{found}").exists() else None

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        if self._ended is None:
            try:
                self._container.reload()
            except Exception:  # noqa: BLE001, RUF100 - a daemon that went away ended it too
                return 125
            state = self._container.attrs.get("State", {})
            if not state.get("Running") and state.get("Status") != "created":
                self._ended = int(state.get("ExitCode", 125))
        return self._ended

    def tail(self, size: int = 200_000) -> str:
        """The end of its log, which is also written to the run folder."""
        try:
            data: bytes = self._container.logs(tail=5000)
        except Exception:  # noqa: BLE001, RUF100 - no log is an empty log
            return ""
        self.log.write_bytes(data[-size:])
        return data[-size:].decode("utf-8", "replace")

    def end(self) -> None:
        """Remove it, killed if it has to be."""
        self.tail()
        _remove(self._container)


def start(
    ctx: Context,
    image: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    name: str,
    port: int | None,
    mounts: Sequence[Mount],
) -> Container:
    """Create and start it. StageUnseen when Docker or the image is not there; the rung `container` says why in detail."""
    from docker.errors import DockerException

    from doctor.smoke import docker_engine

    try:
        docker = docker_engine.client(ctx)
        container = docker.containers.create(
            image,
            command=list(argv[1:]),
            entrypoint=list(argv[:1]),
            environment={**_home(ctx), **env},
            user=_user(ctx),
            working_dir=INSIDE,
            mounts=_binds(ctx, mounts),
            ports={f"{port}/tcp": (LOOPBACK, port)} if port else None,
            network_mode="bridge" if port else "none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            ipc_mode="private",
            shm_size=SHM_BYTES,
            device_requests=docker_engine.gpu_device(_gpus(ctx)) or None,
            labels={MEMORY_LABEL: ctx.run},
            log_config={"type": "json-file"},
        )
        ctx.resources.on_release(f"container {container.short_id}", lambda: _remove(container))
        container.start()
    except (DockerException, docker_engine.Refused) as error:
        raise StageUnseen(f"no container of {image} starts: {error}") from None
    return Container(ctx, container, ctx.folder / f"{name}.log")


def _home(ctx: Context) -> dict[str, str]:
    return {"HOME": INSIDE, "TMPDIR": INSIDE, "XDG_CACHE_HOME": f"{INSIDE}/cache", MARK: ctx.run}


def _user(ctx: Context) -> str:
    uid = ctx.user.uid if ctx.user.uid is not None else os.geteuid()
    gid = ctx.user.gid if ctx.user.gid is not None else os.getegid()
    return f"{uid}:{gid}"


def _binds(ctx: Context, mounts: Sequence[Mount]) -> list[Any]:
    """The scratch folder is the engine's own; the model in it can only be read."""
    from docker.types import Mount as Bind

    found = [Bind(INSIDE, str(ctx.scratch), type="bind")]
    model = ctx.scratch / "model"
    if model.is_dir():
        found.append(Bind(f"{INSIDE}/model", str(model), type="bind", read_only=True))
    return found + [
        Bind(item.target, str(item.source), type="bind", read_only=item.read_only)
        for item in mounts
    ]


def _gpus(ctx: Context) -> str | None:
    """The way that worked on the rung `container`; nothing for an engine without a GPU."""
    how: str = ctx.shared.get("container-gpus", "gpus")
    return how if ctx.uses_gpus else None


def _remove(container: Any) -> None:
    from docker.errors import NotFound

    try:
        container.remove(force=True)
    except NotFound:
        return
