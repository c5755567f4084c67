"""From engine-build to load over a stand-in engine: what passes, what breaks, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from doctor.events import SmokeStageFinished, SmokeStageProgress, SmokeStageStarted
from doctor.smoke.model import CPU_ONLY
from tests.smoke.running import (
    assert_nothing_left,
    fake_python,
    option,
    processes_of,
    smoke,
    started,
)

SHM = Path("/dev/shm")


def test_a_right_engine_passes_every_rung(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "env", helper=True, segment=f"psm_doctor{os.getpid()}")
    events: list[object] = []
    report = smoke(tmp_path, python, level="load", events=events)
    assert (report.verdict, report.exit_code) == ("passed", 0)
    assert [(s.name, s.outcome) for s in report.stages] == [
        ("driver", "skip"),
        ("cuda", "skip"),
        ("nccl", "skip"),
        ("container", "skip"),
        ("engine-build", "pass"),
        ("serve", "pass"),
        ("tokens", "pass"),
        ("load", "pass"),
    ]
    assert report.note == CPU_ONLY
    assert report.left_behind == []
    assert_nothing_left(python)
    assert not (SHM / f"psm_doctor{os.getpid()}").exists()
    assert "64 tokens as the reference's (56 distinct, 0 ties)" in report.stages[6].message
    kinds = [type(event) for event in events]
    assert kinds.count(SmokeStageStarted) == 4
    assert kinds.count(SmokeStageFinished) == 8
    assert SmokeStageProgress in kinds
    kept = json.loads((Path(report.run_folder or "") / "report.json").read_text())
    assert kept["schema"] == "doctor.smoke/1"


def test_auto_never_takes_the_cpu(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "env")
    report = smoke(tmp_path, python, engine="auto", level="load")
    assert [(s.name, s.outcome) for s in report.stages] == [("driver", "fail")]
    assert (report.engine, report.exit_code, report.note) == ("vllm", 6, None)
    assert report.stages[0].finding is not None
    assert report.stages[0].finding.id == "smoke.driver-no-gpu"
    assert not (python.parent / "started.json").exists()


def test_the_server_is_on_the_loopback_with_a_random_key_that_is_not_on_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_planted")
    monkeypatch.setenv("VLLM_API_KEY", "the-owners")
    monkeypatch.setenv("PYTHONPATH", "/tmp/evil")
    keys = []
    for number in range(2):
        python = fake_python(tmp_path / f"env{number}")
        assert smoke(tmp_path, python, level="serve").verdict == "passed"
        seen = started(python)
        assert option(seen, "--host") == "127.0.0.1"
        keys.append(seen["env"]["VLLM_API_KEY"])
        assert keys[-1] not in " ".join(seen["argv"])
        assert not {"HF_TOKEN", "PYTHONPATH"} & set(seen["env"])
        assert seen["env"]["HOME"] != os.environ["HOME"]
    assert len({*keys, "the-owners"}) == 3


def test_a_server_without_keys_is_said(tmp_path: Path) -> None:
    report = smoke(tmp_path, fake_python(tmp_path / "env", asks_key=False), level="serve")
    assert [w.id for w in report.stages[-1].warnings] == ["smoke.serve-no-api-key"]
    assert report.verdict == "passed"


@pytest.mark.parametrize("shape", ["llama", "qwen3"])
@pytest.mark.parametrize("damage", ["lost-weight", "bit-flip", "rope-base", "swapped-layers"])
def test_damage_is_caught_at_tokens(tmp_path: Path, shape: str, damage: str) -> None:
    python = fake_python(tmp_path / "env", shape, along=damage)
    report = smoke(tmp_path, python, model_class=shape)
    assert (report.verdict, report.exit_code) == ("failed", 6)
    broken = report.stages[-1]
    assert (broken.name, broken.outcome) == ("tokens", "fail")
    assert broken.finding is not None
    assert broken.finding.id == "smoke.tokens-differ"
    assert report.next is not None
    assert_nothing_left(python)


REFUSALS = {
    "ValueError: Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than desired GPU memory utilization (0.9, 19.84 GiB).": (
        "smoke.serve-memory-in-use",
        "free 19.77, total 22.05, unit GiB, utilization 0.9, desired 19.84",
    ),
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.20 GiB is free.": (
        "smoke.serve-memory-in-use",
        "tried to allocate 2.00 GiB, total 79.15 GiB, free 1.20 GiB",
    ),
    "OSError: [Errno 98] Address already in use": ("smoke.serve-launch-port", ""),
    "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist": (
        "smoke.serve-flashinfer-jit",
        "",
    ),
    "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'": (
        "smoke.serve-flashinfer-jit",
        "",
    ),
    "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.35' not found (required by _C.abi3.so)": (
        "smoke.serve-glibc-too-old",
        "",
    ),
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": (
        "smoke.serve-arch-not-in-build",
        "",
    ),
    "ImportError: vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEi": (
        "smoke.serve-torch-pin",
        "",
    ),
    "OSError: /models/x does not appear to have a file named config.json.": (
        "smoke.serve-model-architecture",
        "",
    ),
    "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge": (
        "smoke.serve-model-shards",
        "",
    ),
    "TypeError: load_lib_module() got an unexpected keyword argument 'extra_lib_paths'": (
        "smoke.serve-engine-pins-broken",
        "",
    ),
    "RuntimeError: operator torchvision::nms does not exist": (
        "smoke.serve-requirements-unmet",
        "",
    ),
}


@pytest.mark.parametrize("says", REFUSALS, ids=[value[0] for value in REFUSALS.values()])
def test_a_server_that_does_not_start_is_explained_by_its_log(tmp_path: Path, says: str) -> None:
    from doctor.smoke.engines.vllm import Vllm

    class OnGpu(Vllm):
        """A GPU engine on a recorded GPU host, without the rungs that need the real one."""

        packages = ("vllm",)

    python = fake_python(
        tmp_path / "env", server_says=f"(EngineCore pid=1) ERROR {says}", package="vllm"
    )
    report = climb_from_build(tmp_path, python, OnGpu())
    fault, numbers = REFUSALS[says]
    finding = report.stages[-1].finding
    assert finding is not None
    assert finding.id == fault, finding.message
    assert numbers in finding.message
    assert any(item.value and says[:30] in str(item.value) for item in finding.evidence)
    assert finding.sources
    assert finding.fix is not None
    assert finding.fix.command


def climb_from_build(tmp_path: Path, python: Path, engine: object):  # type: ignore[no-untyped-def]
    """The rungs from engine-build on, for an engine that has a GPU in the recording only."""
    from doctor.smoke import run as runs

    stages = runs.pipeline.stages_up_to
    try:
        runs.pipeline.stages_up_to = lambda level: (
            s for s in stages(level) if s.name in ("engine-build", "serve")
        )
        return smoke(tmp_path, python, host="h200x2", engine=engine, level="serve")
    finally:
        runs.pipeline.stages_up_to = stages


@pytest.mark.parametrize(
    ("behaviour", "stage", "fault"),
    [
        (
            {"write_says": "No module named numpy"},
            "engine-build",
            "smoke.engine-build-model-not-written",
        ),
        ({"package": "torch"}, "engine-build", "smoke.engine-build-not-in-interpreter"),
        ({"server_says": "something nobody has seen"}, "serve", "smoke.serve-exited"),
        ({"status": 500}, "serve", "smoke.serve-wrong-answer"),
        ({"dies_on_request": True}, "serve", "smoke.serve-exited"),
        ({"reference_says": "no"}, "tokens", "smoke.tokens-no-reference"),
        (
            {
                "reference": {
                    "answers": [
                        {"ids": [5, 5], "logprobs": [0, 0], "top": [{}, {}], "margins": [1, 1]}
                    ]
                }
            },
            "tokens",
            "smoke.tokens-no-reference",
        ),
    ],
)
def test_each_rung_breaks_with_its_own_finding_and_a_next_step(
    tmp_path: Path, behaviour: dict[str, object], stage: str, fault: str
) -> None:
    python = fake_python(tmp_path / "env", **behaviour)
    report = smoke(tmp_path, python)
    assert (report.verdict, report.exit_code) == ("failed", 6)
    broken = report.stages[-1]
    assert broken.name == stage
    assert broken.finding is not None
    assert (broken.finding.id, broken.outcome) == (fault, "fail")
    assert broken.finding.want
    assert report.next is not None
    assert report.next.say
    if stage != "engine-build":
        assert_nothing_left(python)


def test_an_engine_that_is_nowhere_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from doctor.smoke import environment

    monkeypatch.setattr(environment, "environments_dir", lambda: tmp_path / "none")
    report = smoke(tmp_path, None)  # type: ignore[arg-type]
    assert report.stages[-1].finding is not None
    assert report.stages[-1].finding.id == "smoke.engine-build-no-engine"
    assert report.next is not None
    assert report.next.command == "doctor smoke --engine vllm-cpu --provision"


def test_a_rung_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from doctor.smoke.stages import serve

    monkeypatch.setattr(serve, "READY_S", 1.0)
    python = fake_python(tmp_path / "env", never_ready=True, helper=True)
    report = smoke(tmp_path, python)
    assert report.stages[-1].finding is not None
    assert report.stages[-1].finding.id == "smoke.serve-not-ready"
    assert_nothing_left(python)


def test_the_whole_rung_has_a_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from doctor.smoke.stages import serve

    monkeypatch.setattr(serve.STAGE, "timeout", 1.0)
    python = fake_python(tmp_path / "env", never_ready=True)
    report = smoke(tmp_path, python)
    assert report.stages[-1].finding is not None
    assert report.stages[-1].finding.id == "smoke.serve-timeout"
    assert report.exit_code == 6
    assert_nothing_left(python)


def test_a_cancel_token_ends_it_in_good_order(tmp_path: Path) -> None:
    class Token:
        canceled = False

    token = Token()
    python = fake_python(tmp_path / "env", never_ready=True, helper=True)

    def later() -> None:
        while not (python.parent / "started.json").exists():
            time.sleep(0.05)
        time.sleep(0.3)
        token.canceled = True

    threading.Thread(target=later, daemon=True).start()
    report = smoke(tmp_path, python, cancel=token)
    assert (report.verdict, report.exit_code) == ("interrupted", 130)
    assert_nothing_left(python)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    python = fake_python(tmp_path / "env", never_ready=True, helper=True)
    code = (
        "import sys; from pathlib import Path; from tests.smoke.running import smoke;"
        f"sys.exit(smoke(Path({str(tmp_path)!r}), Path({str(python)!r})).exit_code)"
    )
    root = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", code], cwd=root)
    until = time.monotonic() + 60
    while not (python.parent / "started.json").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(number)
    time.sleep(0.05)
    child.send_signal(number)  # impatient
    assert child.wait(60) == 130
    assert_nothing_left(python)


def test_keep_leaves_the_model_and_says_where(tmp_path: Path) -> None:
    import shutil

    python = fake_python(tmp_path / "env")
    report = smoke(tmp_path, python, level="serve", keep=True)
    kept = Path(started(python)["env"]["HOME"])
    assert (kept / "model").is_dir()
    assert str(kept) in report.kept
    shutil.rmtree(kept)


@pytest.mark.parametrize("rung", ["serve", "tokens", "load"])
def test_an_engine_that_is_killed_in_the_middle_is_a_finding_of_that_rung(
    tmp_path: Path, rung: str
) -> None:
    behaviour = {
        "serve": {"never_ready": True},
        "tokens": {"reference_s": 2.0, "answer_s": 1.0},
        "load": {"token_s": 0.01},
    }[rung]
    python = fake_python(
        tmp_path / "env", helper=True, segment=f"psm_kill{os.getpid()}", **behaviour
    )
    begun: list[str] = []

    def killer() -> None:
        until = time.monotonic() + 60
        while rung not in begun and time.monotonic() < until:
            time.sleep(0.02)
        while not (python.parent / "started.json").exists():
            time.sleep(0.02)
        time.sleep(0.5)
        os.kill(started(python)["pid"], signal.SIGKILL)

    threading.Thread(target=killer, daemon=True).start()

    class Events(list):  # type: ignore[type-arg]
        def append(self, event: object) -> None:
            if isinstance(event, SmokeStageStarted):
                begun.append(event.stage)

    report = smoke(tmp_path, python, level="load", duration=20.0, events=Events())
    broken = report.stages[-1]
    assert (broken.name, broken.outcome, report.exit_code) == (rung, "fail", 6)
    assert broken.finding is not None
    assert broken.finding.id == f"smoke.{rung}-exited", broken.finding.message
    assert "killed by SIGKILL" in broken.finding.message
    assert report.left_behind == []
    assert_nothing_left(python)
    assert not (SHM / f"psm_kill{os.getpid()}").exists()


@pytest.mark.parametrize("lives", [True, False])
def test_requests_that_fail_under_load_are_explained_by_the_engines_log(
    tmp_path: Path, lives: bool
) -> None:
    """The part of an engine that computes dies; the part that answers lives on, or ends a moment later."""
    python = fake_python(tmp_path / "env", core_dies_after=30, lives=lives)
    report = smoke(tmp_path, python, level="load", duration=3.0)
    broken = report.stages[-1]
    assert (broken.name, broken.outcome, report.exit_code) == ("load", "fail", 6)
    assert broken.finding is not None
    assert broken.finding.id == f"smoke.load-{'requests-failed' if lives else 'exited'}"
    assert "EngineDeadError" in " ".join(str(item.value) for item in broken.finding.evidence)
    assert broken.numbers["errors"]
    assert set(broken.files) == {"load.json", "server.log"}
    assert_nothing_left(python)


def test_a_port_that_somebody_took_meanwhile_costs_one_more_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from doctor.smoke import ports

    free = ports.free_port
    with socket.create_server(("127.0.0.1", 0)) as others:
        taken = others.getsockname()[1]
        given = iter([taken])
        monkeypatch.setattr(ports, "free_port", lambda: next(given, None) or free())
        python = fake_python(tmp_path / "env")
        report = smoke(tmp_path, python, level="serve")
        assert report.verdict == "passed", report.stages[-1].message
        assert option(started(python), "--port") != str(taken)
        assert report.left_behind == []  # the listener is ours, not the run's
        assert_nothing_left(python)


def test_a_port_that_is_always_taken_is_named_with_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from doctor.smoke import ports

    with socket.create_server(("127.0.0.1", 0)) as others:
        taken = others.getsockname()[1]
        monkeypatch.setattr(ports, "free_port", lambda: taken)
        report = smoke(tmp_path, fake_python(tmp_path / "env"), level="serve")
    finding = report.stages[-1].finding
    assert finding is not None
    assert finding.id == "smoke.serve-launch-port"
    held = next(item.value for item in finding.evidence if item.fact == "server.port-holder")
    assert held.startswith(f"pid {os.getpid()} (")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize(("size", "rung"), [("4k", "engine-build"), ("48k", "serve")])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, size: str, rung: str) -> None:
    """The run folder fills up: at once, and when the engine writes its log."""
    python = fake_python(tmp_path / "env", helper=True, chatty=64 * 1024)
    full = tmp_path / "full"
    full.mkdir()
    code = (
        "import sys; from pathlib import Path; from tests.smoke.running import smoke;"
        f"found = smoke(Path({str(full)!r}), Path({str(python)!r}), level='load');"
        "print(found.exit_code, found.stages[-1].finding.id, found.left_behind)"
    )
    mount = f'mount -t tmpfs -o size={size} tmpfs {full} && exec {sys.executable} -c "$0"'
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stderr == ""
    assert ran.stdout == f"6 smoke.{rung}-no-room []\n"
    if (python.parent / "started.json").exists():
        assert_nothing_left(python)


HANGS = {
    "engine-build": {"write_s": 600},
    "serve": {"never_ready": True},
    "tokens": {"reference_s": 600},
    "load": {"token_s": 600.0, "hangs_from": 4},
}
"""How each rung can be made to wait for ever."""
TIMEOUTS = {
    "engine-build": "smoke.engine-build-model-not-written",
    "tokens": "smoke.tokens-no-reference",
}
"""Rungs that say what they waited for."""


def wait_for(path: Path, text: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{text} is not in {path}")


@pytest.mark.parametrize("rung", HANGS)
@pytest.mark.parametrize("how", ["Ctrl-C", "timeout"])
def test_an_end_on_any_rung_leaves_nothing(tmp_path: Path, rung: str, how: str) -> None:
    """While something hangs there for good: a process, the engine, the reference, every answer."""
    python = fake_python(tmp_path / "env", helper=True, **HANGS[rung])
    script = tmp_path / "climb.py"
    script.write_text(
        "import importlib, json, sys; from pathlib import Path; from tests.smoke.running import smoke\n"
        f"stage = importlib.import_module('doctor.smoke.stages.{rung.replace('-', '_')}').STAGE\n"
        f"if {how == 'timeout'}: stage.timeout = 3.0\n"
        "class Events(list):\n"
        "    def append(self, event):\n"
        f"        print(getattr(event, 'stage', ''), getattr(event, 'text', ''), file=open({str(tmp_path / 'said')!r}, 'a'))\n"
        f"found = smoke(Path({str(tmp_path)!r}), Path({str(python)!r}), level='load', duration=600.0, events=Events())\n"
        "print(json.dumps([found.verdict, found.run, found.left_behind, found.stages[-1].finding and found.stages[-1].finding.id]))\n"
    )
    root = Path(__file__).parents[2]
    started_at = time.monotonic()
    with subprocess.Popen(
        [sys.executable, script],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        if how == "Ctrl-C":
            wait_for(tmp_path / "said", "clients" if rung == "load" else f"{rung} ")
            time.sleep(1.0)
            child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=90)
    verdict, run, left, id = json.loads(out)
    assert left == []
    if how == "Ctrl-C":
        assert verdict == "interrupted"
    else:
        assert (verdict, id) == ("failed", TIMEOUTS.get(rung, f"smoke.{rung}-timeout"))
    assert time.monotonic() - started_at < 60
    assert processes_of(run) == []
    assert not list(Path(tempfile.gettempdir()).glob(f"doctor-smoke-{run}-*"))
    if rung != "engine-build":
        assert_nothing_left(python)
