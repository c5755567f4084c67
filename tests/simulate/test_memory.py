"""A recording in memory answers exactly like the same one written to a folder and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.facts.tree import AREAS
from doctor.probes import registry
from doctor.probes.recordings.recorded import RecordedSource
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from tests.simulate.hosts import hosts

NAMES = [
    "h100",
    "rocky",
    "nvswitch",
    "wsl2",
    "container",
    "docker",
    "no-gpu",
    "podman",
    "jetson",
    "01-nvml-driver-library-mismatch-minor-update",
    "08-vllm-image-cuda-compat-ldconf-803",
    "31-secure-boot-rejects-built-module-gb200",
    "42-apt-mixed-ubuntu-and-cuda-repo-530",
    "59-runtime-in-daemon-json-but-daemon-not-restarted",
]


@pytest.mark.parametrize("name", NAMES)
def test_written_and_read_back_is_the_same(name: str, tmp_path: Path) -> None:
    recording = simulate(hosts()[name])
    memory = MemorySource(recording)
    folder = RecordedSource(str(recording.write(tmp_path / "recording")))
    for area in AREAS:
        probe = registry.load(area)
        here = {key: fact.json() for key, fact in probe(memory).items()}
        there = {key: fact.json() for key, fact in probe(folder).items()}
        assert here == there, area
