"""Whether the CUDA driver API starts here, and which toolkits lie on disk. nvcc and CUDA libraries are never run or opened."""

import json
import posixpath
import re
from typing import Any, Dict, List, Optional

from doctor.probes.fact import Fact, absent, known, not_applicable, unknown
from doctor.probes.reading import elf
from doctor.probes.source import Source

VARIABLES = (
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_PATH",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_HOME",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_PATH",
    "CUDA_VERSION",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDAHOSTCXX",
    "NVIDIA_DISABLE_REQUIRE",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_VISIBLE_DEVICES",
    "TORCH_CUDA_ARCH_LIST",
)
"""Variables that steer CUDA, the container toolkit or a build; no other leaves the host."""


def probe(src: Source) -> Dict[str, Fact]:
    """-> the fields of doctor.facts.areas.cuda."""
    found = {
        "visible_devices": src.env("CUDA_VISIBLE_DEVICES"),
        "environment": _environment(src),
        "toolkits": find_toolkits(src),
        "default_toolkit": src.realpath("/usr/local/cuda"),
        "nvcc": _nvcc(src),
        "cuda_home": _first_set(src, ("CUDA_HOME", "CUDA_PATH")),
        "cudnn": _cudnn(src),
    }
    # last: the driver takes its time, and the rest of the check waits for it
    scope = src.cuda("scope")
    return {**found, "scope": scope.map(look), "clean": _clean(src, scope)}


def look(record: Dict[str, Any]) -> Any:
    """What a child saw -> {"code", "count", "driver_version", "library"}."""
    if not isinstance(record.get("cuInit"), int):
        raise TypeError("the child gave no code")
    number = record.get("driver_version")
    version = "%d.%d" % (number // 1000, number % 1000 // 10) if isinstance(number, int) else None
    return {
        "code": record["cuInit"],
        "count": record.get("count"),
        "driver_version": version,
        "library": record.get("lib") or None,
    }


def _clean(src: Source, scope: Fact) -> Fact:
    """A second look without LD_* and CUDA_* tells a broken environment from a broken host; asked only when it can."""
    if scope.state == "absent":
        return not_applicable("there is no libcuda to load")
    if not scope.ok:
        return unknown("not asked again: %s" % scope.reason, "cuInit (clean environment)")
    if scope.value.get("cuInit") == 0:
        return not_applicable("the first look succeeded")
    return src.cuda("clean").map(look)


def _environment(src: Source) -> Fact:
    found = {}
    for name in VARIABLES:
        fact = src.env(name)
        if fact.state == "unknown":
            return unknown(fact.reason, "environment")
        if fact.ok:
            found[name] = fact.value
    return known(found, "environment")


def _first_set(src: Source, names: Any) -> Fact:
    fact = absent("environment")
    for name in names:
        fact = src.env(name)
        if fact.state != "absent":
            return fact
    return fact


def find_toolkits(src: Source) -> Fact:
    """[{"path", "version", "nvcc"}] of /usr/local/cuda*, /opt/cuda and the distribution's own, each real folder once."""
    folders = src.glob("/usr/local/cuda*")
    if not folders.ok:
        return folders
    found: Dict[str, Dict[str, Any]] = {}
    for path in folders.value + ["/opt/cuda", "/usr/lib/nvidia-cuda-toolkit"]:
        real = src.realpath(path)
        if real.state == "unknown":
            return real
        if not real.ok or real.value in found:
            continue
        names = src.listdir(real.value)
        if not names.ok or not {"bin", "targets", "lib64", "version.json"} & set(names.value):
            if names.state == "unknown" and names.reason != "not a folder":
                return names
            continue
        nvcc = src.exists(real.value + "/bin/nvcc")
        found[real.value] = {
            "path": real.value,
            "version": toolkit_version(src, real.value),
            "nvcc": nvcc.ok,
        }
    return known([found[path] for path in sorted(found)], "/usr/local/cuda*")


def toolkit_version(src: Source, path: str) -> Optional[str]:
    """version.json, version.txt, else the folder's name; None when none of them says it."""
    for name, parse in (("version.json", parse_version_json), ("version.txt", parse_version_text)):
        said = src.read(path + "/" + name).map(parse)
        if said.ok:
            return str(said.value)
    named = re.search(r"cuda-(\d+\.\d+)$", path)
    return named.group(1) if named else None


def parse_version_json(text: str) -> str:
    """version.json of a toolkit -> for example 13.0.2."""
    return str(json.loads(text)["cuda"]["version"])


def parse_version_text(text: str) -> str:
    """version.txt of toolkits before 11.1 -> for example 10.2.89."""
    found = re.search(r"CUDA Version (\d+\.\d+(?:\.\d+)?)", text)
    if not found:
        raise ValueError("no CUDA version in it")
    return found.group(1)


def parse_nvcc(text: str) -> str:
    """`nvcc --version` -> for example 12.0."""
    found = re.search(r"release (\d+\.\d+)", text)
    if not found:
        raise ValueError("no release in it")
    return found.group(1)


def _nvcc(src: Source) -> Fact:
    """Version of the first nvcc on the scope's PATH; run only where its folder does not tell."""
    path = src.env("PATH")
    if path.state == "unknown":
        return path
    for folder in _folders(path.value if path.ok else ""):
        there = src.realpath(folder + "/nvcc")
        if there.state == "unknown":
            return there
        if there.ok:
            home = posixpath.dirname(posixpath.dirname(there.value))
            version = toolkit_version(src, home)
            if version:
                return known(version, folder + "/nvcc")
            said = src.run([folder + "/nvcc", "--version"], timeout=3.0)
            return said.map(lambda done: parse_nvcc(done.stdout))
    return absent("PATH")


def _folders(path: str) -> List[str]:
    return [part.rstrip("/") for part in path.split(":") if part.startswith("/")]


def _cudnn(src: Source) -> Fact:
    """The newest cuDNN the loader would find without the caller's environment."""
    loader = elf.Loader(src)
    for soname in ("libcudnn.so.9", "libcudnn.so.8"):
        found = loader.resolve(soname, with_environment=False)
        if found.state == "unknown":
            return found
        if found.ok:
            return found.map(
                lambda item: item["version"] or unknown("its file name carries no version")
            )
    return absent("the loader's folders")
