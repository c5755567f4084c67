"""A live host may hang, flood, lie or die: each costs its own probe, by its deadline, and nothing else."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from doctor.probes import child, live, unix_http
from doctor.probes import source as limits
from doctor.probes.live import LiveSource
from doctor.probes.unix_http import parse_answer

ROOT = Path(__file__).resolve().parents[2]


def script(folder: Path, text: str) -> str:
    path = folder / "tool"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


# commands -----------------------------------------------------------------------------------------------------------


def test_a_command_that_ends_well(tmp_path: Path) -> None:
    fact = LiveSource().run([script(tmp_path, "echo out; echo err >&2; exit 0")])
    assert (fact.value.stdout, fact.value.stderr) == ("out\n", "err\n")


def test_a_command_that_hangs_is_unknown_by_its_deadline(tmp_path: Path) -> None:
    tool = script(tmp_path, "echo early; exec sleep 60")
    source = LiveSource()
    assert timed(lambda: source.run([tool], timeout=0.3)) < 1.5
    assert source.run([tool]).reason == "no answer in time"


def test_children_that_ignore_term_and_hold_the_pipe_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    tool = script(
        tmp_path,
        f"trap '' TERM\n(trap '' TERM; echo $$ >> {pids}; sleep 60) &\necho $! >> {pids}\nsleep 60\n",
    )
    source = LiveSource()
    assert timed(lambda: source.run([tool], timeout=0.5)) < 2
    assert source.run([tool]).state == "unknown"
    for pid in pids.read_text().split():
        assert ended(int(pid))


def test_a_command_that_ends_while_its_child_holds_the_pipe_ends_by_its_deadline(
    tmp_path: Path,
) -> None:
    source = LiveSource()
    tool = script(tmp_path, "sleep 60 &\nexit 0\n")
    assert timed(lambda: source.run([tool], timeout=0.5)) < 2
    assert source.run([tool]).reason == "no answer in time"


def test_a_child_in_a_session_of_its_own_does_not_keep_us(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    tool = script(tmp_path, f"setsid sh -c 'echo $$ > {pid}; sleep 20' &\nsleep 20\n")
    assert timed(lambda: LiveSource().run([tool], timeout=0.5)) < 2
    os.kill(int(pid.read_text()), signal.SIGKILL)


def ended(pid: int) -> bool:
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_megabytes_of_output_are_unknown_and_the_flood_is_stopped(tmp_path: Path) -> None:
    fact = LiveSource().run([script(tmp_path, "exec yes flood")], timeout=20)
    assert fact.reason == "output too large"


def test_output_that_is_not_utf8_is_unknown(tmp_path: Path) -> None:
    fact = LiveSource().run([script(tmp_path, r"printf '\377\376x'")])
    assert fact.reason == "output is not UTF-8"


def test_a_message_that_is_not_utf8_does_not_cost_the_answer(tmp_path: Path) -> None:
    fact = LiveSource().run([script(tmp_path, r"echo good; printf '\377' >&2")])
    assert fact.value.stdout == "good\n"


def test_death_by_a_signal_is_said(tmp_path: Path) -> None:
    fact = LiveSource().run([script(tmp_path, "kill -SEGV $$")])
    assert fact.reason == "killed by signal 11"


def test_an_exit_status_nobody_allowed_is_unknown_with_the_reason(tmp_path: Path) -> None:
    tool = script(tmp_path, "echo because >&2; exit 9")
    assert LiveSource().run([tool]).reason == "exit 9: because"
    assert LiveSource().run([tool], ok=None).value.rc == 9


def test_a_command_that_is_not_there_is_absent_and_one_that_may_not_run_is_unknown(
    tmp_path: Path,
) -> None:
    assert LiveSource().run(["no-such-tool-here"]).state == "absent"
    assert LiveSource().run([str(tmp_path / "nowhere")]).state == "absent"
    tool = tmp_path / "plain"
    tool.write_text("x")
    tool.chmod(0o644)
    assert LiveSource().run([str(tool)]).reason == "permission denied"


def test_text_that_no_program_takes_is_unknown_not_an_error(tmp_path: Path) -> None:
    tool = script(tmp_path, "true")
    assert LiveSource().run([tool, "a\0b"]).state == "unknown"
    assert LiveSource().run([tool, "\ud800"]).state == "unknown"
    assert LiveSource().read("/a\0b").state == "unknown"
    assert LiveSource().stat("/a\0b").state == "unknown"


def test_commands_speak_english_and_have_no_input_and_none_of_the_callers_loader_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    said = LiveSource().run([script(tmp_path, "env; readlink /proc/self/fd/0")]).value.stdout
    assert "LC_ALL=C\n" in said and "LANG=C\n" in said and "/dev/null" in said
    assert "LD_LIBRARY_PATH" not in said and "PYTHONPATH" not in said
    assert f"PATH={live.SYSTEM_PATH}\n" in said


def test_tools_are_looked_for_in_the_systems_own_folders_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uname").write_text("#!/bin/sh\necho Evil\n")
    (tmp_path / "uname").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert LiveSource().run(["uname"]).value.stdout == "Linux\n"


# files --------------------------------------------------------------------------------------------------------------


def test_files_that_are_not_plain_are_unknown_and_never_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert LiveSource().read(str(tmp_path / "fifo")).reason == "not a regular file"
    assert LiveSource().read("/dev/zero").reason == "not a regular file"
    assert LiveSource().read(str(tmp_path)).reason == "not a regular file"


def test_missing_large_and_odd_files(tmp_path: Path) -> None:
    assert LiveSource().read(str(tmp_path / "no")).state == "absent"
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(limits.MAX_FILE + 1)
    assert LiveSource().read(str(big)).reason == "too large to read"
    (tmp_path / "latin").write_bytes(b"\xe9")
    assert LiveSource().read(str(tmp_path / "latin")).reason == "not UTF-8"
    (tmp_path / "loop").symlink_to("loop")
    assert LiveSource().read(str(tmp_path / "loop")).state == "unknown"
    assert LiveSource().realpath(str(tmp_path / "loop")).reason == "too many links"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_what_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    code = (
        "import os, sys; from doctor.probes.live import LiveSource; os.setuid(65534); s = LiveSource();"
        "print(s.read(sys.argv[1]).reason, s.listdir(sys.argv[2]).reason, s.stat(sys.argv[2] + '/x').reason, sep='|')"
    )
    place = Path("/var/tmp") / f"doctor-{os.getpid()}"
    (place / "folder").mkdir(parents=True)
    try:
        place.chmod(0o755)
        (place / "file").write_text("x")
        (place / "file").chmod(0o600)
        (place / "folder").chmod(0o700)
        done = subprocess.run(
            [sys.executable, "-c", code, str(place / "file"), str(place / "folder")],
            capture_output=True, text=True, cwd=ROOT, check=False, timeout=20, env={"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    finally:
        (place / "file").unlink()
        (place / "folder").rmdir()
        place.rmdir()
    assert done.stdout.strip() == "|".join(["permission denied"] * 3), done.stderr


def test_a_device_node_tells_its_numbers_and_a_link_its_target(tmp_path: Path) -> None:
    assert LiveSource().stat("/dev/null").value["rdev"] == "1:3"
    (tmp_path / "l").symlink_to("there")
    assert LiveSource().stat(str(tmp_path / "l")).value["target"] == "there"


HANG = """
import sys, threading, time
from doctor.probes import registry
from doctor.probes.fact import known
from doctor.probes.live import LiveSource

