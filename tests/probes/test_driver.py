"""The driver probe: parsers on good and bad text, and the loader's choice."""

from __future__ import annotations

import pytest

from doctor.probes.areas import driver
from doctor.probes.areas.driver import (
    chosen_package,
    driver_packages,
    parse_major,
    parse_modinfo,
    parse_nvrm,
    parse_params,
)
from doctor.probes.fact import Fact
from doctor.probes.reading import elf
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from doctor.simulate.writer import RecordingWriter

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)\nGCC version:  gcc\n"
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
)


def probed(out: RecordingWriter) -> dict[str, Fact]:
    return driver.probe(MemorySource(out))


def host(**changes: object) -> dict[str, Fact]:
    description = {"gpus": ["NVIDIA L4"], "driver": "580.95.05"}
    return probed(simulate(description | changes))


@pytest.mark.parametrize(
    ("text", "version", "flavor"),
    [(OPEN, "580.159.04", "open"), (CLOSED, "535.104.05", "proprietary")],
)
def test_nvrm_line(text: str, version: str, flavor: str) -> None:
    assert parse_nvrm(text) == {"version": version, "flavor": flavor}


@pytest.mark.parametrize(
    "text", ["", "NVRM version:", "GCC version: gcc 13", "\0\0", "NVRM version: ??"]
)
def test_nvrm_without_a_version_is_not_a_version(text: str) -> None:
    with pytest.raises(ValueError, match="NVRM"):
        parse_nvrm(text)


def test_modinfo() -> None:
    text = "filename: /lib/modules/6.8/nvidia.ko.zst\nversion: 570.86.10\nlicense: NVIDIA\n"
    assert parse_modinfo(text) == {"version": "570.86.10", "flavor": "proprietary"}
    assert parse_modinfo(text.replace("NVIDIA", "Dual MIT/GPL"))["flavor"] == "open"
    with pytest.raises(ValueError, match="no version"):
        parse_modinfo("filename: x\nlicense: GPL\n")


def test_params_lose_their_quotes() -> None:
    assert parse_params('EnableMSI: 1\nRegistryDwords: ""\n') == {
        "EnableMSI": "1",
        "RegistryDwords": "",
    }
    with pytest.raises(ValueError, match="no parameters"):
        parse_params("")


def test_major_is_of_character_devices_only() -> None:
    text = "Character devices:\n  1 mem\n238 nvidia-uvm\n\nBlock devices:\n259 nvidia-nvlink\n"
    assert parse_major(text, "nvidia-uvm") == 238
    assert parse_major(text, "nvidia-nvlink").state == "absent"
    with pytest.raises(ValueError, match="not a list"):
        parse_major("nvidia-uvm", "nvidia-uvm")


def test_package_that_a_person_installed_names_the_driver() -> None:
    found = driver_packages(
        {
            "nvidia-container-toolkit": "1.17.8-1",
            "libnvidia-compute-580": "1:580.95.05-0ubuntu1",
            "nvidia-driver-580-open": "580.95.05-0ubuntu0.24.04.2",
            "cuda-toolkit-13-0": "13.0.2-1",
        }
    )
    assert found == {"libnvidia-compute-580": "580.95.05", "nvidia-driver-580-open": "580.95.05"}
    assert chosen_package(found) == ("nvidia-driver-580-open", "580.95.05")
    assert chosen_package({}).state == "absent"


