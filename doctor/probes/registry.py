"""Finds the probes and runs them side by side, each with a deadline. One file per area; nothing to register."""

import importlib
import pkgutil
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from doctor.probes.fact import Fact, unknown
from doctor.probes.source import Source

SCHEMA = "doctor.facts/1"
DEADLINE = 25.0
"""Seconds after which a probe that has not answered is Unknown: above the longest child deadline."""
NOT_AREAS = frozenset(
    "__main__ fact source live recorded recording record registry redact nvml_child cuda_child no_exec elf".split()
)
"""Modules of this package that hold no area."""

Probe = Callable[[Source], Dict[str, Any]]


def area_names() -> List[str]:
    """Names of the areas: the modules of this package that define `probe(source) -> dict`."""
    import doctor.probes as package

    names = [item.name for item in pkgutil.iter_modules(package.__path__)]
    return sorted(name for name in names if name not in NOT_AREAS)


def load(area: str) -> Probe:
    """The probe of one area."""
    found: Probe = importlib.import_module("doctor.probes." + area).probe
    return found


def run(
    source: Source,
    areas: Optional[Iterable[str]] = None,
    on_event: Optional[Callable[[str, str, int], None]] = None,
    deadline: float = DEADLINE,
) -> Dict[str, Any]:
    """Run the probes in parallel. -> {"schema", "facts": {area: {name: fact}}, "timing_ms": {area: ms}, "errors": {area: text}}.

    A probe that raises or does not answer by its deadline gives {"": Unknown}: the whole area is unknown, the others stay.
    Threads are daemons: one that hangs in the kernel never keeps the process from ending.
    `on_event(area, "started" | "finished", ms)` is called from the probe's own thread.
    """
    wanted = sorted(set(areas)) if areas is not None else area_names()
    results: Dict[str, Dict[str, Any]] = {}
    timing: Dict[str, int] = {}
    errors: Dict[str, str] = {}

    def work(area: str) -> None:
        started = time.monotonic()
        if on_event:
            on_event(area, "started", 0)
        try:
            results[area] = load(area)(source)
        except Exception as error:
            errors[area] = "%s: %s" % (type(error).__name__, error)
        timing[area] = int((time.monotonic() - started) * 1000)
        if on_event:
            on_event(area, "finished", timing[area])

    threads = {
        area: threading.Thread(target=work, args=(area,), daemon=True, name=area) for area in wanted
    }
    for area in sorted(wanted, key=_slow_first):
        threads[area].start()
    end = time.monotonic() + deadline
    for thread in threads.values():
        thread.join(max(0.0, end - time.monotonic()))
    facts: Dict[str, Any] = {}
    for area in wanted:
        if area in errors:
            facts[area] = {"": unknown("the probe failed: " + errors[area], area).json()}
        elif area not in results:
            errors[area] = "no answer in time"
            facts[area] = {"": unknown("the probe gave no answer in time", area).json()}
        else:
            facts[area] = {name: _leaf(fact) for name, fact in results[area].items()}
    return {"schema": SCHEMA, "facts": facts, "timing_ms": dict(timing), "errors": errors}


def _slow_first(area: str) -> Any:
    order = ("cuda", "nvml", "driver", "packages", "container")
    return (order.index(area) if area in order else len(order), area)


def _leaf(fact: Any) -> Any:
    if not isinstance(fact, Fact):
        raise TypeError("a probe returns facts only, not %s" % type(fact).__name__)
    return fact.json()
