"""Libraries for tests that behave as libcuda and libnccl do, without a GPU."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def build() -> Path:
    """A folder that every user may read, with libcuda.so.1 and libnccl.so.2."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-standin-", dir="/tmp"))
    folder.chmod(0o755)
    compiler = shutil.which("cc") or "cc"
    for source, name in (("libcuda.c", "libcuda.so.1"), ("libnccl.c", "libnccl.so.2")):
        subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", "-o", folder / name, HERE / source], check=True
        )
    return folder
