"""Limits of each scope alone, -1 for unlimited; what was not said stays unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.facts.areas.limits import LimitFacts
from doctor.facts.tree import decode
from doctor.probes.areas import limits
from doctor.probes.recordings.recorded import RecordedSource
from doctor.simulate.writer import RecordingWriter

PROC = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max stack size            8388608              unlimited            bytes
Max processes             96364                96364                processes
Max open files            1024                 524288               files
Max locked memory         8388608              8388608              bytes
"""
SHOW = """DefaultLimitMEMLOCK=8388608
DefaultLimitMEMLOCKSoft=8388608
DefaultLimitSTACK=infinity
DefaultLimitSTACKSoft=8388608
DefaultLimitNOFILE=524288
DefaultLimitNOFILESoft=1024
DefaultLimitNPROC=18446744073709551615
DefaultLimitNPROCSoft=18446744073709551615
"""


def test_every_field_is_said_and_decodes(tmp_path: Path) -> None:
    for missing in ("absent", "unknown"):
        out = RecordingWriter(missing=missing)
        facts = limits.probe(RecordedSource(str(out.write(tmp_path / missing))))
        assert set(facts) == set(LimitFacts.__struct_fields__)
        raw = {name: fact.json() for name, fact in facts.items()}
        assert "malformed" not in str(decode({"limits": raw}).limits)
        assert facts["scope"].state == "unknown"


def test_limits_of_a_process() -> None:
    found = limits.process_limits(PROC)
    assert found["stack"] == [8388608, -1]
    assert found["nofile"] == [1024, 524288]


@pytest.mark.parametrize("text", ["", "Limit\n", "something else"])
def test_a_file_without_limits_is_unknown(text: str) -> None:
    assert limits.process_limits(text).state == "unknown"


def test_defaults_of_systemd() -> None:
    found = limits.systemd_limits(SHOW)
    assert found["memlock"] == [8388608, 8388608]
    assert found["stack"] == [8388608, -1]
    assert found["nproc"] == [-1, -1]
    assert limits.systemd_limits("").state == "unknown"


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "timeout"},
        {"rc": 1},
        {"stdout": "DefaultLimitNOFILE=many\nDefaultLimitNOFILESoft=x"},
    ],
)
def test_a_systemd_that_does_not_say_is_unknown(tmp_path: Path, answer: dict[str, object]) -> None:
    out = RecordingWriter()
    out.folder("/run/systemd/system")
    shown = [f"DefaultLimit{name.upper()}{kind}" for name in limits.NAMES for kind in ("", "Soft")]
    out.command(["systemctl", "show", "--property=" + ",".join(shown)], **answer)  # type: ignore[arg-type]
    facts = limits.probe(RecordedSource(str(out.write(tmp_path / "rec"))))
    assert facts["systemd"].state == "unknown"


def test_default_ulimits_of_docker() -> None:
    settings = {"default-ulimits": {"nofile": {"Name": "nofile", "Soft": 65536, "Hard": 1048576}}}
    assert limits.default_ulimits(settings) == {"nofile": [65536, 1048576]}
    assert limits.default_ulimits({}).state == "absent"
    with pytest.raises((KeyError, TypeError)):
        limits.default_ulimits({"default-ulimits": {"nofile": {"Soft": 1}}})


def test_active_lines_of_limits_conf() -> None:
    text = "# a comment\n*   soft  memlock   unlimited # why\n@gpu - nofile 65536\nroot hard core 0\n  bad\n"
    assert limits.conf_lines(text) == ["* soft memlock unlimited", "@gpu - nofile 65536"]


def test_a_denied_limits_file_is_unknown(tmp_path: Path) -> None:
    out = RecordingWriter()
    out.denied("/etc/security/limits.d/90-gpu.conf")
    out.folder("/etc/security/limits.d")
    out.denied("/etc/security/limits.d/90-gpu.conf")
    facts = limits.probe(RecordedSource(str(out.write(tmp_path / "rec"))))
    assert facts["limits_conf"].state == "unknown"


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (None, None),
        ([], None),
        ([-1, -1], [-1, -1]),
        ([2**64 - 1, 2**63 - 1], [-1, -1]),
        ([8, 9], [8, 9]),
    ],
)
def test_unlimited_has_one_spelling(values: list[int] | None, wanted: list[int] | None) -> None:
    assert limits.pair(values) == wanted
