"""Runs one program in a container of the rung `container` and reads what it said. Refused is raised when Docker refuses."""

from __future__ import annotations

import io
import re
import tarfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from doctor.smoke.child_answer import BOOT, Answer, bundle, parsed
from doctor.smoke.container_limits import SHM_BYTES, limits_asked
from doctor.smoke.docker_engine import Refused, gpu_device, made_container

if TYPE_CHECKING:
    from docker import DockerClient

    from doctor.smoke.context import Context

INSIDE = "/doctor-smoke"
RUN_S = 90.0
_UUID = re.compile(r"UUID: ((?:GPU|MIG)-[0-9a-f-]+)")


def run_probe(
    ctx: Context, docker: DockerClient, image: str, python: str, gpus: str | None
) -> Answer:
    """The probe under the image's Python. `gpus`: None, "gpus" for --gpus all, "cdi" for CDI devices."""
    command = [python, "-I", "-S", "-B", "-c", BOOT]
    command += ["doctor.smoke.children.container_probe", f"{INSIDE}/children.zip"]
    command += ["gpus"] if gpus else []
    name = f"container-{gpus or 'plain'}.log"
    rc, text = _run(ctx, docker, image, command, gpus, name, archive(bundle(ctx).read_bytes()))
    return Answer(lines=tuple(parsed(text)), ended=rc is not None, rc=rc, log=name)


def run_smi(ctx: Context, docker: DockerClient, image: str, how: str) -> Answer:
    """`nvidia-smi -L` in the image, as the probe would have said it."""
    rc, text = _run(ctx, docker, image, ["nvidia-smi", "-L"], how, "container-smi.log", None)
    said = {"state": "ok", "uuids": _UUID.findall(text)}
    if rc != 0:
        said = {"state": "failed", "error": text.strip()[-300:] or f"nvidia-smi: exit {rc}"}
    return Answer(
        lines=({"step": "nvml", **said},), ended=rc is not None, rc=rc, log="container-smi.log"
    )


def _run(
    ctx: Context,
    docker: DockerClient,
    image: str,
    command: Sequence[str],
    gpus: str | None,
    name: str,
    files: bytes | None,
) -> tuple[int | None, str]:
    """Exit code (None when its time was over) and output, which is kept in the run folder."""
    try:
        container = made_container(
            ctx,
            docker,
            image,
            command,
            shm=SHM_BYTES,
            ulimits=limits_asked(ctx),
            devices=gpu_device(gpus),
        )
        if files is not None:
            container.put_archive("/", files)
        container.start()
    except Exception as error:
        refused = Refused.of(error)
        if refused is None:
            raise
        raise refused from None
    rc = _wait(ctx, container)
    data: bytes = container.logs()
    (ctx.folder / name).write_bytes(data)
    container.remove(force=True)
    return rc, data.decode("utf-8", "replace")


def _wait(ctx: Context, container: Any) -> int | None:
    until = time.monotonic() + min(RUN_S, ctx.left)
    while time.monotonic() < until:
        container.reload()
        state = container.attrs["State"]
        if state["Status"] in ("exited", "dead"):
            return int(state["ExitCode"])
        ctx.sleep(0.1)
    return None


def archive(zipped: bytes) -> bytes:
    """The children as a tar for a container that was made and not started: no mount, so a daemon in a VM takes it too."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        folder = tarfile.TarInfo(INSIDE.lstrip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        entry = tarfile.TarInfo(f"{INSIDE.lstrip('/')}/children.zip")
        entry.size, entry.mode = len(zipped), 0o644
        tar.addfile(entry, io.BytesIO(zipped))
    return out.getvalue()
