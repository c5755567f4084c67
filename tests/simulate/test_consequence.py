"""What NVML and cuInit answer follows from the host's state, as measured on real hosts with one fault at a time."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from doctor.simulate.resolve import resolve

MISMATCH = "NVML_ERROR_LIB_RM_VERSION_MISMATCH"
NOT_LOADED = "NVML_ERROR_DRIVER_NOT_LOADED"
NO_LIBRARY = "NVML_ERROR_LIBRARY_NOT_FOUND"
H100 = "gpus: [NVIDIA H100 80GB HBM3]\n"

STATES: list[tuple[str, str, int | None]] = [
    ("{}", NO_LIBRARY, None),
    (H100, "ok", 0),
    (H100 + "driver: none", NO_LIBRARY, None),
    (H100 + "driver: {version: '580.95.05', loaded: '580.82.07'}", MISMATCH, 803),
    (H100 + "driver: {version: '580.95.05', loaded: none}", NOT_LOADED, 100),
    (H100 + "driver: {version: '580.95.05', disk: none}", NOT_LOADED, 100),
    (H100 + "dkms: {state: failed}", NOT_LOADED, 100),
    ("gpus: [{name: L40S, bound_to: nouveau}]\ndriver: '580.95.05'", NOT_LOADED, 100),
    (H100 + "stubs: [/opt/stubs]\nld_library_path: [/opt/stubs]", "ok", 34),
    (H100 + "ld_library_path: [/usr/local/cuda/lib64/stubs]", "ok", 0),
    (
        H100
        + "driver: '580.159.04'\ncompat: {version: '580.95.05'}\nldconfig: [/usr/local/cuda/compat]",
        "ok",
        803,
    ),
    (
        H100
        + "driver: '550.90.07'\ncompat: {version: '580.95.05'}\nldconfig: [/usr/local/cuda/compat]",
        "ok",
        0,
    ),
    (
        "gpus: [RTX 4090]\ndriver: '550.90.07'\ncompat: {version: '580.95.05'}\n"
        "ld_library_path: [/usr/local/cuda/compat]",
        "ok",
        804,
    ),
    (H100 + "compat: {version: '560.35.03'}", "ok", 0),
    (H100 + "env: {CUDA_VISIBLE_DEVICES: ''}", "ok", 100),
    (H100 + "env: {CUDA_VISIBLE_DEVICES: '1'}", "ok", 100),
    (H100 + "env: {CUDA_VISIBLE_DEVICES: '0'}", "ok", 0),
    (H100 + "driver: {version: '580.95.05', nodes: {/dev/nvidia-uvm: file}}", "ok", 999),
    (
        H100 + "driver: {version: '580.95.05', modprobe: false, nodes: {/dev/nvidia-uvm: none}}",
        "ok",
        999,
    ),
    (H100 + "driver: {version: '580.95.05', nodes: {/dev/nvidia-uvm: none}}", "ok", 0),
    (
        "gpus: [{name: H100 80GB HBM3, count: 8}]\nnvswitch: 4\nfabric_manager: {state: failed}",
        "ok",
        802,
    ),
    (
        "gpus: [{name: H100 80GB HBM3, count: 8}]\nnvswitch: 4\nfabric_manager: {version: '570.86.10'}",
        "ok",
        802,
    ),
    ("gpus: [{name: H100 80GB HBM3, count: 8}]\nnvswitch: 4", "ok", 0),
    ("gpus: [{name: A100 80GB PCIe, mig: on}]", "ok", 100),
    ("gpus: [{name: A100 80GB PCIe, mig: 3}]", "ok", 0),
    ("gpus: [RTX 5090]\ndriver: {version: '570.144', flavor: proprietary}", "ok", 100),
    ("gpus: [GT 1030]\ndriver: {version: '560.31.02', flavor: open}", NOT_LOADED, 100),
    ("gpus: [Tesla P40]\ndriver: {version: '595.58.03', flavor: proprietary}", NOT_LOADED, 100),
    ("gpus: [A40, {name: A40, bar1: 0}]", "ok", 0),
    ("platform: wsl2\ngpus: [RTX 4090]", "ok", 0),
    ("platform: wsl2\ngpus: [RTX 4090]\nwsl: {lib_dir: []}", NO_LIBRARY, None),
    (
        "platform: container\ngpus: [H100 PCIe]\ndriver: {version: '580.95.05', library: none}",
        NO_LIBRARY,
        None,
    ),
    (H100 + "says: {cuInit: 999}", "ok", 999),
]


@pytest.mark.parametrize(("text", "init", "cuda"), STATES, ids=[text for text, _, _ in STATES])
def test_answers_follow_from_the_state(text: str, init: str, cuda: int | None) -> None:
    raw: Any = yaml.safe_load(text)
    host = resolve(raw)
    assert (host.init, host.cuda) == (init, cuda)


@pytest.mark.parametrize(
    ("text", "flavor"),
    [
        ("gpus: [B200]", "open"),
        ("gpus: [Tesla V100-PCIE-16GB]", "proprietary"),
        ("gpus: [L4]\ndriver: '535.183.06'", "proprietary"),
        ("gpus: [L4]\ndriver: '580.95.05'", "open"),
        ("gpus: [RTX 5090]\ndriver: '570.144'", "open"),
    ],
)
def test_flavor_is_the_one_that_works(text: str, flavor: str) -> None:
    assert resolve(yaml.safe_load(text)).driver.flavor == flavor


@pytest.mark.parametrize(
    "name",
    [
        "ubuntu-20.04",
        "ubuntu-22.04",
        "ubuntu-24.04",
        "ubuntu-26.04",
        "debian-11",
        "debian-12",
        "debian-13",
        "rocky-8",
        "rocky-9.6",
        "rocky-10",
        "rhel-8.10",
        "rhel-9.2",
        "rhel-10.0",
        "almalinux-9.7",
        "fedora-40",
        "fedora-42",
        "fedora-44",
        "centos-7",
        "amzn-2023",
        "opensuse",
        "opensuse-leap-15.6",
        "sles-15.6",
        "arch",
        "nixos-24.05",
        "nixos",
        "solus",
        "solus-4.7",
        "pop-22.04",
    ],
)
def test_distribution_has_everything_a_host_needs(name: str) -> None:
    host = resolve({"distro": name, "gpus": ["NVIDIA L4"]})
    assert host.kernel
    assert host.glibc
    assert f"ID={host.distro_id}\n" in host.os_release
    assert host.driver.loaded
