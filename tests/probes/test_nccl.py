"""Which copy of NCCL a program gets, and what steers it; a version that nothing says is unknown."""

from __future__ import annotations

import pytest

from doctor.facts.tree import AREAS
from doctor.probes.areas import nccl
from doctor.probes.reading import wheel
from doctor.simulate.memory import MemorySource
from doctor.simulate.writer import RecordingWriter

LIBDIR = "/usr/lib/x86_64-linux-gnu"


def copy(out: RecordingWriter, folder: str, version: str) -> None:
    out.file(f"{folder}/libnccl.so.{version}", keep=False)
    out.link(f"{folder}/libnccl.so.2", f"libnccl.so.{version}")


def host() -> RecordingWriter:
    out = RecordingWriter()
    out.file("/proc/sys/kernel/arch", "x86_64\n")
    copy(out, LIBDIR, "2.28.3")
    listing = f"1 libs found in cache\n\tlibnccl.so.2 (libc6,x86-64) => {LIBDIR}/libnccl.so.2\n"
    out.command(["ldconfig", "-p"], listing)
    return out


def test_all_facts_of_the_area() -> None:
    assert set(nccl.probe(MemorySource(RecordingWriter()))) == set(AREAS["nccl"].__struct_fields__)


def test_system_copy_and_the_one_before_it() -> None:
    out = host()
    copy(out, "/opt/nccl/lib", "2.21.5")
    out.process["env"] = {"LD_LIBRARY_PATH": "/nowhere:/opt/nccl/lib", "NCCL_HOME": "/opt/nccl"}
    facts = nccl.probe(MemorySource(out))
    assert facts["system"].value == "2.28.3"
    assert facts["loader"].value["version"] == "2.21.5"
    assert facts["loader"].value["why"] == "LD_LIBRARY_PATH:/opt/nccl/lib"
    assert [item["version"] for item in facts["named"].value] == ["2.21.5"]
    assert facts["environment"].value == {"NCCL_HOME": "/opt/nccl"}


def test_environment_that_sudo_reset_is_unknown() -> None:
    out = host()
    out.process.update({"sudo": True, "env": {"SUDO_UID": "1000"}})
    facts = nccl.probe(MemorySource(out))
    assert facts["environment"].state == "unknown"
    assert facts["loader"].state == "unknown"
    assert facts["system"].value == "2.28.3"


def test_wheel_version_by_metadata_and_by_header() -> None:
    out = host()
    site = "/opt/venv/lib/python3.12/site-packages"
    out.file(f"{site}/torch-2.9.1.dist-info/METADATA", "Name: torch\n\n")
    out.file(f"{site}/nvidia/nccl/lib/libnccl.so.2", keep=False)
    assert nccl.probe(MemorySource(out))["wheels"].state == "unknown"
    out.file(
        f"{site}/nvidia/nccl/include/nccl.h",
        "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 5\n",
    )
    wheels = nccl.probe(MemorySource(out))["wheels"].value
    assert wheels == {f"{site}/nvidia/nccl/lib/libnccl.so.2": "2.27.5"}


def test_header_without_patch_is_refused() -> None:
    with pytest.raises(KeyError):
        wheel.parse_nccl_header("#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n")


def test_configuration_files_in_their_order() -> None:
    out = host()
    assert nccl.probe(MemorySource(out))["conf"].state == "absent"
    out.file("/etc/nccl.conf", "# site\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME==ens1f0\n")
    out.file("/root/.nccl.conf", "NCCL_DEBUG=INFO\n")
    out.process["env"] = {"HOME": "/root"}
    assert nccl.probe(MemorySource(out))["conf"].value == {
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_IFNAME": "=ens1f0",
    }


@pytest.mark.parametrize("text", ["NCCL_DEBUG", "export NCCL_DEBUG=INFO", "[section]"])
def test_configuration_that_is_something_else(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=value"):
        nccl.parse_conf(text)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("CapEff:\t0000000000000000\nSeccomp:\t0\n", True),
        ("CapEff:\t00000000a80425fb\nSeccomp:\t2\n", False),
        ("CapEff:\t00000000a88425fb\nSeccomp:\t2\n", True),
    ],
)
def test_numa_calls(text: str, allowed: bool) -> None:
    assert nccl.parse_numa_calls(text) is allowed


@pytest.mark.parametrize("text", ["", "CapEff:\tnonsense\n"])
def test_numa_calls_of_a_truncated_status(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        nccl.parse_numa_calls(text)


@pytest.mark.parametrize(
    ("main", "drop", "state"),
    [
        ("[Login]\n#RemoveIPC=yes\n", None, True),
        ("[Login]\n#RemoveIPC=no\n", None, False),
        ("[Login]\n#RemoveIPC=yes\n", "[Login]\nRemoveIPC=no\n", False),
        ("[Login]\nRemoveIPC=no\n", "[Login]\nRemoveIPC=yes\n", True),
    ],
)
def test_removeipc(main: str, drop: str | None, state: bool) -> None:
    out = host()
    out.folder("/run/systemd/system")
    out.file("/etc/systemd/logind.conf", main)
    if drop:
        out.file("/etc/systemd/logind.conf.d/10-site.conf", drop)
    assert nccl.remove_ipc(MemorySource(out)).value is state


def test_removeipc_that_no_file_says() -> None:
    out = host()
    assert nccl.remove_ipc(MemorySource(out)).state == "not-applicable"
    out.folder("/run/systemd/system")
    assert nccl.remove_ipc(MemorySource(out)).state == "unknown"
    out.denied("/etc/systemd/logind.conf")
    assert nccl.remove_ipc(MemorySource(out)).state == "unknown"
