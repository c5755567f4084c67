"""What cuInit says on a simulated host, and its toolkits."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from doctor.facts.versions import CudaVersion
from doctor.simulate.consequence import cuda_answer, first_libcuda, usable
from doctor.simulate.host import Host
from doctor.simulate.loader import newest_toolkit, physical, toolkit_folder
from doctor.simulate.writer import RecordingWriter

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write(host: Host, out: RecordingWriter) -> None:
    """Exactly what the cuda probe reads."""
    _environment(host, out)
    _look("scope", host, host, out)
    clean = msgspec.structs.replace(
        host,
        d=msgspec.structs.replace(
            host.d,
            ld_library_path=[],
            env={key: value for key, value in host.d.env.items() if not key.startswith("CUDA_")},
        ),
    )
    _look("clean", host, msgspec.structs.replace(clean, cuda=cuda_answer(clean)), out)
    for version in host.d.toolkits:
        folder = toolkit_folder(version)
        out.file(f"{folder}/bin/nvcc", mode=0o755, keep=False)
        full = version if version.count(".") == 2 else f"{version}.0"
        told = {"cuda": {"name": "CUDA SDK", "version": full}}
        out.file(f"{folder}/version.json", json.dumps(told))
    newest = newest_toolkit(host)
    if newest:
        out.link("/usr/local/cuda", toolkit_folder(newest))


def _environment(host: Host, out: RecordingWriter) -> None:
    env: dict[str, str] = out.process["env"]
    newest = newest_toolkit(host)
    env.setdefault("PATH", f"/usr/local/cuda/bin:{PATH}" if newest else PATH)
    if host.d.ld_library_path:
        env["LD_LIBRARY_PATH"] = ":".join(host.d.ld_library_path)
    env.update(host.d.env)


def _look(name: str, asked: Host, host: Host, out: RecordingWriter) -> None:
    """The look cannot make nodes: a node that would be created on first use is missing for it."""
    code = host.cuda
    if code is None:
        out.cuda_look(name=name, code=None, lib=None, error="not-found")
        return
    first = first_libcuda(host)
    if code == 0 and host.part.nodes.get("/dev/nvidia-uvm") == "none":
        code = 999
    native = host.driver_cuda if first == "driver" else None
    out.cuda_look(
        name=name,
        code=code,
        count=_count(host) if code == 0 else None,
        driver_version=_number(native) if native and code != 34 else None,
        lib=_library(host, first),
        env=_shown(out.process["env"]) if name == "scope" else {},
    )


def _count(host: Host) -> int:
    """GPUs that CUDA counts: in MIG mode one instance per process, and only those CUDA_VISIBLE_DEVICES names."""
    boards = len(usable(host))
    visible = host.d.env.get("CUDA_VISIBLE_DEVICES")
    return (
        boards
        if visible is None
        else min(boards, len([part for part in visible.split(",") if part.strip()]))
    )


def _number(version: str) -> int:
    cuda = CudaVersion.parse(version)
    return int(cuda.major) * 1000 + int(cuda.minor) * 10


def _library(host: Host, first: str) -> str:
    if host.d.platform == "wsl2":
        return "/usr/lib/wsl/lib/libcuda.so.1"
    if first == "stub":
        return f"{physical(host, host.d.stubs[0])}/libcuda.so.1"
    if first == "compat" and host.d.compat:
        return f"{physical(host, host.d.compat.dir)}/libcuda.so.{host.d.compat.version}"
    return f"{host.libdir}/libcuda.so.{host.driver.library}"


def _shown(env: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in env.items() if key.startswith(("CUDA_", "LD_"))}
