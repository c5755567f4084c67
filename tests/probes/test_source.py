"""The seam between probes and a host: every answer is a fact, asked for once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from doctor.probes.source import Source


class Made(Source):
    """Answers from tables, and counts what it was asked."""

    def __init__(self, paths: dict[str, Any] | None = None, **tables: Any) -> None:
        super().__init__()
        self.paths = paths or {}
        self.tables = tables
        self.asked: list[Any] = []

    def _read(self, path: str) -> dict[str, Any]:
        self.asked.append(path)
        return self.tables.get("reads", {}).get(path, {"error": "absent"})

    def _path(self, path: str, entries: bool, statvfs: bool) -> dict[str, Any]:
        return self.paths.get(path, {"type": "absent"})

    def _run(self, argv: Sequence[str], env: dict[str, str], timeout: float) -> dict[str, Any]:
        self.asked.append(tuple(argv))
        return self.tables.get("runs", {}).get(tuple(argv), {"error": "not-found"})

    def _http(self, socket_path: str, target: str) -> dict[str, Any]:
        return self.tables.get("http", {}).get(target, {"error": "absent"})

    def _nvml(self) -> dict[str, Any]:
        return self.tables.get("nvml", {"init": "NVML_ERROR_LIBRARY_NOT_FOUND"})

    def _cuda(self, name: str) -> dict[str, Any]:
        return self.tables.get("cuda", {"error": "not-found"})

    def _process(self) -> dict[str, Any]:
        return self.tables.get("process", {"env": {}})


def folder(*names: str) -> dict[str, Any]:
    return {"type": "dir", "entries": list(names)}


def test_each_question_is_asked_once_even_from_many_threads() -> None:
    source = Made(reads={"/a": {"data": b"x"}})
    threads = [threading.Thread(target=source.read, args=("/a",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    source.run(["x"])
    source.run(["x"])
    assert source.asked == ["/a", ("x",)]


def test_a_reading_error_is_absent_or_unknown_never_empty() -> None:
    source = Made(reads={"/d": {"error": "denied"}, "/l": {"data": b"\xff"}})
    assert source.read("/no").state == "absent"
    assert source.read("/d").reason == "permission denied"
    assert source.read("/l").reason == "not UTF-8"


def test_a_path_that_may_not_be_seen_is_unknown() -> None:
    source = Made(
        {"/d": {"type": "denied"}, "/e": {"type": "error", "error": "stale handle"}, "/n": {}}
    )
    assert source.stat("/d").reason == "permission denied"
    assert source.exists("/e").reason == "stale handle"
    assert source.stat("/n").state == "unknown"
    assert source.exists("/no").state == "absent"


def test_links_are_followed_one_by_one() -> None:
    source = Made(
        {
            "/a": {"type": "link", "target": "b/../c"}, "/b": folder(), "/c": {"type": "link", "target": "/d"}, "/d": folder("x"),
        }
    )  # fmt: skip
    assert source.realpath("/a").value == "/d"
    assert source.listdir("/a").value == ["x"]
    assert source.realpath("/a/x").state == "absent"


def test_a_link_into_the_dark_is_unknown_not_absent() -> None:
    source = Made({"/a": {"type": "link", "target": "/secret/x"}, "/secret": {"type": "denied"}})
    assert source.exists("/a").state == "unknown"


def test_patterns_match_within_one_folder() -> None:
    source = Made(
        {
            "/": folder("dev"), "/dev": folder("nvidia0", "nvidia1", "nvidiactl"), "/usr": folder("a", "b"),
            "/usr/a": folder("x.so", "y"), "/usr/b": {"type": "file"},
        }
    )  # fmt: skip
    assert source.glob("/dev/nvidia[0-9]").value == ["/dev/nvidia0", "/dev/nvidia1"]
    assert source.glob("/usr/*/*.so").value == ["/usr/a/x.so"]
    assert source.glob("/nowhere/*").value == []


def test_a_pattern_over_a_folder_that_may_not_be_listed_is_unknown() -> None:
    source = Made({"/usr": folder("a", "b"), "/usr/a": folder("x"), "/usr/b": {"type": "denied"}})
    assert source.glob("/usr/*/x*").state == "unknown"


def test_a_command_that_did_not_end_well_is_unknown_with_the_reason() -> None:
    ends = {
        "timeout": {"error": "timeout"}, "large": {"error": "too-large"}, "denied": {"error": "denied"},
        "signal": {"rc": None, "signal": 9, "stdout": b"", "stderr": b""},
        "status": {"rc": 2, "stdout": b"", "stderr": b"bad\nmore"}, "none": {"rc": None, "stdout": b"", "stderr": b""},
    }  # fmt: skip
    source = Made(runs={(name,): record for name, record in ends.items()})
    assert {name: source.run([name]).reason for name in ends} == {
        "timeout": "no answer in time", "large": "output too large", "denied": "permission denied",
        "signal": "killed by signal 9", "status": "exit 2: bad", "none": "no exit status",
    }  # fmt: skip
    assert source.run(["nowhere"]).state == "absent"


def test_a_service_says_json_or_nothing() -> None:
    source = Made(http={"/a": {"status": 200, "body": b"{"}, "/b": {"status": 500, "body": b"{}"}})
    assert source.http("/s", "/a").state == "unknown"
    assert source.http("/s", "/b").reason == "status 500"
    assert source.http("/s", "/c").state == "absent"


def test_nvml_tells_not_supported_from_not_seen() -> None:
    calls = {
        "f": {"[0]": {"error": "NVML_ERROR_NOT_SUPPORTED"}}, "g": {"[0]": {"error": "NVML_ERROR_NO_PERMISSION"}},
        "h": {"[0]": {"error": "NVML_ERROR_NOT_FOUND"}}, "i": {"[0]": {"value": None}},
    }  # fmt: skip
    source = Made(nvml={"init": "ok", "devices": {"0": "GPU-1"}, "calls": calls})
    states = {name: source.nvml(name, 0).state for name in calls}
    assert states == {"f": "not-applicable", "g": "unknown", "h": "absent", "i": "known"}
    assert source.nvml("never", 0).state == "unknown"


def test_nvml_that_does_not_start_answers_nothing() -> None:
    assert Made().nvml("f", 0).state == "absent"
    mismatch = Made(nvml={"init": "NVML_ERROR_LIB_RM_VERSION_MISMATCH"})
    assert mismatch.nvml_init().value == "NVML_ERROR_LIB_RM_VERSION_MISMATCH"
    assert mismatch.nvml("f", 0).state == "unknown"
    assert mismatch.nvml_devices().state == "unknown"
    assert Made(nvml={"error": "no answer in time"}).nvml_init().reason == "no answer in time"


def test_a_cuda_answer_with_an_error_after_it_is_still_an_answer() -> None:
    assert Made(cuda={"cuInit": 999, "error": "exit 1"}).cuda().value["cuInit"] == 999
    assert Made(cuda={"error": "no answer in time"}).cuda().state == "unknown"
    assert Made().cuda().state == "absent"


def test_a_variable_under_sudo_is_unknown_but_not_in_another_scope() -> None:
    assert Made(process={"env": {}, "sudo": True, "scope": "shell"}).env("A").state == "unknown"
    assert Made(process={"env": {}, "sudo": True, "scope": "pid:1"}).env("A").state == "absent"
    assert Made(process={"env": {"A": ""}, "sudo": True}).env("A").value == ""
    assert Made(process={"env": {"A": "1"}, "error": "gone"}).env("A").state == "unknown"
