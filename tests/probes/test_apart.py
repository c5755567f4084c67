"""The bare process that probes this host: it judges what the caller would, and whatever becomes of it costs what it had not told."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from doctor import engine
from doctor.probes import bare, child, live, registry
from doctor.probes.apart import Apart
from doctor.probes.bare import Bare, command
from doctor.probes.children import prober
from doctor.probes.live import LiveSource

ROOT = Path(__file__).resolve().parents[2]


def told(code: str, areas: list[str], deadline: float = 10.0, on_event: Any = None) -> Apart:
    """What is made of a process that runs this code."""
    process = Bare([sys.executable, "-I", "-c", "import json, os, sys, time\n" + code])
    return Apart("shell", areas, on_event, deadline, process)


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process ends by then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def children_of(pid: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(place.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


GOOD = "print(json.dumps({'area': 'a'})); print(json.dumps({'area': 'a', 'ms': 7, 'facts': {'x': 1}}), flush=True)\n"


def test_it_tells_what_the_probes_would_tell_here() -> None:
    areas = ["limits", "host", "python_env"]
    apart = Apart("shell", areas).result()
    here = registry.run(LiveSource(), areas)
    assert (apart["schema"], apart["errors"]) == (here["schema"], {})
    for envelope in (apart, here):
        for moves in ("time", "memory_available"):
            assert envelope["facts"]["host"].pop(moves)["state"] == "known"
    for area in areas:
        assert apart["facts"][area] == json.loads(json.dumps(here["facts"][area]))


def test_the_callers_environment_and_limits_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/the/caller")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        facts = Apart("shell", ["cuda", "limits", "driver"]).result()["facts"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert facts["cuda"]["visible_devices"]["value"] == "3"
    assert facts["driver"]["ld_library_path"]["value"] == ["/of/the/caller"]
    assert facts["limits"]["scope"]["value"]["nofile"][0] == soft - 1


def test_a_scope_is_looked_at_in_the_process_too() -> None:
    with subprocess.Popen(["/bin/sleep", "30"], env={"CUDA_VISIBLE_DEVICES": "5"}) as other:
        facts = Apart(f"pid:{other.pid}", ["cuda"]).result()["facts"]
        other.kill()
    assert facts["cuda"]["visible_devices"]["value"] == "5"


def test_nothing_of_the_callers_python_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "subprocess", "pynvml", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('evil')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    envelope = Apart("shell", ["nvml", "host"]).result()
    assert envelope["errors"] == {} and "evil" not in json.dumps(envelope)


def test_the_process_runs_this_packages_own_files_and_writes_bytecode_only_where_this_one_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", "/a/cache")
    argv = command("shell", ["cuda", "host"])
    assert argv[0] == sys.executable and "-I" in argv and "-S" in argv and "-B" in argv
    assert "pycache_prefix=/a/cache" in argv
    code = argv.index("-c")
    assert argv[code + 2 : code + 5] == ["shell", "cuda,host", str(ROOT)]
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert "-B" not in command("shell", None)


def test_it_has_loaded_no_site_packages() -> None:
    argv = command("shell", None)
    argv[argv.index("-c") + 1] = (
        "import sys; sys.path += sys.argv[3:]; import doctor.probes.telling, doctor.probes.live\n"
        "from doctor.probes import registry; [registry.load(area) for area in registry.area_names()]\n"
        "print(*[name for name, module in sys.modules.items() if 'site-packages' in str(getattr(module, '__file__', ''))])"
    )
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_what_the_doctor_loads_to_start_it_is_next_to_nothing() -> None:
    code = "import os, sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import doctor.probes.bare; print(*(set(sys.modules) - before))"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(ran.stdout.split()) == {"doctor", "doctor.probes", "doctor.probes.bare"}


def test_the_one_that_was_started_early_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "_EARLY", [])
    bare.start_early()
    early = bare._EARLY[0]
    other = bare.start("shell", ["limits"])
    assert other is not early  # it looks at everything
    assert bare.start("shell") is early
    again = bare.start("shell")
    assert again is not early
    for process in (early, other, again):
        assert process.pid is not None
        process.let_go()
        os.close(process.answers)
        assert process.reap()


# what may become of it -------------------------------------------------------------------------------------------------


def test_events_tell_when_each_probe_starts_and_ends() -> None:
    events: list[tuple[str, str, int]] = []
    look = told(GOOD, ["a"], on_event=lambda *event: events.append(event))
    assert look.result()["facts"]["a"] == {"x": 1}
    assert look.found("a") == {"x": 1}
    assert events == [("a", "started", 0), ("a", "finished", 7)]


def test_a_probe_that_failed_is_unknown_with_its_reason() -> None:
    look = told("print(json.dumps({'area': 'a', 'ms': 1, 'error': 'ValueError: x'}))", ["a"])
    envelope = look.result()
    assert envelope["facts"]["a"][""]["reason"] == "the probe failed: ValueError: x"
    assert envelope["errors"] == {"a": "ValueError: x"}


def test_one_that_hangs_costs_one_area_and_is_gone_by_the_deadline() -> None:
    look = told(GOOD + "import threading\nthreading.Event().wait(60)", ["a", "b"], deadline=0.8)
    started = time.monotonic()
    envelope = look.result()
    assert time.monotonic() - started < 3
    assert envelope["facts"]["a"] == {"x": 1}
    assert envelope["facts"]["b"][""]["state"] == "unknown"
    assert envelope["errors"] == {"b": "no answer in time"}
    assert look._process.pid is not None
    os.kill(look._process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (GOOD + "os.kill(os.getpid(), 11)", "it was killed by signal 11"),
        (GOOD + "raise SystemExit(3)", "it ended with status 3"),
        (GOOD + "print('no JSON', flush=True); time.sleep(0.2)", "it answered JSONDecodeError"),
        (GOOD + "print('[]', flush=True); time.sleep(0.2)", "it answered TypeError"),
        (GOOD + 'print(\'{"area": "nobody asked"}\', flush=True)', "it answered KeyError"),
    ],
)
def test_one_that_dies_or_lies_costs_what_it_had_not_told(code: str, why: str) -> None:
    started = time.monotonic()
    envelope = told(code, ["a", "b"]).result()
    assert time.monotonic() - started < 5
    assert envelope["facts"]["a"] == {"x": 1}
    assert why in envelope["facts"]["b"][""]["reason"]


def test_one_that_cannot_be_started_leaves_everything_unseen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    monkeypatch.setattr(bare, "_EARLY", [])
    report = engine.check(LiveSource(), engine.Options(as_of=engine.date(2026, 11, 30)))
    assert (report.verdict, report.exit_code) == ("unknown", 3)
    assert "cannot start /no/such/python" in report.unseen[0].reason


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_whoever_listens_and_takes_its_children_along(
    how: int, tmp_path: Path
) -> None:
    """A child of it that hangs would otherwise stay for ever."""
    prober = (
        "import sys; sys.path += sys.argv[3:]\n"
        "from doctor.probes import registry\n"
        "from doctor.probes.children import prober\n"
        "registry.load = lambda area: lambda source: source.run(['/bin/sleep', '300'], timeout=600)\n"
        "prober.main(sys.argv[1:3])"
    )
    code = (
        "import sys, time; from doctor.probes import bare\n"
        f"bare._BOOT = {prober!r}\n"
        "print(bare.start('pid:1', ['host']).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as doctor:
        assert doctor.stdout is not None
        pid = int(doctor.stdout.readline())
        end = time.monotonic() + 10
        while not (sleeping := children_of(pid)) and time.monotonic() < end:
            time.sleep(0.02)
        assert sleeping
        doctor.send_signal(how)
    assert gone(pid)
    assert all(gone(item) for item in sleeping)


def test_ctrl_c_leaves_at_once_and_leaves_nothing() -> None:
    stuck = (
        "import sys, time\n"
        "from doctor.probes import bare\n"
        "bare._BOOT = 'import time, sys; time.sleep(60) if sys.stdin is None else sys.stdin.read()'\n"
        "from doctor.cli.main import main; main(['check'])"
    )
    doctor = subprocess.Popen(
        [sys.executable, "-c", stuck], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    end = time.monotonic() + 10
    while not (started := children_of(doctor.pid)) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(1.5)
    doctor.send_signal(signal.SIGINT)
    _, said = doctor.communicate(timeout=5)
    assert doctor.returncode == 130
    assert said.strip() == b"interrupted"
    assert started and all(gone(pid) for pid in started)


# forked looks ----------------------------------------------------------------------------------------------------------


def test_a_forked_look_says_the_same_as_one_in_a_process_of_its_own() -> None:
    argv = [sys.executable, "-I", "-S", "-c", FORKED, str(ROOT)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ran.stdout) == LiveSource().cuda("scope").json()


FORKED = """
import sys; sys.path.append(sys.argv[1])
from doctor.probes.children import cuda_child
from doctor.probes.children.fork import fork
forked = fork(cuda_child.main)
from doctor.probes.child import Started
from doctor.probes.live import CUDA_CHILD, LiveSource
import json
print(json.dumps(LiveSource(early={CUDA_CHILD: Started(forked, None)}).cuda("scope").json()))
"""


def test_a_child_that_is_just_being_started_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener goes after the fork and before anybody here knows of the child."""
    monkeypatch.setattr(child, "_STARTING", threading.Lock())
    forked = threading.Event()

    def slowly(*arguments: Any, **named: Any) -> Any:
        process = popen(*arguments, **named)
        forked.set()
        time.sleep(0.3)
        return process

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", slowly)
    works: list[child.Started] = []
    start = threading.Thread(
        target=lambda: works.append(child.start_child(["/bin/sleep", "60"], dict(os.environ)))
    )
    start.start()
    assert forked.wait(10)
    child.end_all()
    start.join(10)
    assert child.finish_child(works[0], 5.0)["signal"] == signal.SIGKILL


