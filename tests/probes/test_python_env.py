"""Environments are read from metadata: found where engines live, and what cannot be read is said."""

from __future__ import annotations

import pytest

from doctor.facts.tree import AREAS
from doctor.probes.areas import python_env
from doctor.probes.reading import wheel
from doctor.simulate.memory import MemorySource
from doctor.simulate.writer import RecordingWriter

TORCH_VERSION = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = '70d99e998b4955e0049d13a98d77ae1b14db1f45'
hip: Optional[str] = None
xpu: Optional[str] = None
"""
METADATA = """Metadata-Version: 2.4
Name: vllm
Version: 0.24.0
Requires-Python: <3.15,>=3.10
Requires-Dist: torch==2.11.0
Requires-Dist: xgrammar<1.0.0,>=0.2.1; platform_machine == "x86_64"
Requires-Dist: fastapi
Requires-Dist: ray[cgraph]; extra == "ray"

# vLLM
Requires-Dist: not-a-header
"""


def environment(out: RecordingWriter, prefix: str = "/opt/venv") -> str:
    site = f"{prefix}/lib/python3.12/site-packages"
    out.file(f"{prefix}/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n")
    out.file(f"{site}/torch-2.11.0+cu130.dist-info/METADATA", "Name: torch\nVersion: 2.11.0\n\n")
    out.file(
        f"{site}/torch-2.11.0+cu130.dist-info/WHEEL", "Tag: cp312-cp312-manylinux_2_28_x86_64\n"
    )
    out.file(f"{site}/torch/version.py", TORCH_VERSION)
    out.file(f"{site}/nvidia_nccl_cu13-2.28.9.dist-info/RECORD")
    out.file(f"{site}/nvidia/nccl/lib/libnccl.so.2", keep=False, size=217995896)
    return site


def found(out: RecordingWriter) -> list[dict[str, object]]:
    value = python_env.probe(MemorySource(out))["environments"]
    assert value.ok, value
    return list(value.value)


def test_all_facts_of_the_area() -> None:
    assert set(python_env.probe(MemorySource(RecordingWriter()))) == set(
        AREAS["python_env"].__struct_fields__
    )


def test_environment_under_opt() -> None:
    out = RecordingWriter()
    site = environment(out)
    (item,) = found(out)
    assert item["path"] == "/opt/venv"
    assert item["python"] == "3.12.3"
    assert item["packages"] == {"torch": "2.11.0+cu130", "nvidia-nccl-cu13": "2.28.9"}
    assert (item["torch_cuda"], item["torch_cpu_only"]) == ("13.0", False)
    assert item["glibc_tags"] == {"torch": "2.28"}
    assert item["libraries"] == {"libnccl.so.2": f"{site}/nvidia/nccl/lib/libnccl.so.2"}
    assert item["in_scope"] is False


def test_environment_of_the_scope_comes_first_and_once() -> None:
    out = RecordingWriter()
    environment(out, "/opt/venv")
    environment(out, "/home/u/env")
    out.file("/home/u/env/bin/python3", keep=False)
    out.process["env"] = {"VIRTUAL_ENV": "/home/u/env", "PATH": "/home/u/env/bin:/usr/bin"}
    assert [(item["path"], item["in_scope"]) for item in found(out)] == [
        ("/home/u/env", True),
        ("/opt/venv", False),
    ]


def test_environment_of_an_engine_unit() -> None:
    out = RecordingWriter()
    environment(out, "/srv/app/.venv")
    out.file("/srv/app/.venv/bin/python3", keep=False)
    out.file(
        "/etc/systemd/system/chat.service",
        "[Service]\nExecStart=/srv/app/.venv/bin/vllm serve model \\\n  --port 8000\n",
    )
    assert [item["path"] for item in found(out)] == ["/srv/app/.venv"]


def test_folder_that_may_not_be_listed_costs_only_itself() -> None:
    out = RecordingWriter()
    environment(out)
    out.folder("/opt/closed")
    out.denied("/opt/closed/lib")
    facts = python_env.probe(MemorySource(out))
    assert len(facts["environments"].value) == 1
    assert facts["unread"].value == ["/opt/closed/lib"]


def test_variable_that_sudo_reset_is_said() -> None:
    out = RecordingWriter()
    out.process.update({"sudo": True, "env": {"SUDO_UID": "1000"}})
    unread = python_env.probe(MemorySource(out))["unread"].value
    assert {"$VIRTUAL_ENV", "$CONDA_PREFIX"} <= set(unread)


def test_cpu_build_and_unreadable_build() -> None:
    out = RecordingWriter()
    site = environment(out)
    out.file(f"{site}/torch/version.py", TORCH_VERSION.replace("'13.0'", "None"))
    assert found(out)[0]["torch_cpu_only"] is True
    out.file(f"{site}/torch/version.py", b"\xff\xfe")
    item = found(out)[0]
    assert (item["torch_cuda"], item["torch_cpu_only"]) == ("13.0", False)


def test_build_for_another_accelerator_is_no_cpu_build() -> None:
    text = TORCH_VERSION.replace("'13.0'", "None").replace(
        "hip: Optional[str] = None", "hip = '6.4'"
    )
    assert wheel.parse_torch_version(text) == (None, True)


@pytest.mark.parametrize("text", ["", "hip = None\n", "no python at all"])
def test_torch_version_without_cuda_line(text: str) -> None:
    with pytest.raises(ValueError, match="no cuda"):
        wheel.parse_torch_version(text)


@pytest.mark.parametrize(
    ("tag", "floor", "machine"),
    [
        ("cp38-abi3-manylinux_2_31_x86_64", "2.31", "x86_64"),
        ("cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64", "2.27", "x86_64"),
        ("cp39-abi3-manylinux1_x86_64", "2.5", "x86_64"),
        ("cp312-cp312-linux_aarch64", None, "aarch64"),
        ("py3-none-any", None, None),
    ],
)
def test_wheel_tags(tag: str, floor: str | None, machine: str | None) -> None:
    assert wheel.parse_wheel(f"Wheel-Version: 1.0\nTag: {tag}\n") == (floor, machine)


def test_wheel_without_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="no Tag"):
        wheel.parse_wheel("Wheel-Version: 1.0\n")


def test_metadata_keeps_tracked_requirements_and_stops_at_the_description() -> None:
    requires, python = wheel.parse_metadata(METADATA)
    assert requires == ["torch==2.11.0", 'xgrammar<1.0.0,>=0.2.1; platform_machine == "x86_64"']
    assert python == "<3.15,>=3.10"


def test_truncated_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="no Name"):
        wheel.parse_metadata("Metadata-Version: 2.4\n")


def test_distribution_folders() -> None:
    names = [
        "numpy-1.26.4.egg-info",
        "Foo.Bar-1.0.dist-info",
        "torch",
        "-1.dist-info",
        "x.dist-info",
    ]
    assert wheel.distributions(names) == {
        "numpy": ("1.26.4", "numpy-1.26.4.egg-info"),
        "foo-bar": ("1.0", "Foo.Bar-1.0.dist-info"),
    }


def test_system_python_by_its_link_and_by_its_words() -> None:
    out = RecordingWriter()
    out.link("/usr/bin/python3", "python3.12")
    out.file("/usr/lib/python3.12/EXTERNALLY-MANAGED", "")
    facts = python_env.probe(MemorySource(out))
    assert facts["system_python"].value == "3.12"
    assert facts["managed_by"].value == "/usr/lib/python3.12/EXTERNALLY-MANAGED"
    out = RecordingWriter()
    out.file("/usr/bin/python3", keep=False)
    out.command(["/usr/bin/python3", "-I", "-S", "-V"], "Python 3.9.18\n")
    assert python_env.system_python(MemorySource(out)).value == "3.9.18"
    out.command(["/usr/bin/python3", "-I", "-S", "-V"], error="timeout")
    assert python_env.system_python(MemorySource(out)).state == "unknown"


def test_host_where_nothing_was_recorded() -> None:
    facts = python_env.probe(MemorySource(RecordingWriter(missing="unknown")))
    assert facts["environments"].value == []
    assert facts["unread"].value
    assert facts["system_python"].state == "unknown"
