"""The engine in its image: a container without privileges, the model mounted read-only, its port on the loopback only."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.smoke.context import LOOPBACK, StageUnseen
from doctor.smoke.guest import INSIDE
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
        self._container.remove(force=True)


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
    import docker
    from docker.errors import DockerException
    from docker.types import DeviceRequest
    from docker.types import Mount as Bind

    user = ctx.user
    ids = f"{user.uid if user.uid is not None else os.geteuid()}:{user.gid if user.gid is not None else os.getegid()}"
    binds = [Bind(INSIDE, str(ctx.scratch), type="bind")]
    binds += [
        Bind(item.target, str(item.source), type="bind", read_only=item.read_only)
        for item in mounts
    ]
    model = ctx.scratch / "model"
    if model.is_dir():
        binds.append(Bind(f"{INSIDE}/model", str(model), type="bind", read_only=True))
    gpus = ctx.engine is None or ctx.engine.gpu
    options: dict[str, Any] = {
        "device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])] if gpus else None
    }
    home = {"HOME": INSIDE, "TMPDIR": INSIDE, "XDG_CACHE_HOME": f"{INSIDE}/cache", MARK: ctx.run}
    try:
        client = docker.from_env(timeout=60)
        container = client.containers.create(
            image,
            command=list(argv[1:]),
            entrypoint=list(argv[:1]),
            environment={**home, **env},
            user=ids,
            working_dir=INSIDE,
            mounts=binds,
            ports={f"{port}/tcp": (LOOPBACK, port)} if port else None,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            ipc_mode="private",
            shm_size=SHM_BYTES,
            labels={MEMORY_LABEL: ctx.run},
            log_config={"type": "json-file"},
            **options,
        )
    except DockerException as error:
        raise StageUnseen(f"no container of {image} can be made: {error}") from None
    found = Container(ctx, container, ctx.folder / f"{name}.log")
    ctx.resources.on_release(f"container {container.short_id}", lambda: _remove(container))
    try:
        container.start()
    except DockerException as error:
        raise StageUnseen(f"a container of {image} does not start: {error}") from None
    return found


def _remove(container: Any) -> None:
    from docker.errors import NotFound

    try:
        container.remove(force=True)
    except NotFound:
        return
