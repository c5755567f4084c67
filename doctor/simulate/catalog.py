"""What a GPU board looks like on the bus: device id, memory, BAR1, links. Fillers for the simulator; rules read the matrix."""

from __future__ import annotations

import difflib
import re

import msgspec

from doctor.errors import UsageError

GIB = 1 << 30
MIB = 1 << 20


class Model(msgspec.Struct, frozen=True):
    """One board. BAR1 is what the firmware maps with Above 4G decoding on."""

    name: str
    """As NVML says it; also the name a description may use without the vendor."""
    device: str
    capability: str
    memory: int
    """MiB as NVML says in total."""
    bar1: int
    """MiB."""
    generation: int
    width: int = 16
    ecc: bool = False
    mig: bool = False
    nvlinks: int = 0
    integrated: bool = False


# Device ids as in pci.ids; memory as nvidia-smi prints it.
MODELS = (
    Model("Tesla K80", "102d", "3.7", 11441, 16384, 3, ecc=True),
    Model("Tesla M60", "13f2", "5.2", 8192, 256, 3, ecc=True),
    Model("NVIDIA GeForce GTX 980", "13c0", "5.2", 4096, 256, 3),
    Model("Tesla P4", "1bb3", "6.1", 7680, 256, 3, ecc=True),
    Model("Tesla P40", "1b38", "6.1", 24576, 32768, 3, ecc=True),
    Model("Tesla P100-PCIE-16GB", "15f8", "6.0", 16384, 16384, 3, ecc=True),
    Model("NVIDIA GeForce GT 1030", "1d01", "6.1", 2048, 256, 3, width=4),
    Model("NVIDIA GeForce GTX 1080 Ti", "1b06", "6.1", 11264, 256, 3),
    Model("Tesla V100-SXM2-16GB", "1db1", "7.0", 16384, 16384, 3, ecc=True, nvlinks=6),
    Model("Tesla V100-SXM2-32GB", "1db5", "7.0", 32768, 32768, 3, ecc=True, nvlinks=6),
    Model("Tesla V100-PCIE-16GB", "1db4", "7.0", 16384, 16384, 3, ecc=True),
    Model("Tesla V100-PCIE-32GB", "1db6", "7.0", 32768, 32768, 3, ecc=True),
    Model("Tesla T4", "1eb8", "7.5", 15360, 256, 3, ecc=True),
    Model("NVIDIA GeForce RTX 2080 Ti", "1e07", "7.5", 11264, 256, 3),
    Model("Quadro RTX 6000", "1e30", "7.5", 24576, 256, 3, ecc=True),
    Model("NVIDIA A100-SXM4-40GB", "20b0", "8.0", 40960, 65536, 4, ecc=True, mig=True, nvlinks=12),
    Model("NVIDIA A100-SXM4-80GB", "20b2", "8.0", 81920, 131072, 4, ecc=True, mig=True, nvlinks=12),
    Model("NVIDIA A100-PCIE-40GB", "20f1", "8.0", 40960, 65536, 4, ecc=True, mig=True),
    Model("NVIDIA A100 80GB PCIe", "20b5", "8.0", 81920, 131072, 4, ecc=True, mig=True),
    Model("NVIDIA A30", "20b7", "8.0", 24576, 32768, 4, ecc=True, mig=True),
    Model("NVIDIA A10", "2236", "8.6", 23028, 32768, 4, ecc=True),
    Model("NVIDIA A10G", "2237", "8.6", 23028, 32768, 4, ecc=True),
    Model("NVIDIA A40", "2235", "8.6", 46068, 65536, 4, ecc=True),
    Model("NVIDIA A16", "25b6", "8.6", 15356, 16384, 4, ecc=True),
    Model("NVIDIA A2", "25b6", "8.6", 15356, 16384, 4, width=8, ecc=True),
    Model("NVIDIA RTX A6000", "2230", "8.6", 49140, 256, 4, ecc=True),
    Model("NVIDIA GeForce RTX 3060", "2504", "8.6", 12288, 16384, 4),
    Model("NVIDIA GeForce RTX 3070 Ti", "2482", "8.6", 8192, 256, 4),
    Model("NVIDIA GeForce RTX 3080", "2206", "8.6", 10240, 16384, 4),
    Model("NVIDIA GeForce RTX 3090", "2204", "8.6", 24576, 32768, 4),
    Model("NVIDIA L4", "27b8", "8.9", 23034, 32768, 4, ecc=True),
    Model("NVIDIA L40", "26b5", "8.9", 46068, 65536, 4, ecc=True),
    Model("NVIDIA L40S", "26b9", "8.9", 46068, 65536, 4, ecc=True),
    Model("NVIDIA RTX 6000 Ada Generation", "26b1", "8.9", 49140, 65536, 4, ecc=True),
    Model("NVIDIA RTX 5880 Ada Generation", "26b3", "8.9", 49140, 65536, 4, ecc=True),
    Model("NVIDIA GeForce RTX 4060", "2882", "8.9", 8188, 8192, 4, width=8),
    Model("NVIDIA GeForce RTX 4070", "2786", "8.9", 12282, 16384, 4),
    Model("NVIDIA GeForce RTX 4080", "2704", "8.9", 16376, 16384, 4),
    Model("NVIDIA GeForce RTX 4090", "2684", "8.9", 24564, 32768, 4),
    Model("NVIDIA H100 PCIe", "2331", "9.0", 81559, 131072, 5, ecc=True, mig=True),
    Model("NVIDIA H100 80GB HBM3", "2330", "9.0", 81559, 131072, 5, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA H100 NVL", "2321", "9.0", 95830, 131072, 5, ecc=True, mig=True),
    Model("NVIDIA H20", "2329", "9.0", 97871, 131072, 5, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA H200", "2335", "9.0", 143771, 262144, 5, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA H200 NVL", "233b", "9.0", 143771, 262144, 5, ecc=True, mig=True),
    Model("NVIDIA GH200 480GB", "2342", "9.0", 97871, 131072, 5, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA B200", "2901", "10.0", 183359, 262144, 5, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA GB200", "2941", "10.0", 189471, 262144, 6, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA B300 SXM6 AC", "3182", "10.3", 275040, 524288, 6, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA GB300", "31c2", "10.3", 284208, 524288, 6, ecc=True, mig=True, nvlinks=18),
    Model("NVIDIA GeForce RTX 5070 Ti", "2c05", "12.0", 16303, 16384, 5),
    Model("NVIDIA GeForce RTX 5080", "2c02", "12.0", 16303, 16384, 5),
    Model("NVIDIA GeForce RTX 5090", "2b85", "12.0", 32607, 32768, 5),
    Model(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "2bb5",
        "12.0",
        97887,
        131072,
        5,
        ecc=True,
        mig=True,
    ),
    Model(
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "2bb1",
        "12.0",
        97887,
        131072,
        5,
        ecc=True,
        mig=True,
    ),
    Model("NVIDIA GB10", "2e12", "12.1", 122880, 32768, 5, integrated=True),
    Model("Orin", "", "8.7", 30697, 0, 4, integrated=True),
    Model("NVIDIA Thor", "", "11.0", 125772, 0, 5, integrated=True),
)
_VENDOR = re.compile(r"^(nvidia|tesla|quadro)\s+", re.IGNORECASE)


def model(name: str) -> Model:
    """The board with that name, with or without the vendor's; UsageError names the nearest."""
    wanted = _plain(name)
    for exact in MODELS:
        if exact.name == name:
            return exact
    for item in MODELS:
        if _plain(item.name) == wanted:
            return item
    for item in MODELS:
        if _plain(item.name).startswith(wanted + " ") or _plain(item.name).startswith(wanted + "-"):
            return item
    near = difflib.get_close_matches(name, [item.name for item in MODELS], n=1, cutoff=0.3)
    hint = f"did you mean {near[0]}?" if near else "write the name that nvidia-smi -L prints"
    raise UsageError(f"gpus: {name} is not a GPU that can be simulated; {hint}", hint)


def _plain(name: str) -> str:
    plain = name.strip().lower()
    while _VENDOR.match(plain):
        plain = _VENDOR.sub("", plain)
    return plain.removeprefix("geforce ").strip()
