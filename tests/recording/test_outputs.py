"""What a doctor prints of a host keeps its identity and never its secrets, in every format."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from doctor import engine
from doctor.cli.sources import open_source
from doctor.fleet import golden
from doctor.fleet.aggregate import Gathering
from doctor.fleet.compare import changes
from doctor.fleet.export import to_jsonl
from doctor.fleet.line import line_of
from doctor.probes.recordings import record
from doctor.report import json_
from doctor.report.formats import FORMATS, of_fleet, of_host
from doctor.report.model import Report
from doctor.report.text import Look
from tests.fleet_reports.sample import Small, finish
from tests.recording import planted


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The planted host as it is, secrets and all: what a live look would see."""
    documents: dict[str, Any] = planted.documents()
    home = f"/home/{planted.USER}"
    documents["files"]["/etc/nccl.conf"] = f"NCCL_TOKEN={planted.PASSWORD}\n".encode()
    documents["process"]["env"] |= {
        "NCCL_API_KEY": planted.API_KEY,
        "DOCKER_HOST": f"tcp://{planted.USER}:{planted.PASSWORD}@10.0.0.1:2375",
    }
    documents["paths"]["/var/run/docker.sock"] = {"type": "socket"}
    listed = [{"Id": planted.CONTAINER, "Names": ["/x"], "Image": "vllm/vllm-openai:v0.24.0"}]
    socket = "unix:///var/run/docker.sock GET "
    documents["http"][socket + "/containers/json"] = {
        "status": 200,
        "body": json.dumps(listed).encode(),
    }
    documents["paths"][home] = {"type": "dir"}
    out = tmp_path_factory.mktemp("planted") / "host"
    record.write(documents, str(out))
    opened = open_source(str(out))
    assert opened.source is not None
    return engine.check(opened.source, engine.Options(as_of=opened.as_of))


@pytest.fixture(scope="module")
def audit(report: Report) -> Small:
    """An audit of it, before and after one of its traits changed."""
    gathering = Gathering()
    for name in ("a", "b", "c", "d"):
        gathering.add(line_of(report, name, ["rack"], 1.0), report)
    fleet = finish(gathering)
    now = {line.name: line for line in fleet.hosts}
    earlier = now | {"a": msgspec.structs.replace(now["a"], traits={}, verdict="healthy")}
    seen = msgspec.structs.replace(fleet, before="x", changes=changes(earlier, now))
    return Small(seen, dict.fromkeys(now, report))


@pytest.mark.parametrize("format_", FORMATS)
def test_no_secret_is_in_any_format_of_one_host(report: Report, format_: str) -> None:
    _holds_none(of_host(report, format_, Look(width=100, verbose=True)))


@pytest.mark.parametrize("format_", FORMATS)
def test_no_secret_is_in_any_format_of_a_fleet(audit: Small, format_: str) -> None:
    _holds_none("".join(of_fleet(audit, format_, Look(width=100, verbose=True))))


def test_no_secret_is_exported_learned_or_kept(audit: Small) -> None:
    _holds_none("".join(to_jsonl(audit)))
    _holds_none(golden.write(golden.of_host(next(audit.lines()), "2026-11-30")))
    _holds_none(msgspec.json.encode(list(audit.lines())).decode())


@pytest.mark.parametrize("secret", planted.SECRETS)
@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "prometheus"])
def test_a_planted_secret_is_found_where_there_is_one(
    audit: Small, format_: str, secret: str
) -> None:
    """In every format that tells why a host was lost; metrics do not."""
    line = msgspec.structs.replace(next(audit.lines()), state="late", reason=secret)
    spoilt = Small(msgspec.structs.replace(audit.fleet, hosts=[line]), {})
    with pytest.raises(AssertionError):
        _holds_none("".join(of_fleet(spoilt, format_, Look())))


def _holds_none(shown: str) -> None:
    shown = shown.replace("\\", "")  # Markdown's escapes would hide one
    for secret in planted.SECRETS:
        at = shown.find(secret)
        assert at < 0, shown[max(0, at - 120) : at + 60]


def test_identity_stays_in_a_report(report: Report, audit: Small) -> None:
    assert planted.HOST in json_.render(report)
    assert planted.HOST in "".join(of_fleet(audit, "json", Look()))
