"""CDI specifications in both formats give the same few facts; what is neither is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.probes.reading import cdi
from doctor.probes.recordings.recorded import RecordedSource
from doctor.simulate.writer import RecordingWriter

YAML = """---
cdiVersion: 0.7.0
containerEdits:
  additionalGids:
  - 44
  deviceNodes:
  - path: /dev/nvidiactl
  - hostPath: /run/nvidia/driver/dev/nvidia-uvm
    path: /dev/nvidia-uvm
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args:
    - nvidia-cdi-hook
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib/libcuda.so.580.95.05
    hostPath: "/usr/lib/libcuda.so.580.95.05" # the driver
    options:
    - ro
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
"""
JSON = json.dumps(
    {
        "cdiVersion": "0.7.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
            {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
        ],
        "containerEdits": {
            "deviceNodes": [
                {"path": "/dev/nvidiactl"},
                {"path": "/dev/nvidia-uvm", "hostPath": "/run/nvidia/driver/dev/nvidia-uvm"},
            ],
            "mounts": [{"hostPath": "/usr/lib/libcuda.so.580.95.05", "containerPath": "/x"}],
        },
    }
)


@pytest.mark.parametrize("text", [YAML, JSON])
def test_reads_the_few_lines_that_matter(text: str) -> None:
    spec = cdi.parse_spec(text)
    assert spec["cdi_version"] == "0.7.0"
    assert spec["kind"] == "nvidia.com/gpu"
    assert spec["devices"] == ["0", "all"]
    assert set(spec["host_paths"]) == {
        "/dev/nvidiactl",
        "/dev/nvidia0",
        "/run/nvidia/driver/dev/nvidia-uvm",
        "/usr/lib/libcuda.so.580.95.05",
    }
    assert cdi.driver_version(spec["host_paths"]) == "580.95.05"


@pytest.mark.parametrize("text", ["", "hello: world\n", "{", '{"kind": ', "[1]", "- 1\n"])
def test_what_is_no_specification_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        cdi.parse_spec(text)


def _source(folder: Path, **files: Any) -> RecordedSource:
    out = RecordingWriter()
    for path, content in files.items():
        out.file(path, content)
    return RecordedSource(str(out.write(folder / "rec")))


def test_missing_host_paths_are_named(tmp_path: Path) -> None:
    source = _source(
        tmp_path, **{"/etc/cdi/nvidia.yaml": YAML, "/dev/nvidia0": "", "/etc/cdi/x.txt": ""}
    )
    fact = cdi.specs(source)
    assert fact.ok
    (spec,) = fact.value
    assert "/dev/nvidia0" not in spec["missing_paths"]
    assert "/usr/lib/libcuda.so.580.95.05" in spec["missing_paths"]


def test_another_vendors_specification_is_left_out(tmp_path: Path) -> None:
    source = _source(
        tmp_path, **{"/var/run/cdi/amd.json": '{"cdiVersion": "0.6.0", "kind": "amd.com/gpu"}'}
    )
    assert cdi.specs(source).value == []


def test_an_unreadable_specification_is_unknown(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.folder("/etc/cdi")
    out.denied("/etc/cdi/nvidia.yaml")
    out.file("/var/run/cdi/n.yaml", b"cdiVersion: \xff\xfe")
    source = RecordedSource(str(out.write(tmp_path / "rec")))
    fact = cdi.specs(source)
    assert fact.state == "unknown"
    assert fact.via == "/etc/cdi/nvidia.yaml"


def test_no_folder_is_no_specification(tmp_path: Path) -> None:
    fact = cdi.specs(_source(tmp_path))
    assert fact.ok
    assert fact.value == []
