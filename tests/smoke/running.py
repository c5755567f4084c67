"""Smoke runs of the real pipeline with a stand-in engine, and what they must leave: nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from datetime import date
from pathlib import Path
from typing import Any

from doctor.checks.knowledge import Knowledge
from doctor.engine import Options as CheckOptions
from doctor.engine import check
from doctor.probes.recordings.recorded import RecordedSource
from doctor.smoke import run
from doctor.smoke.context import Options
from doctor.smoke.model import SmokeReport
from doctor.smoke.processes import MARK, User

HERE = Path(__file__).parent
HOSTS = HERE.parent / "hosts"
DAY = date(2026, 11, 30)
ME = User("me")
"""The tests' own user: what a test writes is not for others."""
_SEEN: dict[str, Any] = {}


def fake_python(folder: Path, answers: str = "llama", **behaviour: Any) -> Path:
    """An executable that behaves as an engine's interpreter."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "answers" / f"{answers}.json", folder / "answers.json")
    (folder / "behaviour.json").write_text(json.dumps(behaviour))
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\n" + (HERE / "fake_engine.py").read_text())
    python.chmod(0o755)
    return python


def smoke(folder: Path, python: Path, *, host: str = "no-gpu", **asked: Any) -> SmokeReport:
    """Run the ladder on a recorded host with this interpreter."""
    source = RecordedSource(HOSTS / host)
    if host not in _SEEN:
        _SEEN[host] = check(source, CheckOptions(as_of=DAY, label=host))
    events: list[Any] = asked.pop("events", [])
    people = {
        name: asked.pop(name)
        for name in ("cancel", "engine")
        if name in asked and not isinstance(asked[name], str)
    }
    people["user"] = asked.pop("user", ME)
    runs = folder / "smoke" / f"run-{len(list(folder.glob('smoke/*')))}"
    runs.mkdir(parents=True)
    options = {"engine": "vllm-cpu", "level": "tokens", "python": python, "duration": 1.0} | asked
    return run.run(
        source=source,
        report=_SEEN[host],
        knowledge=Knowledge(DAY),
        options=Options(**options),
        folder=runs,
        emit=events.append,
        state=folder,
        **people,
    )


def started(python: Path) -> dict[str, Any]:
    """What the fake server saw when it started."""
    found: dict[str, Any] = json.loads((python.parent / "started.json").read_text())
    return found


def assert_nothing_left(python: Path) -> None:
    """No process of the run, no port, no segment, no scratch folder."""
    seen = started(python)
    assert processes_of(seen["env"][MARK]) == []
    assert not Path(seen["env"]["HOME"]).exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(option(seen, "--port")))) != 0
    assert not os.path.exists(f"/proc/{seen['pid']}")


def processes_of(run: str) -> list[str]:
    """Command lines of living processes with the run's mark or a folder of the run."""
    mark, folder = f"{MARK}={run}".encode(), f"doctor-smoke-{run}-".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if folder in command or mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(command.decode(errors="replace"))
        except OSError:
            continue
    return found


def option(seen: dict[str, Any], name: str) -> str:
    """A value of the server's command line."""
    argv = seen["argv"]
    return str(argv[argv.index(name) + 1])
