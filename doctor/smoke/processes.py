"""Processes that a smoke run starts: as which user, with which environment, and how nothing of them is left.

A process is found again by its session and by a mark in its environment: children that leave the session keep the mark,
and those that overwrite their environment (setproctitle does) stay in the session.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

MARK = "DOCTOR_SMOKE_RUN"
"""Environment variable that every process of a run carries."""
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
"""prctl(2)."""
GRACE_S = 5.0
"""Between the request to end and the kill."""
KILL_S = 5.0
"""How long killed processes may take to go: one that hangs in a driver call does not."""
_PASSED_ON = (
    "PATH LANG TZ LD_LIBRARY_PATH LD_PRELOAD CUDA_HOME CUDA_PATH http_proxy https_proxy no_proxy"
).split()
_PASSED_ON_STARTS = ("LC_", "CUDA_", "NCCL_", "NVIDIA_", "OMP_", "MKL_", "GLOO_", "TORCH_", "VLLM_")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


class User(msgspec.Struct, frozen=True):
    """Whom an engine runs as. None keeps the caller's id (who is not root then)."""

    name: str
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


def engine_user() -> User:
    """The caller; for root the person behind sudo, else nobody: never root."""
    if os.geteuid() != 0:
        return User(pwd.getpwuid(os.geteuid()).pw_name)
    behind = os.environ.get("SUDO_UID", "")
    try:
        entry = pwd.getpwuid(int(behind)) if behind.isdigit() and behind != "0" else None
    except KeyError:
        entry = None
    if entry is None:
        entry = pwd.getpwnam("nobody")
        return User(entry.pw_name, entry.pw_uid, entry.pw_gid)
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, groups)


def engine_environment(home: Path, run: str, extra: Mapping[str, str]) -> dict[str, str]:
    """What of the caller's environment decides how CUDA, NCCL and an engine behave; no secrets, no PYTHON*, no real home."""
    env = {
        key: value
        for key, value in os.environ.items()
        if (key in _PASSED_ON or key.startswith(_PASSED_ON_STARTS))
        and not any(word in key for word in _SECRET)
    }
    env.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    own = {
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        MARK: run,
    }
    return env | own | dict(extra)


class Child:
    """One process in a session of its own, its output in a log file."""

    def __init__(self, process: subprocess.Popen[bytes], argv: Sequence[str], log: Path) -> None:
        self.process = process
        self.argv = tuple(argv)
        self.log = log
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        """Also its session's id."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self.process.poll()

    def tail(self, size: int = 200_000) -> str:
        """The end of its log."""
        return tail(self.log, size)


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, user: User, nice: int = 0
) -> Child:
    """Start it without a shell, input or terminal, not as root, its output appended to `log`."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    command = ["nice", "-n", str(nice), *argv] if nice else list(argv)
    try:
        if user.uid is None:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        else:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                user=user.uid,
                group=user.gid,
                extra_groups=list(user.groups),
            )
    finally:
        os.close(out)
    return Child(process, argv, log)


def tail(log: Path, size: int = 200_000) -> str:
    """The end of a log; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - size))
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""


def process_ids() -> Iterator[int]:
    """Every process that /proc shows, zombies too."""
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def members(sessions: set[int], run: str | None = None) -> set[int]:
    """Living processes of these sessions, or with the run's mark, or descended from either; never ourselves."""
    mark = f"{MARK}={run}".encode() if run else None
    parents: dict[int, int] = {}
    found: set[int] = set()
    for pid in process_ids():
        stat = _stat(pid)
        if stat is None:
            continue
        state, parent, session = stat
        if state == "Z":
            continue
        parents[pid] = parent
        if session in sessions or pid in sessions or (mark and _has_mark(pid, mark)):
            found.add(pid)
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    found.discard(os.getpid())
    return found


def is_of_run(pid: int, run: str) -> bool:
    """Whether a living process carries the run's mark."""
    return _has_mark(pid, f"{MARK}={run}".encode())


def end_all(children: Sequence[Child], run: str | None = None, grace: float = GRACE_S) -> list[int]:
    """Ask, then kill everything of the run; the pids that would not go."""
    sessions = {child.pid for child in children}
    _signal(members(sessions, run), signal.SIGTERM)
    left = _wait_gone(children, sessions, run, grace)
    if left:
        _signal(left, signal.SIGKILL)
        left = _wait_gone(children, sessions, run, KILL_S, kill=True)
    return sorted(left)


def _wait_gone(
    children: Sequence[Child],
    sessions: set[int],
    run: str | None,
    seconds: float,
    *,
    kill: bool = False,
) -> set[int]:
    until = time.monotonic() + seconds
    while True:
        for child in children:
            child.process.poll()  # reaps it
        _reap_adopted({child.pid for child in children}, sessions)
        left = members(sessions, run)
        if not left or time.monotonic() > until:
            for child in children:
                child.process.poll()  # one that became a zombie since
            return left
        if kill:
            _signal(left, signal.SIGKILL)
        time.sleep(0.05)


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans of a run come to us and not to process 1, which in a container may leave them as zombies."""
    control = ctypes.CDLL(None, use_errno=True).prctl
    before = ctypes.c_int()
    control(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    control(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        control(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def _reap_adopted(own: set[int], sessions: set[int]) -> None:
    """Zombies of these sessions that became our children; those that subprocess started it reaps itself."""
    for pid in process_ids():
        if pid in own:
            continue
        stat = _stat(pid)
        if stat is not None and stat[0] == "Z" and stat[1] == os.getpid() and stat[2] in sessions:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _stat(pid: int) -> tuple[str, int, int] | None:
    """(state, parent, session) of /proc/<pid>/stat; the name in it may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()
    return fields[0].decode("ascii"), int(fields[1]), int(fields[3])


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
