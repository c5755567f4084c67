"""Every recorded host is judged as expected, and nothing in a recording names anyone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from doctor import engine
from doctor.cli.sources import open_source
from doctor.report.model import Report

HERE = Path(__file__).resolve().parent
RECORDED = sorted(path.parent for path in HERE.glob("*/manifest.json"))
UPDATE = bool(os.environ.get("DOCTOR_UPDATE"))
each_host = pytest.mark.parametrize("folder", RECORDED, ids=lambda path: path.name)


def judged(folder: Path) -> Report:
    opened = open_source(str(folder))
    assert opened.source is not None
    return engine.check(opened.source, engine.Options(as_of=opened.as_of, label=folder.name))


def summary(report: Report) -> dict[str, Any]:
    """What must not change unnoticed: verdict, what to do next, and each outcome that is more than a pass or skip."""
    return {
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "next": report.next.id if report.next else None,
        "findings": {
            item.id: item.outcome.value + (f" (under {item.blocked_by})" if item.blocked_by else "")
            for item in report.findings
        },
    }


@each_host
def test_it_is_judged_as_expected(folder: Path) -> None:
    found = summary(judged(folder))
    file = folder / "expected" / "findings.json"
    if UPDATE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    expected = json.loads(file.read_text(encoding="utf-8"))
    assert found == expected, "DOCTOR_UPDATE=1 writes it anew"


@each_host
def test_no_probe_fails_on_it(folder: Path) -> None:
    from doctor.probes import registry
    from doctor.probes.recordings.recorded import RecordedSource

    assert registry.run(RecordedSource(str(folder)))["errors"] == {}


@each_host
def test_it_says_that_it_is_redacted_and_what_missing_means(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["redacted"] is True
    assert manifest["format"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", manifest["recorded_at"])
    assert manifest["host"] == "host-1"


@each_host
def test_redacting_it_again_changes_nothing(folder: Path) -> None:
    from doctor.probes import registry
    from doctor.probes.recordings.recorded import RecordedSource
    from doctor.probes.recordings.recording import RecordingSource
    from doctor.probes.recordings.redact import redact

    source = RecordingSource(RecordedSource(str(folder)))
    source.process()
    registry.run(source)
    documents = dict(source.documents(), manifest={})
    again = redact(documents)
    for name in ("files", "process", "nvml", "cuda", "http"):
        assert again[name] == documents[name], name
    assert [item["argv"] for item in again["cmds"]] == [item["argv"] for item in documents["cmds"]]


WORDS = re.compile(
    r"(?i)\b(?:nixbld|sandboxing|runsc|firecracker|amazon ec2|ec2\.|google compute|compute engine|oraclecloud|lambda ?labs|"
    r"coreweave|runpod|vast\.ai|crusoe|nebius|hetzner|pyenv|/work/)"
)
"""Build users, sandboxes, providers and this project's own workshops: no recording here names one."""


@each_host
def test_it_names_no_provider_and_no_workshop(folder: Path) -> None:
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if "expected" in file.parts:
            continue
        text = str(file.relative_to(folder)) + "\n" + file.read_bytes().decode("utf-8", "replace")
        found += [f"{file.relative_to(folder)}: {match.group(0)}" for match in WORDS.finditer(text)]
    assert found == []
