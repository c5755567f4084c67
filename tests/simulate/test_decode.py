"""Descriptions are read strictly: one sentence, the nearest right thing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from doctor.errors import UsageError
from doctor.simulate.resolve import resolve

WRONG = [
    ("gpsu: []", "no key gpsu; did you mean gpus?"),
    ("gpus: [{name: H100, bra1: 0}]", "no key bra1 under gpus[0]; did you mean bar1?"),
    ("containers: {dokcer: '28'}", "no key dokcer under containers; did you mean docker?"),
    (
        "containers: {cdi: {driverr: '580.95.05'}}",
        "no key driverr under containers.cdi; did you mean driver?",
    ),
    ("services: {vllm: {stat: active}}", "did you mean state?"),
    ("mig: on", "no key mig; mig is a key of gpus"),
    ("driver: 580.95", "driver: a bare number loses its end; put versions in quotes"),
    ("gpus: H100", "gpus: expected array, got str"),
    ("cpus: many", "cpus: expected int, got str"),
    ("platform: baremetal", "platform: invalid enum value 'baremetal'"),
    ("distro: ubunt-24.04", "did you mean ubuntu-24.04?"),
    ("distro: rocky-9.66", "distro: rocky-9.66 is not a distribution"),
    ("gpus: [NVIDIA H10]", "NVIDIA H10 is not a GPU that can be simulated"),
    ("shm: {size: big}", "big is not a size"),
    ("[1, 2]", "a description is a mapping"),
    (
        "wsl: {windows_driver: '555.85'}",
        "contradicts itself: a wsl section with platform bare-metal",
    ),
    ("platform: container\ndkms: {state: installed}", "dkms installed with platform container"),
    ("gpus: [{name: H100, bound_to: nvidia}]\ndriver: none", "no nvidia module is loaded"),
    ("modules: [nvidia]\ndriver: {version: '580.95.05', loaded: none}", "modules has nvidia"),
    ("gpus: [{name: H100, bound_to: nouveau}]\nmodules: [ext4]", "modules has no nouveau"),
    ("driver: {version: none, loaded: '580.95.05'}", "driver.version is none"),
    (
        "gpus: [H100]\nsays: {cuInit: 999}\ndriver: {version: '580.95.05', library: '570.86.10'}",
        "make it 803",
    ),
    (
        "gpus: [H100]\nsays: {nvml: NVML_ERROR_UNKNOWN}\ndriver: {version: '580.95.05', loaded: none}",
        "DRIVER_NOT_LOADED",
    ),
    ("says: {uname -r: 6.1.0}", "the field kernel decides that output"),
    ("says: {cuInit: many}", "not a number"),
]


@pytest.mark.parametrize(
    ("text", "told"), WRONG, ids=[text.partition("\n")[0] for text, _ in WRONG]
)
def test_wrong_description_is_one_sentence(text: str, told: str) -> None:
    from doctor.simulate.simulator import simulate

    raw: Any = yaml.safe_load(text)
    with pytest.raises(UsageError) as raised:
        simulate(raw)
    assert told in raised.value.message
    assert "\n" not in raised.value.message


def test_yaml_words_are_text_where_text_is_meant() -> None:
    host = resolve(
        yaml.safe_load(
            "gpus: [{name: A100-SXM4-80GB, mig: on, bar1: 0}]\nsecure_boot: on\nas_of: 2026-11-30"
        )
    )
    assert host.boards[0].part.mig == "on"
    assert host.boards[0].refusal == "bar1"
    assert host.d.secure_boot is True
    assert host.d.as_of == "2026-11-30"
