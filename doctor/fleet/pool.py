"""Processes that judge: one thread of ours waits for each. A host that breaks or stalls one costs itself, and a new one is started."""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

import msgspec

from doctor.errors import RemedyError, UsageError
from doctor.fleet.judging import Host, Judged, Rules, receive, send
from doctor.fleet.model import HostLine

PATIENCE = 60.0
"""Seconds to judge one host: a thousand times what it takes."""
_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from doctor.fleet.judging import main; main()"
_STDERR_KEPT = 2000


HOSTS_EACH = 40
"""Hosts for which it pays to start one more."""


def workers(hosts: int) -> int:
    """One for each core, at least two and not more than help; fewer for few hosts, which are judged before another has started."""
    return min(max(2, min(8, len(os.sched_getaffinity(0)))), 1 + hosts // HOSTS_EACH)


class Pool:
    """Takes hosts, gives judgements in whatever order they come."""

    def __init__(self, rules: Rules, number: int) -> None:
        self._rules = rules
        self._hosts: queue.SimpleQueue[Host | None] = queue.SimpleQueue()
        self._judged: queue.SimpleQueue[Judged | Exception] = queue.SimpleQueue()
        self._ended = False
        self.waiting = 0
        """Hosts that were given and not yet taken back."""
        self._judges = [_Process(rules) for _ in range(number)]
        self._threads = [
            threading.Thread(target=self._serve, args=(judge,), daemon=True)
            for judge in self._judges
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        for judge in self._judges:
            judge.end()
        for _ in self._threads:
            self._hosts.put(None)
        for thread, judge in zip(self._threads, self._judges, strict=True):
            thread.join(PATIENCE)
            judge.close()

    def give(self, host: Host) -> None:
        """One more to judge."""
        self.waiting += 1
        self._hosts.put(host)

    def take(self, seconds: float) -> Judged | None:
        """The next that is judged; None when there is none in that time. UsageError when the rules themselves are wrong."""
        try:
            found = self._judged.get(timeout=seconds) if seconds else self._judged.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, Exception):
            raise found
        self.waiting -= 1
        if found.problem:
            raise UsageError(*found.problem)
        return found

    def _serve(self, judge: _Process) -> None:
        try:
            judge.wait_until_ready()
            while (host := self._hosts.get()) is not None and not self._ended:
                self._judged.put(judge.judge(host))
        except Exception as error:  # said by whoever takes: a silent thread would be waited for
            self._judged.put(error)


class _Process:
    """One child. `judge` is called by one thread; `end` by another."""

    def __init__(self, rules: Rules) -> None:
        self._rules = msgspec.msgpack.encode(rules)
        self._decoder = msgspec.msgpack.Decoder(Judged)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open until close; a pipe would fill
        self._ended = False
        self._start()

    def _start(self) -> None:
        places = json.dumps([str(Path(place).absolute()) for place in sys.path if place])
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE, places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for who asked
        )
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None and stdout is not None  # noqa: S101 - both are pipes
        self._stdin, self._stdout = stdin, stdout
        send(self._stdin, self._rules)

    def wait_until_ready(self) -> None:
        """UsageError when the rules cannot be followed."""
        frame = self._reply()
        if frame is None:
            raise RemedyError(f"the judge does not start: {self._last_words()}", "report this")
        problem = msgspec.msgpack.decode(frame, type=list[str])
        if problem:
            raise UsageError(*problem)

    def judge(self, host: Host) -> Judged:
        """A judgement, whatever happens to the child."""
        try:
            send(self._stdin, msgspec.msgpack.encode(host))
            frame = self._reply()
        except OSError:
            frame = None
        if frame is not None:
            return self._decoder.decode(frame)
        late = self._child.poll() is None
        self._kill()
        if not self._ended:
            self._stdin.close()
            self._stdout.close()
            self._start()
            self.wait_until_ready()
        said = (
            f"judging it took more than {PATIENCE:.0f} s" if late else "judging it ended the judge"
        )
        return Judged(
            line=HostLine(name=host.name, state="refused", reason=said, groups=host.groups)
        )

    def _reply(self) -> bytes | None:
        ready, _, _ = select.select([self._stdout], [], [], PATIENCE)
        return receive(self._stdout) if ready else None

    def _last_words(self) -> str:
        self._kill()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        return " ".join(text[-_STDERR_KEPT:].split()) or "no output"

    def _kill(self) -> None:
        self._child.kill()
        self._child.wait()

    def end(self) -> None:
        """Now: what it has not judged stays unjudged, and who waits for it waits no longer."""
        self._ended = True
        self._kill()

    def close(self) -> None:
        """Once nobody waits for it."""
        self._stdin.close()
        self._stdout.close()
        self._errors.close()
