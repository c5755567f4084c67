"""Runs one program to its end or its deadline, whatever it does: hangs, floods, dies, or leaves children behind."""

import errno
import os
import signal
import subprocess
import threading
import time
from typing import Any, Dict, Optional, Sequence, Union

from doctor.probes import source as limits
from doctor.probes.children.fork import Forked

Child = Union["subprocess.Popen[bytes]", Forked]
DONE = b'{"done": true}\n'
"""The last line of a look that has said all. What follows is the driver's own end, which takes long and tells nothing."""

_AT_WORK: Dict[int, Child] = {}
"""Children that were started and have not been seen to end."""
_STARTING = threading.Lock()
"""Held from a child's start until it is among those at work."""
_STUCK_S = 1.0
"""Seconds after which a start hangs in the kernel: there is nobody yet to kill, and no reason to stay."""


class Started:
    """A program at work, from its start until `finish_child`."""

    def __init__(self, child: Optional[Child], error: Optional[str]) -> None:
        self.child = child
        self.error = error
        self.at = time.monotonic()
        if child is not None:
            _AT_WORK[child.pid] = child


def run_child(
    argv: Sequence[str], env: Dict[str, str], timeout: float, user: Optional[int] = None
) -> Dict[str, Any]:
    """Run to the end or to the deadline, then kill the whole process group; never waits for what cannot be killed."""
    return finish_child(start_child(argv, env, user), timeout)


def start_child(argv: Sequence[str], env: Dict[str, str], user: Optional[int] = None) -> Started:
    """Start a program in a session of its own, as `user` where one is given."""
    as_user: Dict[str, Any] = {}
    if user is not None:
        as_user = {"user": user, "group": _group_of(user), "extra_groups": []}
    _forget_ended()
    try:
        with _STARTING:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd="/",
                start_new_session=True,
                close_fds=True,
                **as_user,
            )
            return Started(child, None)
    except (OSError, ValueError) as error:
        kind = os_error(error)
        return Started(None, "not-found" if kind == "absent" else kind)


def end_all() -> None:
    """Kill every child that is still at work, with all it started, and start no more: whoever asked has gone."""
    _STARTING.acquire(timeout=_STUCK_S)
    for child in list(_AT_WORK.values()):
        _kill(child)


def _forget_ended() -> None:
    for child in [item for item in list(_AT_WORK.values()) if item.poll() is not None]:
        _AT_WORK.pop(child.pid, None)


def _group_of(user: int) -> int:
    import pwd

    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return user


def finish_child(work: Started, timeout: float) -> Dict[str, Any]:
    """Collect what it prints until it ends, says DONE, or the deadline, counted from its start, has come."""
    import selectors

    if work.child is None:
        return {"error": work.error}
    child, started = work.child, work.at
    out, err = child.stdout, child.stderr
    assert out is not None and err is not None  # noqa: S101 - both are pipes
    streams = {out.fileno(): bytearray(), err.fileno(): bytearray()}
    order = list(streams)
    error_name: Optional[str] = None
    said_all = False
    with selectors.DefaultSelector() as selector:
        for fd in order:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            left = started + timeout - time.monotonic()
            if left <= 0:
                error_name = "timeout"
                break
            for key, _ in selector.select(left):
                block = os.read(key.fd, 1 << 16)
                if not block:
                    selector.unregister(key.fd)
                    continue
                streams[key.fd] += block
                if len(streams[key.fd]) > limits.MAX_OUTPUT:
                    error_name = "too-large"
            said_all = streams[order[0]].endswith(DONE)
            if error_name or said_all:
                break
    rc = 0 if said_all and not error_name else _reap(child, error_name, started + timeout)
    if error_name is None and rc is None:
        error_name = "timeout"
    out.close()
    err.close()
    record: Dict[str, Any] = {
        "rc": rc if rc is not None and rc >= 0 else None,
        "signal": -rc if rc is not None and rc < 0 and error_name is None else None,
        "error": error_name,
        "stdout": bytes(streams[order[0]]),
        "stderr": bytes(streams[order[1]]),
        "ms": int((time.monotonic() - started) * 1000),
    }
    if error_name == "too-large":
        record["stdout"], record["stderr"] = b"", b""
    return record


def _reap(child: Child, error_name: Optional[str], deadline: float) -> Optional[int]:
    rc: Optional[int] = None
    if error_name is None:
        try:
            rc = child.wait(max(0.05, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
    if rc is None:
        _kill(child)
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            return None  # stuck in the kernel: it costs this probe, not the run
    _AT_WORK.pop(child.pid, None)
    return rc


def _kill(child: Child) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass


def child_problem(record: Dict[str, Any]) -> Optional[str]:
    """Why a child did not end well, in words."""
    if record.get("error") == "timeout":
        return "no answer in time"
    if record.get("error"):
        return str(record["error"])
    if record.get("signal"):
        return "killed by signal %s" % record["signal"]
    if record.get("rc"):
        said = record["stderr"].decode("utf-8", "replace").strip().splitlines()
        return "exit %s%s" % (record["rc"], ": " + said[-1][:200] if said else "")
    return None


def os_error(error: Exception) -> str:
    """absent, denied, or the system's words."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "absent"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied"
    return error.strerror or str(error)
