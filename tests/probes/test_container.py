"""Files of engines and the toolkit, read well and badly; in a container the host's are not asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from doctor.facts.areas.container import ContainerFacts
from doctor.facts.tree import decode
from doctor.probes.areas import container
from doctor.probes.fact import Fact
from doctor.probes.recordings.recorded import RecordedSource
from doctor.simulate.writer import RecordingWriter

Fill = Callable[[RecordingWriter], None]


def probe(folder: Path, fill: Fill | None = None, missing: str = "absent") -> dict[str, Fact]:
    out = RecordingWriter(missing=missing)
    if fill:
        fill(out)
    return container.probe(RecordedSource(str(out.write(folder / "rec"))))


@pytest.mark.parametrize("missing", ["absent", "unknown"])
def test_every_field_is_said_and_decodes(tmp_path: Path, missing: str) -> None:
    facts = probe(tmp_path, missing=missing)
    assert set(facts) == set(ContainerFacts.__struct_fields__)
    area = decode({"container": {name: fact.json() for name, fact in facts.items()}}).container
    for name in ContainerFacts.__struct_fields__:
        assert "malformed" not in str(msgspec.to_builtins(getattr(area, name))), name


def test_nothing_recorded_is_unknown_and_not_absent(tmp_path: Path) -> None:
    facts = probe(tmp_path, missing="unknown")
    facts.pop("docker_host")  # the environment is always recorded
    wrong = [
        name for name, fact in facts.items() if fact.state not in ("unknown", "not-applicable")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", "known"),
        ("{}", "known"),
        ('{"runtimes": {"nvidia": {"path": "x"}}, "registry-mirrors": ["planted"]}', "known"),
        ('{"runtimes": ', "unknown"),
        ("[]", "unknown"),
        (b"\xff\xfe", "unknown"),
    ],
)
def test_daemon_json(tmp_path: Path, text: str | bytes, state: str) -> None:
    fact = probe(tmp_path, lambda out: out.file("/etc/docker/daemon.json", text))["daemon_json"]
    assert fact.state == state
    assert "planted" not in repr(fact)


def test_a_denied_daemon_json_is_unknown_and_so_is_what_follows(tmp_path: Path) -> None:
    facts = probe(tmp_path, lambda out: out.denied("/etc/docker/daemon.json"))
    assert facts["daemon_json"].state == "unknown"
    assert facts["docker_default_shm"].state == "unknown"


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (67108864, 67108864),
        ("64m", 64 << 20),
        ("1G", 1 << 30),
        ("16gb", 16 << 30),
        ("1.5GiB", 3 << 29),
    ],
)
def test_sizes_as_docker_writes_them(value: object, size: int) -> None:
    assert container.size_of(value) == size


@pytest.mark.parametrize("value", ["lots", "", None, True, "-1"])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        container.size_of(value)


def test_when_dockerd_started(tmp_path: Path) -> None:
    stat = "1001 (dock) erd) S 1 " + " ".join(["0"] * 17) + " 360000 0"
    assert container.started_at(stat, "cpu 1 2\nbtime 1796000000\n") == 1796000000 + 3600
    with pytest.raises((ValueError, IndexError)):
        container.started_at("1 (x)", "btime 1")


def test_a_proc_stat_without_btime_is_unknown(tmp_path: Path) -> None:
    def fill(out: RecordingWriter) -> None:
        out.file("/var/run/docker.pid", "12")
        out.file("/proc/12/stat", "12 (dockerd) S " + "0 " * 30)
        out.file("/proc/stat", "cpu 1 2 3\n")

    assert probe(tmp_path, fill)["docker_since"].state == "unknown"


def test_a_toolkit_without_packages_is_asked_itself(tmp_path: Path) -> None:
    def fill(out: RecordingWriter) -> None:
        out.file("/usr/bin/nvidia-ctk", keep=False)
        out.command(["nvidia-ctk", "--version"], "NVIDIA Container Toolkit CLI version 1.17.8\n")

    facts = probe(tmp_path, fill)
    assert facts["toolkit_version"].value == "1.17.8"
    assert facts["toolkit_packages"].state == "absent"


@pytest.mark.parametrize(
    "answer", [{"stdout": "no number here"}, {"error": "timeout"}, {"rc": 1}, {"signal": 11}]
)
def test_a_toolkit_that_says_nothing_is_unknown(tmp_path: Path, answer: dict[str, object]) -> None:
    def fill(out: RecordingWriter) -> None:
        out.file("/usr/bin/nvidia-ctk", keep=False)
        out.command(["nvidia-ctk", "--version"], **answer)  # type: ignore[arg-type]

    assert probe(tmp_path, fill)["toolkit_version"].state == "unknown"


def test_a_broken_config_toml_is_unknown(tmp_path: Path) -> None:
    facts = probe(tmp_path, lambda out: out.file(container.CTK_CONFIG, "[nvidia-container-cli\n"))
    assert facts["toolkit_config"].state == "unknown"
    assert facts["toolkit_mode"].state == "unknown"


@pytest.mark.parametrize(
    "table",
    [
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\nx = 1\n',
        "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\nx = 1\n",
    ],
)
def test_containerd_runtimes_of_both_config_versions(tmp_path: Path, table: str) -> None:
    facts = probe(tmp_path, lambda out: out.file("/etc/containerd/config.toml", table))
    assert facts["containerd_runtimes"].value == ["nvidia"]


def test_containerd_drop_ins_are_read(tmp_path: Path) -> None:
    def fill(out: RecordingWriter) -> None:
        out.file("/etc/containerd/config.toml", "version = 3\n")
        out.file(
            "/etc/containerd/conf.d/99-nvidia.toml",
            '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]\nx = 1\n',
        )

    assert probe(tmp_path, fill)["containerd_runtimes"].value == ["nvidia"]


def test_in_a_container_the_host_is_not_judged(tmp_path: Path) -> None:
    def fill(out: RecordingWriter) -> None:
        out.file("/.dockerenv", "")
        out.file("/sys/fs/cgroup/cgroup.controllers", "cpu\n")

    facts = probe(tmp_path, fill)
    assert facts["toolkit_version"].state == "not-applicable"
    assert facts["docker_version"].state == "not-applicable"
    assert facts["cdi_specs"].state == "not-applicable"
    assert facts["cgroup_version"].value == "v2"


@pytest.mark.parametrize(("text", "mode"), [("1", "enforcing"), ("0", "permissive")])
def test_selinux(tmp_path: Path, text: str, mode: str) -> None:
    def fill(out: RecordingWriter) -> None:
        out.file("/sys/fs/selinux/enforce", text)
        out.file("/sys/fs/selinux/booleans/container_use_devices", "1 1")

    facts = probe(tmp_path, fill)
    assert facts["selinux"].value == mode
    assert facts["selinux_container_use_devices"].value is True


def test_links_of_device_nodes(tmp_path: Path) -> None:
    def fill(out: RecordingWriter) -> None:
        out.node("/dev/nvidiactl", "195:255")
        out.folder("/dev/char")

    assert probe(tmp_path, fill)["dev_char_links"].value is False


@pytest.mark.parametrize(
    ("version", "wanted"),
    [("1.17.8-1", "1.17.8"), ("0:1.18.0~rc.1-1", "1.18.0rc1"), ("1.9.0-1.el8", "1.9.0")],
)
def test_upstream_of_a_package_version(version: str, wanted: str) -> None:
    assert container.upstream(version) == wanted
