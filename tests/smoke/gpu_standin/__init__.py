"""Libraries for tests that behave as libcuda and libnccl do, without a GPU."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
LIBRARIES = (
    ("libcuda.c", "libcuda.so.1"),
    ("libnccl.c", "libnccl.so.2"),
    ("libnvml.c", "libnvidia-ml.so.1"),
)


def build() -> Path:
    """A folder that every user may read, with libcuda.so.1 and libnccl.so.2."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-standin-", dir="/tmp"))
    folder.chmod(0o755)
    compiler = shutil.which("cc") or "cc"
    for source, name in LIBRARIES:
        subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", "-o", folder / name, HERE / source], check=True
        )
    return folder


@contextmanager
def docker_with_gpus(folder: Path, *, hook: bool = True, cdi: Path | None = None) -> Iterator[str]:
    """A Docker daemon of our own that gives containers the stand-in's GPUs; its DOCKER_HOST. Root only.

    `hook`: by --gpus, as the toolkit's hook does. `cdi`: by a CDI specification, with the Docker that is unpacked there.
    """
    tools = build()
    subprocess.run(["cc", "-static", "-o", tools / "nvidia-smi", HERE / "smi.c"], check=True)
    if hook:
        shutil.copy(HERE / "hook.sh", tools / "nvidia-container-runtime-hook")
        (tools / "nvidia-container-runtime-hook").chmod(0o755)
    host = f"unix://{folder}/docker.sock"
    daemon = f"{cdi}/usr/sbin/dockerd" if cdi else "dockerd"
    argv = [daemon, "-H", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    argv += ["--pidfile", f"{folder}/docker.pid", "--bridge=none", "--iptables=false"]
    argv += ["--ip-forward=false", "--ip-masq=false"]
    places = [str(tools), os.environ["PATH"]]
    if cdi is not None:
        places[1:1] = [f"{cdi}/usr/bin", f"{cdi}/usr/sbin"]
        (folder / "daemon.json").write_text(json.dumps({"features": {"cdi": True}}))
        argv += ["--config-file", f"{folder}/daemon.json", "--cdi-spec-dir", f"{folder}/cdi"]
        specification(folder / "cdi", tools)
    with (folder / "dockerd.log").open("w") as log:
        child = subprocess.Popen(
            argv, env={**os.environ, "PATH": ":".join(places)}, stdout=log, stderr=log
        )
    try:
        for _ in range(100):
            asked = subprocess.run(["docker", "-H", host, "version"], capture_output=True)
            if asked.returncode == 0:
                break
            time.sleep(0.2)
        yield host
    finally:
        child.terminate()
        child.wait(30)
        shutil.rmtree(tools)


def specification(folder: Path, tools: Path, device: str = "all") -> Path:
    """A CDI specification of the stand-in: a device node that is no GPU's, and the libraries beside it."""
    folder.mkdir(exist_ok=True)
    node = tools / "node"
    if not node.exists():
        os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    libraries = f"/usr/lib/{platform.machine()}-linux-gnu"
    mounts = [
        {
            "hostPath": str(tools / name),
            "containerPath": f"{libraries}/{name}",
            "options": ["ro", "nosuid", "nodev", "bind"],
        }
        for name in ("libcuda.so.1", "libnvidia-ml.so.1")
    ]
    made = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {
                "name": device,
                "containerEdits": {
                    "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": str(node)}]
                },
            }
        ],
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": mounts},
    }
    file = folder / "nvidia.json"
    file.write_text(json.dumps(made))
    return file
