"""Between the engine's thread and the app: work runs in a daemon thread, its events reach the app in batches.

A daemon thread and not one of Textual's workers: these are waited for at the end, and a probe that hangs in the kernel must
not keep the person from quitting.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from textual.message import Message

from doctor.events import AnyEvent, Emit
from doctor.tui.state import Begun, Ended, Failed, Happening


class Cancel:
    """Set by whoever wants the work to end; the work looks at it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def canceled(self) -> bool:
        """Whether the end was asked for."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Ask for the end."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Sleep, unless the end is asked for meanwhile."""
        return self._event.wait(seconds)


Start: TypeAlias = Callable[[Emit, Cancel], object]


class EngineEvents(Message):
    """Events wait in the bridge. One such message in the queue is enough."""

    def can_replace(self, message: Message) -> bool:
        """Whether a later one makes this one needless."""
        return isinstance(message, EngineEvents)


class Job:
    """One piece of work."""

    def __init__(self, name: str, acts: bool) -> None:
        self.name = name
        self.acts = acts
        """Whether it may change the host; it is never left alone."""
        self.cancel = Cancel()
        self.thread: threading.Thread | None = None
        self.result: Any = None

    @property
    def at_work(self) -> bool:
        """Whether its thread runs."""
        return self.thread is not None and self.thread.is_alive()


class Bridge:
    """Starts work, collects its events. Only the newest work is listened to."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._events: deque[Happening] = deque()
        self.job: Job | None = None

    def start(self, name: str, work: Start, *, acts: bool = False) -> Job:
        """Run the work in a thread; earlier work is asked to end and no longer heard."""
        if self.job is not None:
            self.job.cancel.cancel()
        job = self.job = Job(name, acts)
        self._put(job, Begun(name))
        job.thread = threading.Thread(
            target=self._work, args=(job, work), daemon=True, name=f"engine-{name}"
        )
        job.thread.start()
        return job

    def drain(self) -> list[Happening]:
        """Take what has come."""
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    @property
    def at_work(self) -> bool:
        """Whether the newest work runs."""
        return self.job is not None and self.job.at_work

    def _work(self, job: Job, work: Start) -> None:
        from doctor.errors import DoctorError

        def emit(event: AnyEvent) -> None:
            self._put(job, event)

        try:
            job.result = work(emit, job.cancel)
        except DoctorError as error:
            self._put(job, Failed(job.name, error.message, error.hint))
        except Exception as error:  # noqa: BLE001, RUF100 - a defect is shown, and the app goes on
            said = f"a defect of the doctor itself: {type(error).__name__}: {error}"
            self._put(
                job,
                Failed(job.name, said, "run the same verb on the command line with DOCTOR_DEBUG=1"),
            )
        finally:
            self._put(job, Ended(job.name))

    def _put(self, job: Job, event: Happening) -> None:
        if job is self.job:
            self._events.append(event)
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(Exception):  # the app has ended meanwhile
            self._post(EngineEvents())
