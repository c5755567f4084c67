"""The host probe: where it is, what it runs on, and what it says when it cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from doctor.probes.areas import host
from doctor.probes.areas.host import (
    hypervisor_in,
    parse_btime,
    parse_cpu_list,
    parse_ldd,
    parse_meminfo,
    parse_resolv,
    parse_tegra,
    parse_tracking,
    root_filesystem,
)
from doctor.probes.fact import Fact
from doctor.probes.source import Completed
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from doctor.simulate.writer import RecordingWriter


def recording() -> RecordingWriter:
    return simulate({"gpus": ["NVIDIA L4"], "driver": "580.95.05"})


def probed(out: RecordingWriter) -> dict[str, Fact]:
    return host.probe(MemorySource(out))


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("QEMU Standard PC (Q35 + ICH9, 2009)", "kvm"),
        ("VMware, Inc. VMware7,1", "vmware"),
        ("Microsoft Corporation Virtual Machine", "hyperv"),
        ("Microsoft Corporation Surface", None),
        ("Amazon EC2 p5.48xlarge", "kvm"),
        ("Amazon EC2 g5.metal", None),
        ("Google Google Compute Engine", "kvm"),
        ("Supermicro SYS-821GE-TNHR", None),
        ("", None),
    ],
)
def test_a_hypervisor_is_named_by_dmi_only_when_it_is_one(named: str, found: str | None) -> None:
    assert hypervisor_in(named) == found


@pytest.mark.parametrize(
    ("description", "hardware", "container"),
    [
        ({}, "bare-metal", "none"),
        ({"platform": "vm"}, "vm", "none"),
        ({"platform": "container"}, "bare-metal", "docker"),
        ({"platform": "container", "container_runtime": "podman"}, "bare-metal", "podman"),
        ({"platform": "container", "container_runtime": "kubernetes"}, "bare-metal", "kubernetes"),
        ({"platform": "wsl2"}, "wsl2", "none"),
        ({"platform": "jetson", "machine": "aarch64", "l4t": "36.4.3"}, "jetson", "none"),
    ],
)
def test_platform_is_a_pair(description: dict[str, Any], hardware: str, container: str) -> None:
    facts = probed(simulate(description))
    assert (facts["hardware"].value, facts["container"].value) == (hardware, container)


def test_an_image_unpacked_as_a_machines_disk_is_no_container() -> None:
    out = recording()
    out.file("/.dockerenv")
    assert probed(out)["container"].value == "none"
    out.file("/proc/mounts", "overlay / overlay rw 0 0\n")
    assert probed(out)["container"].value == "docker"


def test_a_machine_that_says_nothing_of_itself_is_unknown() -> None:
    out = RecordingWriter()
    out.file("/proc/cpuinfo", "processor : 0\nFeatures : fp asimd\n")
    facts = probed(out)
    assert facts["hypervisor"].state == facts["hardware"].state == "unknown"


def test_a_virtual_machine_without_dmi_is_one_by_its_cpu() -> None:
    out = RecordingWriter()
    out.file("/proc/cpuinfo", "flags\t\t: fpu hypervisor sse2\n")
    facts = probed(out)
    assert facts["hardware"].value == "vm"
    assert facts["hypervisor"].value == "unidentified"


@pytest.mark.parametrize(
    ("stdout", "stderr", "state", "value"),
    [
        ("ldd (Ubuntu GLIBC 2.39-0ubuntu8.9) 2.39\nCopyright", "", "known", "2.39"),
        ("ldd (GNU libc) 2.34\n", "", "known", "2.34"),
        ("", "musl libc (x86_64)\nVersion 1.2.5\n", "absent", None),
        ("", "", "unknown", None),
        ("ldd: unbekannt\n", "", "unknown", None),
    ],
)
def test_c_library(stdout: str, stderr: str, state: str, value: str | None) -> None:
    found = parse_ldd(Completed(0, stdout, stderr))
    assert (found if isinstance(found, str) else found.state) == (value or state)


def test_parsers_of_proc() -> None:
    assert parse_meminfo("MemTotal:  16 kB\n", "MemTotal") == 16384
    assert parse_meminfo("MemFree: 1 kB\n", "MemTotal").state == "unknown"
    assert parse_btime("cpu 1\nbtime 1796\n") == 1796
    assert parse_cpu_list("0-3,8\n") == 5
    assert parse_resolv("# nameserver 1\nnameserver 192.0.2.1\n nameserver ::1\n") == [
        "192.0.2.1",
        "::1",
    ]
    assert root_filesystem("proc /proc proc rw 0 0\n/dev/vda / ext4 rw 0 0\n") == "ext4"
    assert root_filesystem("") == "rootfs"
    assert (
        parse_tegra("# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64")
        == "36.4.3"
    )


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "btime x\n"])
def test_a_truncated_stat_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="btime"):
        parse_btime(text)


@pytest.mark.parametrize(
    ("text", "right"),
    [("Leap status     : Normal\n", True), ("Leap status     : Not synchronised\n", False)],
)
def test_chrony_says_whether_the_clock_is_right(text: str, right: bool) -> None:
    assert parse_tracking(Completed(0, text, "")) is right


def test_a_chrony_that_hangs_is_unknown() -> None:
    out = recording()
    out.paths.pop("/run/systemd/timesync/synchronized")
    out.files.pop("/run/systemd/timesync/synchronized")
    out.folder("/run/chrony")
    out.command(["chronyc", "-n", "tracking"], error="timeout")
    assert probed(out)["clock_synchronized"].state == "unknown"


def test_what_cannot_be_read_is_unknown() -> None:
    out = recording()
    out.files["/etc/os-release"] = b"ID=\xff\xfe"
    for path in ("/proc/meminfo", "/etc/resolv.conf"):
        out.files.pop(path)
        out.denied(path)
    facts = probed(out)
    assert [facts[name].state for name in ("os_release", "memory", "dns")] == ["unknown"] * 3
