"""A look in a copy of this process: started at once, for the interpreter is up. Only for a process with one thread that has loaded nothing."""

import io
import os
import time

TYPE_CHECKING = False  # typing's own constant, whose import would keep the driver waiting
if TYPE_CHECKING:
    from typing import Callable

_WHILE = 0.005
"""Seconds between two looks at whether it has ended."""


class Forked:
    """What `child` asks of a subprocess.Popen, for a process that was forked."""

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdout = io.FileIO(stdout)
        self.stderr = io.FileIO(stderr)
        self.returncode: "int | None" = None

    def poll(self) -> "int | None":
        """How it ended: its status, minus the signal's number, or None where it goes on."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """The same when it has ended; subprocess.TimeoutExpired where it does not by then."""
        end = time.monotonic() + timeout
        while True:
            ended = self.poll()
            if ended is not None:
                return ended
            if time.monotonic() > end:
                import subprocess

                raise subprocess.TimeoutExpired("look", timeout)
            time.sleep(_WHILE)


def fork(look: "Callable[[list[str]], None]") -> Forked:
    """Let `look` run in a session of its own, with pipes for what it prints and nothing else of this process open."""
    out, says = os.pipe()
    err, complains = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_the_look(look, says, complains)
    os.close(says)
    os.close(complains)
    return Forked(pid, out, err)


def _be_the_look(look: "Callable[[list[str]], None]", says: int, complains: int) -> None:
    code = 1
    try:
        os.setsid()
        os.chdir("/")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(says, 1)
        os.dup2(complains, 2)
        os.closerange(3, 256)
        look([])
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)  # the driver's own end is not waited for, nor are a copy's exit handlers run
