"""What a doctor prints of a host keeps its identity and never its secrets, in every format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doctor import engine
from doctor.cli.sources import open_source
from doctor.probes.recordings import record
from doctor.report import json_, text
from doctor.report.model import Report
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


@pytest.mark.parametrize("secret", planted.SECRETS)
def test_no_secret_is_in_the_json_report(report: Report, secret: str) -> None:
    shown = json_.render(report)
    at = shown.find(secret)
    assert at < 0, shown[max(0, at - 120) : at + 60]


@pytest.mark.parametrize("secret", planted.SECRETS)
def test_no_secret_is_in_the_text(report: Report, secret: str) -> None:
    look = text.Look(color=False, unicode=True, width=100, verbose=True)
    assert secret not in text.render(report, look)


def test_identity_stays_in_a_report(report: Report) -> None:
    assert planted.HOST in json_.render(report)
