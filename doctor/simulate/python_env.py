"""Python environments: dist-info folders, torch/version.py and bundled libraries."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from doctor.simulate.description import PythonPart
from doctor.simulate.host import Host
from doctor.simulate.wheels import Contents, contents
from doctor.simulate.writer import RecordingWriter

PURE = frozenset(
    ["transformers", "huggingface-hub", "nvidia-ml-py", "pynvml", "outlines", "flashinfer-python"]
)


def write(host: Host, out: RecordingWriter) -> None:
    """The system's Python and every described environment."""
    minor = _minor(host.python)
    out.link("/usr/bin/python3", f"python{minor}")
    out.file(f"/usr/bin/python{minor}", mode=0o755, keep=False)
    if host.family == "debian" and int(minor.partition(".")[2]) >= 11:
        out.file(f"/usr/lib/python{minor}/EXTERNALLY-MANAGED", "[externally-managed]\n")
    if "ninja-build" in host.d.packages:
        out.file("/usr/bin/ninja", mode=0o755, keep=False)
    for part in host.d.python:
        _environment(host, part, out)
        if not _is_found(part.path) and not host.d.sudo:
            out.process["env"].setdefault("VIRTUAL_ENV", part.path)


def _is_found(path: str) -> bool:
    """Whether the probe looks there without a word from the environment."""
    from doctor.probes.areas.python_env import PREFIXES

    return path in ("/usr", "/usr/local") or any(
        fnmatchcase(path, item) and path.count("/") == item.count("/") for item in PREFIXES
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def site_of(host: Host, part: PythonPart) -> str:
    """The folder with the packages."""
    if part.path in ("/usr", "/usr/local") and host.family == "debian":
        if part.path == "/usr":
            return "/usr/lib/python3/dist-packages"
        return f"/usr/local/lib/python{_minor(part.version)}/dist-packages"
    return f"{part.path}/lib/python{_minor(part.version)}/site-packages"


def _environment(host: Host, part: PythonPart, out: RecordingWriter) -> None:
    site = site_of(host, part)
    inside = contents(part, host.machine)
    if part.path not in ("/usr", "/usr/local"):
        out.file(f"{part.path}/pyvenv.cfg", f"home = /usr/bin\nversion = {part.version}\n")
        out.file(f"{part.path}/bin/python3", mode=0o755, keep=False)
    out.folder(site)
    for name, version in inside.packages.items():
        _distribution(out, site, name, version, inside, host.machine)
    _libraries(out, site, inside)


def _distribution(
    out: RecordingWriter, site: str, name: str, version: str, inside: Contents, machine: str
) -> None:
    folder = f"{site}/{name.replace('-', '_')}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    if name in inside.requires_python:
        lines.append(f"Requires-Python: {inside.requires_python[name]}")
    lines += [f"Requires-Dist: {line}" for line in inside.requires.get(name, [])]
    out.file(f"{folder}/METADATA", "\n".join(lines) + "\n\nA package.\n")
    tag = _tag(name, inside.tags.get(name), machine)
    pure = str(tag == "py3-none-any").lower()
    out.file(
        f"{folder}/WHEEL",
        f"Wheel-Version: 1.0\nGenerator: simulated\nRoot-Is-Purelib: {pure}\nTag: {tag}\n",
    )
    if name == "torch":
        cuda = "None" if inside.torch_cuda is None else f"'{inside.torch_cuda}'"
        out.file(
            f"{site}/torch/version.py",
            f"__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {cuda}\n"
            "hip: Optional[str] = None\nxpu: Optional[str] = None\n",
        )


def _tag(name: str, said: str | None, machine: str) -> str:
    if said is None and name in PURE:
        return "py3-none-any"
    platform = said or "manylinux_2_28"
    if machine == "aarch64" and platform == "manylinux1":
        platform = "manylinux2014"
    if not re.search(r"_(x86_64|aarch64)$", platform):
        platform = f"{platform}_{machine}"
    return f"cp312-cp312-{platform}"


def _libraries(out: RecordingWriter, site: str, inside: Contents) -> None:
    found: list[str] = []
    for name in inside.packages:
        major = name.rpartition("-cu")[2]
        if re.fullmatch(r"nvidia-nccl-cu\d+", name):
            found.append("nccl/lib/libnccl.so.2")
        elif re.fullmatch(r"nvidia-cudnn-cu\d+", name):
            found.append("cudnn/lib/libcudnn.so.9")
        elif re.fullmatch(r"nvidia-cuda-runtime-cu\d+", name):
            found.append(f"cuda_runtime/lib/libcudart.so.{major}")
        elif re.fullmatch(r"nvidia-nvjitlink-cu\d+", name):
            found.append(f"nvjitlink/lib/libnvJitLink.so.{major}")
        elif name == "nvidia-cuda-runtime":
            found.append(f"cu{_major(inside, name)}/lib/libcudart.so.{_major(inside, name)}")
        elif name == "nvidia-nvjitlink":
            found.append(f"cu{_major(inside, name)}/lib/libnvJitLink.so.{_major(inside, name)}")
    for path in found:
        out.file(f"{site}/nvidia/{path}", keep=False, size=1 << 20)


def _major(inside: Contents, name: str) -> str:
    return inside.packages[name].partition(".")[0]
