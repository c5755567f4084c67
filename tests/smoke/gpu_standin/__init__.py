"""Libraries for tests that behave as libcuda and libnccl do, without a GPU."""

from __future__ import annotations

import os
import shutil
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
def docker_with_gpus(folder: Path, *, hook: bool = True) -> Iterator[str]:
    """A Docker daemon of our own that gives containers the stand-in's GPUs; its DOCKER_HOST. Root only."""
    tools = build()
    subprocess.run(["cc", "-static", "-o", tools / "nvidia-smi", HERE / "smi.c"], check=True)
    if hook:
        shutil.copy(HERE / "hook.sh", tools / "nvidia-container-runtime-hook")
        (tools / "nvidia-container-runtime-hook").chmod(0o755)
    host = f"unix://{folder}/docker.sock"
    argv = ["dockerd", "-H", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    argv += ["--pidfile", f"{folder}/docker.pid", "--bridge=none", "--iptables=false"]
    argv += ["--ip-forward=false", "--ip-masq=false"]
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    with (folder / "dockerd.log").open("w") as log:
        daemon = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
    try:
        for _ in range(100):
            asked = subprocess.run(["docker", "-H", host, "version"], capture_output=True)
            if asked.returncode == 0:
                break
            time.sleep(0.2)
        yield host
    finally:
        daemon.terminate()
        daemon.wait(30)
        shutil.rmtree(tools)