@pytest.mark.parametrize(
    ("path", "real", "kind"),
    [
        (
            "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05",
            "driver",
        ),
        (
            "/usr/local/nvidia/lib64/libcuda.so.1",
            "/usr/local/nvidia/lib64/libcuda.so.580.159.04",
            "driver",
        ),
        (
            "/tmp/x/libcuda.so.1",
            "/usr/local/cuda-13.0/targets/x86_64-linux/lib/stubs/libcuda.so",
            "stub",
        ),
        (
            "/usr/local/cuda/compat/libcuda.so.1",
            "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05",
            "compat",
        ),
        ("/opt/v/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",) * 2 + ("wheel",),
        ("/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "wsl"),
        (
            "/usr/local/cuda/lib64/libcudart.so.13",
            "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcudart.so.13.0.96",
            "toolkit",
        ),
        ("/usr/lib64/libnccl.so.2", "/usr/lib64/libnccl.so.2.28.3", "system"),
    ],
)
def test_kind_of_a_library(path: str, real: str, kind: str) -> None:
    assert elf.kind_of(path, real) == kind


@pytest.mark.parametrize(
    ("real", "version"),
    [
        ("libcuda.so.580.159.04", "580.159.04"),
        ("libcuda.so.1", None),
        ("libcuda.so.1.1", None),
        ("libnccl.so.2", None),
        ("libnccl.so.2.28.3", "2.28.3"),
        ("libcudart.so.13.0.96", "13.0.96"),
    ],
)
def test_version_is_in_the_real_name_or_nowhere(real: str, version: str | None) -> None:
    assert elf.version_of("/usr/lib/" + real) == version


def test_first_of_several_cache_entries_wins() -> None:
    text = (
        "2 libs found in cache `/etc/ld.so.cache'\n"
        "\tlibcuda.so.1 (libc6,x86-64) => /usr/local/nvidia/lib64/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1\n"
        "\tlibcuda.so.1 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/libcuda.so.1\n"
    )
    assert elf.parse_cache(text, "x86_64") == {
        "libcuda.so.1": "/usr/local/nvidia/lib64/libcuda.so.1"
    }
    with pytest.raises(ValueError, match="ldconfig"):
        elf.parse_cache("Aide-mémoire de ldconfig", "x86_64")


def test_healthy_host_has_one_version_everywhere() -> None:
    facts = host()
    same = {
        name: facts[name].value
        for name in ("package", "disk", "disk_next", "loaded", "library", "firmware")
    }
    assert set(same.values()) == {"580.95.05"}, same
    assert (facts["flavor"].value, facts["flavor_disk"].value) == ("open", "open")
    assert facts["resolved"].value["libcuda.so.1"]["why"] == "ld.so.cache"


def test_library_path_is_searched_first() -> None:
    facts = host(
        ld_library_path=["/usr/local/cuda/compat"],
        compat={"version": "575.57.08"},
        toolkits=["12.9"],
    )
    found = facts["resolved"].value["libcuda.so.1"]
    assert (found["kind"], found["version"]) == ("compat", "575.57.08")
    assert found["why"] == "LD_LIBRARY_PATH:/usr/local/cuda/compat"
    assert facts["library"].value == "580.95.05", "the driver's own library is another fact"
    assert facts["compat"].value == {"/usr/local/cuda-12.9/compat": "575.57.08"}


def test_regular_file_in_place_of_a_node_is_visible() -> None:
    facts = host(driver={"version": "580.95.05", "nodes": {"/dev/nvidia-uvm": "file"}})
    assert facts["nodes"].value["/dev/nvidia-uvm"]["type"] == "file"
    assert facts["nodes"].value["/dev/nvidiactl"]["rdev"] == "195:255"


def test_sudo_without_the_callers_environment_is_not_a_resolution() -> None:
    out = simulate({"gpus": ["NVIDIA L4"], "driver": "580.95.05"})
    out.process.update({"sudo": True, "env": {"PATH": "/usr/bin"}})
    facts = probed(out)
    assert facts["resolved"].state == "unknown"
    assert "sudo" in facts["resolved"].reason
    assert facts["library"].ok, "the loader's own folders do not depend on the caller"


def test_modinfo_that_is_missing_or_hangs_is_unknown() -> None:
    for error, state in (("not-found", "unknown"), ("timeout", "unknown")):
        out = simulate({"gpus": ["NVIDIA L4"], "driver": "580.95.05", "distro": "ubuntu-24.04"})
        for argv, env in list(out.commands):
            if argv[0] == "modinfo":
                out.command(list(argv), error=error, env=dict(env))
        assert probed(out)["disk"].state == state


def test_denied_library_folder_is_unknown_not_empty() -> None:
    out = simulate({"gpus": ["NVIDIA L4"], "driver": "580.95.05", "ld_library_path": ["/secret"]})
    out.denied("/secret")
    facts = probed(out)
    assert facts["libraries"].state == "unknown"
    assert facts["resolved"].state == "unknown"


def test_runfile_leaves_its_uninstaller() -> None:
    facts = host(driver={"version": "580.95.05", "from": "runfile"})
    assert facts["runfile"].value == "580.95.05"
    assert host()["runfile"].state == "absent"


def test_container_leaves_host_facts_to_the_host() -> None:
    facts = host(platform="container")
    for name in ("package", "disk", "disk_next"):
        assert facts[name].state == "not-applicable", name
    assert facts["library"].value == "580.95.05"
