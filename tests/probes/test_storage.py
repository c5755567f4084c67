"""Shared memory and disks: sizes, mounts and what was left behind, never a deep walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.facts.areas.storage import StorageFacts
from doctor.facts.tree import decode
from doctor.probes.areas import storage
from doctor.probes.fact import Fact, known
from doctor.probes.recordings.recorded import RecordedSource
from doctor.simulate.writer import RecordingWriter

MOUNTS = """overlay / overlay rw,relatime 0 0
tmpfs /dev/shm tmpfs rw,size=65536k 0 0
/dev/sdb1 /data ext4 ro,relatime 0 0
/dev/sdc1 /data/my\\040disk xfs rw 0 0
short line
tmpfs /dev/shm tmpfs ro,size=1k 0 0
"""


def probe(out: RecordingWriter, folder: Path) -> dict[str, Fact]:
    return storage.probe(RecordedSource(str(out.write(folder / "rec"))))


def test_every_field_is_said_and_decodes(tmp_path: Path) -> None:
    for missing in ("absent", "unknown"):
        facts = probe(RecordingWriter(missing=missing), tmp_path / missing)
        assert set(facts) == set(StorageFacts.__struct_fields__)
        raw = {name: fact.json() for name, fact in facts.items()}
        assert "malformed" not in str(decode({"storage": raw}).storage)


@pytest.mark.parametrize(
    ("path", "mount", "options"),
    [
        ("/data/x", "/data", ["ro", "relatime"]),
        ("/data/my disk/y", "/data/my disk", ["rw"]),
        ("/database", "/", ["rw", "relatime"]),
        ("/dev/shm", "/dev/shm", ["ro", "size=1k"]),
    ],
)
def test_the_mount_that_holds_a_path(path: str, mount: str, options: list[str]) -> None:
    point, _, found = storage.mount_of(path, known(storage.parse_mounts(MOUNTS), "x"))
    assert (point, found) == (mount, options)


def test_no_known_files_means_no_look_at_processes(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.folder("/dev/shm")
    out.file("/dev/shm/mine", keep=False)
    assert probe(out, tmp_path)["shm_left_behind"].value == []


def test_what_a_process_maps_was_not_left_behind(tmp_path: Path) -> None:
    out = RecordingWriter()
    for name in ("nccl-AAA", "nccl-BBB", "psm_1"):
        out.file(f"/dev/shm/{name}", keep=False, size=10)
    out.folder("/proc/7")
    argv = ["grep", "-hoE", "-s", "dev/shm/[^ ]+", "/dev/null", "/proc/7/maps"]
    out.command(argv, "/dev/shm/nccl-AAA\n/dev/shm/nccl-AAA\n", rc=2)
    fact = probe(out, tmp_path)["shm_left_behind"]
    assert fact.value == [
        {"name": "nccl-", "count": 1, "size": 10},
        {"name": "psm_", "count": 1, "size": 10},
    ]


@pytest.mark.parametrize("answer", [{"error": "timeout"}, {"error": "not-found"}, {"rc": 3}])
def test_files_of_which_nobody_can_say_are_unknown(
    tmp_path: Path, answer: dict[str, object]
) -> None:
    out = RecordingWriter()
    out.file("/dev/shm/nccl-AAA", keep=False)
    out.folder("/proc/7")
    out.command(["grep", "-hoE", "-s", "dev/shm/[^ ]+", "/dev/null", "/proc/7/maps"], **answer)  # type: ignore[arg-type]
    assert probe(out, tmp_path)["shm_left_behind"].state == "unknown"


def test_without_root_it_is_unknown_who_maps(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.process["euid"] = 1000
    out.file("/dev/shm/nccl-AAA", keep=False)
    assert probe(out, tmp_path)["shm_left_behind"].state == "unknown"


def test_a_place_that_is_not_there_is_judged_by_the_folder_above(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.process["env"] = {"HF_HOME": "/data/hf/cache", "HOME": "/root"}
    out.file("/proc/self/mounts", MOUNTS)
    for path in ("/", "/tmp", "/data", "/root"):
        out.statvfs(path, total=100, avail=50)
    disks = probe(out, tmp_path)["disks"].value
    assert disks["hf-cache"]["path"] == "/data"
    assert disks["hf-cache"]["read_only"] is True
    assert "docker" not in disks


def test_the_scope_of_a_process_has_its_own_shared_memory(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.process["scope"] = "pid:42"
    out.statvfs("/proc/42/root/dev/shm", total=64 << 20, avail=64 << 20)
    assert probe(out, tmp_path)["shm"].value["size"] == 64 << 20
