"""Finds the probes and runs them side by side, each with a deadline. One file per area; nothing to register."""

import collections
import importlib
import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from doctor.probes.fact import Fact, unknown
from doctor.probes.recordings.secret import cut, cut_tree
from doctor.probes.source import Source

SCHEMA = "doctor.facts/1"
DEADLINE = 25.0
"""Seconds after which a probe that has not answered is Unknown: above the longest child deadline."""
WORKERS = 5
"""Threads that probe: three for what a driver answers, two for the rest. More only take turns, for Python runs one at a time."""
STALLED = 0.1
"""Seconds without an answer after which one more thread helps, so that probes that hang keep none waiting."""
Probe = Callable[[Source], Dict[str, Any]]
OnEvent = Callable[[str, str, int], None]
"""Told of an area that it has started or finished, and after how many milliseconds; from the thread that knows it."""


def area_names() -> List[str]:
    """Names of the areas: the modules of doctor.probes.areas."""
    import doctor.probes.areas as package

    try:
        files = [name for place in package.__path__ for name in os.listdir(place)]
    except NotADirectoryError:
        # in the zip; elsewhere not, for pkgutil loads inspect, which takes longer than a probe
        import pkgutil

        return sorted(item.name for item in pkgutil.iter_modules(package.__path__))
    return sorted(name[:-3] for name in files if name.endswith(".py") and name[0] != "_")


_IMPORTING = threading.RLock()
"""Probes that import each other from two threads at once would see half a module."""


def load(area: str) -> Probe:
    """The probe of one area."""
    with _IMPORTING:
        found: Probe = importlib.import_module("doctor.probes.areas." + area).probe
    return found


class Looking:
    """What probes that are at work have told so far. Subclasses set them to work and call `told`."""

    def __init__(
        self, areas: Optional[Iterable[str]], on_event: Optional[OnEvent], deadline: float
    ) -> None:
        self._on_event = on_event
        self._wanted = sorted(set(areas)) if areas is not None else area_names()
        self._results: Dict[str, Dict[str, Any]] = {}
        self._timing: Dict[str, int] = {}
        self._errors: Dict[str, str] = {}
        self._end = time.monotonic() + deadline
        self._ended = {area: threading.Event() for area in self._wanted}

    def began(self, area: str) -> None:
        """A probe has begun."""
        if self._on_event:
            self._on_event(area, "started", 0)

    def told(
        self, area: str, found: Optional[Dict[str, Any]], error: Optional[str], ms: int
    ) -> None:
        """A probe has ended: with the facts of its area, or with the reason why there are none."""
        if found is not None:
            self._results[area] = found
        else:
            self._errors[area] = error or "no answer"
        self._timing[area] = ms
        if self._on_event:
            self._on_event(area, "finished", ms)
        self._ended[area].set()

    def found(self, area: str) -> Dict[str, Any]:
        """The facts of an area that has answered; nothing before, and nothing where its probe failed."""
        return self._results.get(area, {})

    def wait(self, without: Iterable[str] = ()) -> bool:
        """Wait, at most until the deadline, for all but some; whether every probe has ended."""
        for area, ended in self._ended.items():
            while area not in without and not ended.is_set():
                left = self._end - time.monotonic()
                if left <= 0:
                    break
                if not ended.wait(min(left, STALLED)):
                    self._stalled()
        return all(ended.is_set() for ended in self._ended.values())

    def _stalled(self) -> None:
        """No probe has ended for a while."""

    def result(self) -> Dict[str, Any]:
        """Wait, at most until the deadline, and return the envelope."""
        self.wait()
        facts: Dict[str, Any] = {}
        errors = dict(self._errors)
        for area in self._wanted:
            if area in errors:
                reason = "the probe failed: " + errors[area]
                facts[area] = {"": unknown(reason, area).json()}
            elif area not in self._results:
                errors[area] = "no answer in time"
                facts[area] = {"": unknown("the probe gave no answer in time", area).json()}
            else:
                facts[area] = self._results[area]
        return {
            "schema": SCHEMA,
            "facts": facts,
            "timing_ms": dict(self._timing),
            "errors": errors,
        }


class Run(Looking):
    """Probes at work in threads. They are daemons: one that hangs in the kernel never keeps the process from ending."""

    def __init__(
        self,
        source: Source,
        areas: Optional[Iterable[str]] = None,
        on_event: Optional[OnEvent] = None,
        deadline: float = DEADLINE,
    ) -> None:
        super().__init__(areas, on_event, deadline)
        self._source = source
        self._waiting = collections.deque(sorted(self._wanted, key=_slow_first))
        for _ in range(min(WORKERS if source.may_wait else 1, len(self._wanted))):
            self._start_worker()

    def _start_worker(self) -> None:
        threading.Thread(target=self._work_on, daemon=True).start()

    def _stalled(self) -> None:
        if self._waiting:
            self._start_worker()  # those at work may hang for good

    def _work_on(self) -> None:
        while self._waiting:
            try:
                area = self._waiting.popleft()
            except IndexError:  # another worker was faster
                return
            try:
                self._work(area)
            finally:
                self._ended[area].set()

    def _work(self, area: str) -> None:
        started = time.monotonic()
        self.began(area)
        found: Optional[Dict[str, Any]] = None
        problem: Optional[str] = None
        try:
            # secrets are cut here, beside the slow probes: whatever is shown or sent comes from these facts
            facts = load(area)(self._source)
            found = {name: cut_tree(_leaf(fact)) for name, fact in facts.items()}
        except Exception as error:
            problem = cut("%s: %s" % (type(error).__name__, error))
        self.told(area, found, problem, int((time.monotonic() - started) * 1000))


def run(
    source: Source,
    areas: Optional[Iterable[str]] = None,
    on_event: Optional[OnEvent] = None,
    deadline: float = DEADLINE,
) -> Dict[str, Any]:
    """Run the probes in parallel. -> {"schema", "facts": {area: {name: fact}}, "timing_ms", "errors": {area: text}}.

    A probe that raises or does not answer by its deadline gives {"": Unknown}: the whole area is unknown, the others
    stay. `on_event(area, "started" | "finished", ms)` is called from the probe's own thread.
    """
    return Run(source, areas, on_event, deadline).result()


def _slow_first(area: str) -> Any:
    order = ("cuda", "nvml", "driver", "packages", "container", "python_env")
    return (order.index(area) if area in order else len(order), area)


def _leaf(fact: Any) -> Any:
    if not isinstance(fact, Fact):
        raise TypeError("a probe returns facts only, not %s" % type(fact).__name__)
    return fact.json()
