"""Starts the bare process in which this host is probed: before anything else is loaded, where the command line allows it.

The process has this one's environment, limits, user and folder, so that what is judged is the caller's; its
interpreter takes nothing from PYTHON* variables, loads no site packages and writes bytecode only where this one may.
Its standard input is a pipe that this process holds open: when that closes, however this process ended, it ends too.
"""

import os
import posixpath
import sys

TYPE_CHECKING = False  # typing's own constant, whose import takes longer than to start the process
if TYPE_CHECKING:
    from typing import Any, List, Optional, Sequence, Tuple

_BOOT = "import sys; sys.path += sys.argv[3:]; from doctor.probes.children import prober; prober.main(sys.argv[1:3])"
ROOT = posixpath.dirname(posixpath.dirname(posixpath.dirname(os.path.abspath(__file__))))
"""The folder that holds this package: the process runs the same files."""


class Bare:
    """A bare process at work. `answers` is the pipe it writes to."""

    def __init__(self, argv: "Sequence[str]") -> None:
        self.pid: Optional[int] = None
        self.problem = ""
        """Why there is none."""
        listens, self._hold = os.pipe()
        self.answers, writes = os.pipe()
        actions: "List[Tuple[Any, ...]]" = [
            (os.POSIX_SPAWN_DUP2, listens, 0),
            (os.POSIX_SPAWN_DUP2, writes, 1),
        ]
        if not os.environ.get("DOCTOR_DEBUG"):
            actions.append((os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0))
        try:
            self.pid = os.posix_spawn(argv[0], list(argv), os.environ, file_actions=actions)
        except OSError as error:
            self.problem = "cannot start %s: %s" % (argv[0], error.strerror)
        finally:
            os.close(listens)
            os.close(writes)

    def let_go(self) -> None:
        """Nobody waits for it any more: it ends itself, and kills what it started."""
        hold, self._hold = self._hold, -1
        if hold >= 0:
            os.close(hold)

    def reap(self) -> str:
        """How it ended, in words; waits for that."""
        if self.pid is None:
            return self.problem
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:
            return "it ended"
        code = os.waitstatus_to_exitcode(status)
        return (
            "it was killed by signal %d" % -code if code < 0 else "it ended with status %d" % code
        )


def command(scope: str, areas: "Optional[Sequence[str]]") -> "List[str]":
    """The command of the process: this interpreter, bare, with this package's own files. No areas means all."""
    flags = ["-I", "-S"]
    if sys.dont_write_bytecode:
        flags.append("-B")
    if sys.pycache_prefix:
        flags += ["-X", "pycache_prefix=" + sys.pycache_prefix]
    if sys.flags.utf8_mode:
        flags += ["-X", "utf8"]
    places = [ROOT] + [os.path.abspath(place) for place in sys.path if place != ROOT]
    return [sys.executable, *flags, "-c", _BOOT, scope, ",".join(areas or ()), *places]


_EARLY: "List[Bare]" = []


def start_early() -> None:
    """Start to probe this host in the shell's environment now, while the rest of the program is still being loaded."""
    _EARLY.append(Bare(command("shell", None)))


def start(scope: str, areas: "Optional[Sequence[str]]" = None) -> Bare:
    """The process that probes these areas: the one started early where it does just that, else a new one."""
    if scope == "shell" and areas is None and _EARLY:
        return _EARLY.pop()
    return Bare(command(scope, areas))