def test_a_look_that_has_said_all_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_STARTING", threading.Lock())
    code = f"import sys, time; sys.stdout.buffer.write({child.DONE!r}); sys.stdout.flush(); time.sleep(60)"
    work = child.start_child([sys.executable, "-c", code], dict(os.environ))
    started = time.monotonic()
    record = child.finish_child(work, 20.0)
    assert time.monotonic() - started < 5
    assert (record["rc"], record["error"]) == (0, None)
    child.end_all()
    assert work.child is not None and work.child.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("look", "said"),
    [
        ("os.kill(os.getpid(), 6)", "killed by signal 6"),
        ("[][1]", "exit 1: IndexError: list index out of range"),
        ("time.sleep(60)", "no answer in time"),
    ],
)
def test_a_forked_look_that_dies_or_hangs_says_how(look: str, said: str) -> None:
    code = (
        "import os, sys, time; sys.path.append(sys.argv[1])\n"
        "from doctor.probes.children.fork import fork\n"
        f"forked = fork(lambda arguments: {look})\n"
        "from doctor.probes.child import Started, child_problem, finish_child\n"
        "print(child_problem(finish_child(Started(forked, None), 0.7)))"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, str(ROOT)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == said + "\n"


@pytest.mark.parametrize(
    ("scope", "areas", "looks"),
    [
        ("shell", None, {live.CUDA_CHILD, live.NVML_CHILD}),
        ("shell", ["cuda"], {live.CUDA_CHILD}),
        ("pid:1", ["cuda", "nvml"], {live.NVML_CHILD}),
        ("shell", ["host"], set()),
    ],
)
def test_early_looks_bear_the_names_by_which_the_source_takes_them(
    monkeypatch: pytest.MonkeyPatch, scope: str, areas: list[str] | None, looks: set[str]
) -> None:
    monkeypatch.setattr(prober, "fork", lambda look: None)
    assert set(prober.forked_looks(scope, areas)) == looks