class Hanging(LiveSource):
    def _read(self, path):
        if path == "/stuck":
            threading.Event().wait()  # what a dead network mount does to the thread that asks
        return super()._read(path)

registry.load = lambda area: (lambda src: {"x": src.read("/stuck" if area == "bad" else "/proc/version")})
done = registry.run(Hanging(), ["good", "bad"], deadline=0.5)
print(done["facts"]["good"]["x"]["state"], done["facts"]["bad"][""]["state"], done["errors"])
"""


def test_a_mount_that_hangs_costs_one_probe_and_does_not_keep_the_process() -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HANG],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=20,
        check=False,
    )
    assert time.monotonic() - started < 5
    assert done.stdout == "known unknown {'bad': 'no answer in time'}\n", done.stderr
    assert done.returncode == 0


# sockets ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[list[bytes], float], str]]:
    """A service that answers with these blocks, so many seconds apart, and then keeps the line open if told."""
    opened: list[socket.socket] = []

    def start(blocks: list[bytes], pause: float = 0.0) -> str:
        path = str(tmp_path / "s.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(4)
        opened.append(listener)

        def answer() -> None:
            try:
                channel, _ = listener.accept()
            except OSError:
                return
            opened.append(channel)
            try:
                channel.recv(4096)
                for block in blocks:
                    time.sleep(pause)
                    channel.sendall(block)
                if blocks:
                    channel.shutdown(socket.SHUT_WR)
            except OSError:
                return

        threading.Thread(target=answer, daemon=True).start()
        return path

    yield start
    for item in opened:
        item.close()


def test_a_service_that_answers(serve: Callable[..., str]) -> None:
    body = b'{"a": 1}'
    path = serve([b"HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\n" + body])
    assert LiveSource().http(path, "/info").value == {"a": 1}


def test_an_answer_in_chunks(serve: Callable[..., str]) -> None:
    path = serve(
        [
            b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n4\r\n: 1}\r\n0\r\n\r\n'
        ]
    )
    assert LiveSource().http(path, "/info").value == {"a": 1}


def test_a_service_that_accepts_and_never_answers(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_http, "HTTP_TIMEOUT", 0.3)
    path = serve([])
    source = LiveSource()
    assert timed(lambda: source.http(path, "/info")) < 1.5
    assert source.http(path, "/info").reason == "no answer in time"


def test_a_service_that_trickles_is_cut_off(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_http, "HTTP_TIMEOUT", 0.4)
    path = serve([b"x"] * 100, 0.1)
    source = LiveSource()
    assert timed(lambda: source.http(path, "/info")) < 1.5
    assert source.http(path, "/info").reason == "no answer in time"


def test_what_is_no_answer_is_unknown(serve: Callable[..., str]) -> None:
    assert LiveSource().http(serve([b"hello"]), "/info").reason == "not HTTP"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "not HTTP"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n{}", "the answer was cut short"),
        (b"HTTP/1.0 abc OK\r\n\r\n{}", "not HTTP"),
    ],
)
def test_answers_that_are_none(data: bytes, error: str) -> None:
    assert parse_answer(data) == {"error": error}


def test_no_socket_is_absent_and_one_without_a_listener_says_so(tmp_path: Path) -> None:
    assert LiveSource().http(str(tmp_path / "no"), "/info").state == "absent"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "left"))
    left.close()
    assert "nothing listens" in LiveSource().http(str(tmp_path / "left"), "/info").reason
    assert stat.S_ISSOCK(os.lstat(tmp_path / "left").st_mode)


def test_a_service_that_floods_is_stopped(serve: Callable[..., str]) -> None:
    path = serve([b"HTTP/1.0 200 OK\r\n\r\n"] + [b"x" * (1 << 20)] * 6)
    assert LiveSource().http(path, "/info").reason == "too large to read"


# children -----------------------------------------------------------------------------------------------------------


def test_an_nvml_that_hangs_half_way_keeps_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        {"init": "ok"},
        {"fn": "nvmlDeviceGetName", "args": [0], "value": "H200"},
        {"devices": {"0": "GPU-1"}},
    ]
    told = "\n".join(json.dumps(line) for line in lines)
    code = f"import time; print({told!r}, flush=True); time.sleep(60)"
    monkeypatch.setattr(
        LiveSource, "_child",
        lambda self, *args: child.run_child([sys.executable, "-c", code], dict(os.environ), 0.7),
    )  # fmt: skip
    source = LiveSource()
    assert source.nvml("nvmlDeviceGetName", 0).value == "H200"
    assert source.nvml_devices().value == {"0": "GPU-1"}
    assert source.nvml("nvmlDeviceGetEccMode", 0).reason == "no answer in time"


def test_an_nvml_that_never_answers_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        LiveSource, "_child", lambda self, *args: child.run_child(["/bin/sleep", "60"], {}, 0.2)
    )
    assert LiveSource().nvml_init().reason == "no answer in time"


def test_a_cuda_look_that_dies_by_a_signal_says_what_it_saw_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = 'import os; print(\'{"lib": "/x/libcuda.so.1"}\', flush=True); os.kill(os.getpid(), 11)'
    monkeypatch.setattr(
        LiveSource, "_child",
        lambda self, *args: child.run_child([sys.executable, "-c", code], dict(os.environ), 5),
    )  # fmt: skip
    fact = LiveSource().cuda()
    assert (fact.state, fact.reason) == ("unknown", "killed by signal 11")


def test_children_write_no_bytecode_and_take_nothing_of_the_callers_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise SystemExit('evil')")
    answer = LiveSource()._nvml()
    assert "evil" not in json.dumps(answer)


# scope --------------------------------------------------------------------------------------------------------------


def test_under_sudo_the_callers_environment_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/root")
    source = LiveSource()
    assert source.process().value["sudo"] is True
    assert "sudo" in source.env("CUDA_VISIBLE_DEVICES").reason
    assert source.env("LD_LIBRARY_PATH").state == "unknown"


def test_without_sudo_what_is_not_set_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert LiveSource().env("CUDA_VISIBLE_DEVICES").state == "absent"


def test_a_pid_has_its_own_environment_and_limits() -> None:
    def small() -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, hard))

    with subprocess.Popen(
        ["/bin/sleep", "30"], env={"CUDA_VISIBLE_DEVICES": "3"}, preexec_fn=small
    ) as other:
        source = LiveSource(f"pid:{other.pid}")
        assert source.env("CUDA_VISIBLE_DEVICES").value == "3"
        assert source.env("PATH").state == "absent"
        assert source.process().value["rlimits"]["nofile"][0] == 77
        other.kill()


def test_a_scope_that_is_gone_is_unknown_for_every_question() -> None:
    for scope in ("pid:999999999", "pid:x", "service:no-such-unit-here"):
        source = LiveSource(scope)
        assert source.env("CUDA_VISIBLE_DEVICES").state == "unknown", scope
        assert source.cuda().state == "unknown", scope
        assert source.process().value["error"]


def test_importing_the_live_source_is_cheap() -> None:
    code = "import sys; import doctor.probes.live; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    heavy = {
        "http",
        "http.client",
        "email",
        "socket",
        "ssl",
        "ctypes",
        "pynvml",
        "importlib.metadata",
        "resource",
    }
    assert not heavy & set(done.stdout.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as somebody else")
def test_root_looks_at_a_users_scope_as_that_user(tmp_path: Path) -> None:
    """A user's LD_PRELOAD must not run as root."""
    source = tmp_path / "spy.c"
    said = tmp_path / "said"
    said.mkdir()
    said.chmod(0o777)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent == Path("/tmp"):
            break
        parent.chmod(0o755)
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        "__attribute__((constructor)) static void f(void) { char p[512];"
        f' snprintf(p, sizeof p, "{said}/uid-%d", (int)geteuid()); FILE *o = fopen(p, "w"); if (o) fclose(o); }}'
    )
    library = tmp_path / "spy.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    sleeper = subprocess.Popen(
        ["/bin/sleep", "30"],
        env={"LD_PRELOAD": str(library)},
        user=65534,
        group=65534,
        extra_groups=[],
    )
    try:
        time.sleep(0.3)
        LiveSource(f"pid:{sleeper.pid}").cuda("scope")
    finally:
        sleeper.kill()
        sleeper.wait()
    assert {path.name for path in said.iterdir()} == {"uid-65534"}
