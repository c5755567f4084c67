"""The look at cuInit and the toolkits on disk."""

from __future__ import annotations

import json

import pytest

from doctor.probes.areas import cuda
from doctor.probes.children.cuda_child import as_json
from doctor.probes.fact import Fact
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate


def host(**changes: object) -> dict[str, Fact]:
    return cuda.probe(MemorySource(simulate({"gpus": ["NVIDIA L4"]} | changes)))


def test_second_look_is_asked_only_after_a_failure() -> None:
    assert host()["clean"].state == "not-applicable"
    facts = host(env={"CUDA_VISIBLE_DEVICES": ""})
    assert facts["scope"].value["code"] == 100
    assert facts["clean"].value["code"] == 0


def test_no_library_is_absent_and_a_crash_is_unknown() -> None:
    out = simulate({"gpus": ["NVIDIA L4"]})
    out.cuda_look(code=None, lib=None, error="not-found")
    assert cuda.probe(MemorySource(out))["scope"].state == "absent"
    out.cuda_look(code=None, error="killed by signal 11")
    facts = cuda.probe(MemorySource(out))
    assert (facts["scope"].state, facts["clean"].state) == ("unknown", "unknown")
    assert "signal 11" in facts["scope"].reason


def test_driver_version_of_the_api() -> None:
    seen = {"cuInit": 0, "count": 2, "driver_version": 12040, "lib": "/x/libcuda.so.1"}
    assert cuda.look(seen) == {
        "code": 0,
        "count": 2,
        "driver_version": "12.4",
        "library": "/x/libcuda.so.1",
    }


@pytest.mark.parametrize(
    "value", [True, False, 0, -3, "", "/a b/libcuda.so.1", 'a"b\\c', "\u00e9\n", None]
)
def test_the_child_writes_json(value: object) -> None:
    assert json.loads(as_json(value)) == value


def test_toolkits_and_their_default() -> None:
    facts = host(toolkits=["12.4.1", "13.0"])
    assert [(item["path"], item["version"]) for item in facts["toolkits"].value] == [
        ("/usr/local/cuda-12.4", "12.4.1"),
        ("/usr/local/cuda-13.0", "13.0.0"),
    ]
    assert facts["default_toolkit"].value == "/usr/local/cuda-13.0"
    assert facts["nvcc"].value == "13.0.0"


def test_version_from_files_else_from_the_folder() -> None:
    assert cuda.parse_version_json('{"cuda": {"version": "13.0.2"}}') == "13.0.2"
    assert cuda.parse_version_text("CUDA Version 10.2.89\n") == "10.2.89"
    out = simulate({"toolkits": ["13.0"]})
    out.file("/usr/local/cuda-13.0/version.json", "{")
    facts = cuda.probe(MemorySource(out))
    assert facts["toolkits"].value[0]["version"] == "13.0"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"cuda": null}'])
def test_malformed_version_json(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        cuda.parse_version_json(text)


def test_a_compat_folder_alone_is_no_toolkit() -> None:
    assert host(compat={"version": "575.57.08"})["toolkits"].value == []


def test_only_named_variables_leave_the_host() -> None:
    facts = host(env={"CUDA_HOME": "/usr/local/cuda", "CUDA_SECRET": "x", "HF_TOKEN": "y"})
    assert facts["environment"].value == {"CUDA_HOME": "/usr/local/cuda"}
