"""Units and versions of the fabric; where systemd does not run, nothing is inactive."""

from __future__ import annotations

import pytest

from doctor.facts.tree import AREAS
from doctor.probes.areas import fabric
from doctor.simulate.memory import MemorySource
from doctor.simulate.writer import RecordingWriter

SHOWN = """Restart=no
ActiveEnterTimestampMonotonic=12345678
Result=success
Id=nvidia-persistenced.service
Requires=sysinit.target
After=basic.target sysinit.target
LoadState=loaded
ActiveState=active
UnitFileState=enabled

Id=nvidia-fabricmanager.service
LoadState=not-found
ActiveState=inactive
"""
ARGV = ["systemctl", "show", "--no-pager", "-p", fabric.PROPERTIES]


def host(shown: str = SHOWN) -> RecordingWriter:
    out = RecordingWriter()
    out.folder("/run/systemd/system")
    out.command([*ARGV, *fabric.SERVICES], shown)
    return out


def test_all_facts_of_the_area() -> None:
    for out in (RecordingWriter(), host()):
        assert set(fabric.probe(MemorySource(out))) == set(AREAS["fabric"].__struct_fields__)


def test_units_that_are_there_and_not() -> None:
    facts = fabric.probe(MemorySource(host()))
    unit = facts["persistenced"].value
    assert (unit["active"], unit["enabled"], unit["since"]) == ("active", "enabled", 12)
    assert facts["manager"].state == "absent"
    assert facts["imex"].state == "unknown"
    assert facts["engines"].value == []


def test_without_systemd_units_are_absent() -> None:
    facts = fabric.probe(MemorySource(RecordingWriter()))
    assert facts["persistenced"].state == "absent"


def test_inside_a_container_nothing_applies() -> None:
    out = host()
    out.file("/.dockerenv")
    facts = fabric.probe(MemorySource(out))
    assert {fact.state for fact in facts.values()} == {"not-applicable"}


@pytest.mark.parametrize(
    "shown", ["", "Lade-Status geladen\n", "Id=x.service\nActiveState=active\n"]
)
def test_answer_in_other_words_is_unknown(shown: str) -> None:
    assert fabric.probe(MemorySource(host(shown)))["manager"].state == "unknown"


@pytest.mark.parametrize("error", ["timeout", "denied", "too-large"])
def test_systemctl_that_does_not_answer(error: str) -> None:
    out = host()
    out.command([*ARGV, *fabric.SERVICES], error=error)
    assert fabric.probe(MemorySource(out))["persistenced"].state == "unknown"


def test_engines_by_what_their_units_start() -> None:
    out = host()
    out.file("/etc/systemd/system/chat.service", "[Service]\nExecStart=-/opt/v/bin/vllm serve m\n")
    out.file("/etc/systemd/system/web.service", "[Service]\nExecStart=/usr/sbin/nginx\n")
    out.file(
        "/usr/lib/systemd/system/ollama.service", "[Service]\nExecStart=/usr/bin/ollama serve\n"
    )
    names = ["chat.service", "ollama.service"]
    blocks = [f"Id={name}\nLoadState=loaded\nActiveState=active\nAfter=\n" for name in names]
    out.command([*ARGV, *names], "\n".join(blocks))
    units = fabric.probe(MemorySource(out))["engines"].value
    assert [(unit["name"], unit["engine"]) for unit in units] == [
        ("chat.service", "vllm"),
        ("ollama.service", "ollama"),
    ]


def test_unit_file_that_may_not_be_read_is_not_no_engine() -> None:
    out = host()
    out.file("/etc/systemd/system/chat.service", keep=False)
    out.denied("/etc/systemd/system/chat.service")
    assert fabric.probe(MemorySource(out))["engines"].state == "unknown"


def test_masked_unit_starts_nothing() -> None:
    out = host()
    out.file(
        "/usr/lib/systemd/system/vllm.service", "[Service]\nExecStart=/opt/vllm/bin/vllm serve m\n"
    )
    out.link("/etc/systemd/system/vllm.service", "/dev/null")
    assert fabric.probe(MemorySource(out))["engines"].value == []


def test_version_of_fabric_manager() -> None:
    out = host()
    assert fabric.probe(MemorySource(out))["manager_version"].state == "absent"
    out.file("/usr/bin/nv-fabricmanager", keep=False)
    argv = ["/usr/bin/nv-fabricmanager", "--version"]
    out.command(argv, "Fabric Manager version is : 580.95.05\n")
    assert fabric.probe(MemorySource(out))["manager_version"].value == "580.95.05"
    out.command(argv, "usage\n")
    assert fabric.probe(MemorySource(out))["manager_version"].state == "unknown"
    out.command(argv, "", signal=9)
    assert fabric.probe(MemorySource(out))["manager_version"].state == "unknown"


def test_subnet_manager_without_a_package() -> None:
    out = host()
    out.file("/opt/nvidia/nvlsm/sbin/nvlsm", keep=False)
    assert fabric.nvlsm_version(MemorySource(out)).value == "installed"
    out.command(["dpkg-query", "-W", "-f=${Version}", "nvlsm"], "2025.03.1-1")
    assert fabric.nvlsm_version(MemorySource(out)).value == "2025.03.1-1"


def test_continued_exec_line() -> None:
    text = "[Service]\nExecStart=/usr/bin/docker run \\\n   --gpus all vllm/vllm-openai\n"
    assert fabric.exec_lines(text) == ["/usr/bin/docker run  --gpus all vllm/vllm-openai"]
