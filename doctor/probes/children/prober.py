"""Runs in a bare process: probes this host and tells what it sees as `doctor.probes.telling` says.

It ends when every probe has, when nobody listens any more, or at the latest by an alarm.
"""

import os

from doctor.probes.children import cuda_child
from doctor.probes.children.fork import Forked, fork

ALARM = 30
"""Seconds after which the kernel ends the process, even where Python is stuck: above the deadline of the probes."""


def main(arguments: "list[str]") -> None:
    """`scope` and the areas, joined by commas; none means all."""
    scope, names = arguments
    os.setsid()
    areas = names.split(",") if names else None
    probe(scope, areas, forked_looks(scope, areas))
    os._exit(0)


def forked_looks(scope: str, areas: "list[str] | None") -> "dict[str, Forked]":
    """The two slowest looks, by module, forked before anything else is loaded: what follows takes less than the driver."""
    forked = {}
    if scope == "shell" and (areas is None or "cuda" in areas):
        forked[cuda_child.__name__] = fork(cuda_child.main)
    if areas is None or "nvml" in areas:
        forked["doctor.probes.children.nvml_child"] = fork(_ask_nvml)
    return forked


def _ask_nvml(arguments: "list[str]") -> None:
    from doctor.probes.children import nvml_child

    nvml_child.main(arguments)


def probe(scope: str, areas: "list[str] | None", forked: "dict[str, Forked]") -> None:
    """Every probe, and an eye on whether anybody still listens."""
    import signal
    import threading

    from doctor.probes.child import Started, end_all
    from doctor.probes.live import LiveSource
    from doctor.probes.telling import Telling

    def end_with_the_listener() -> None:
        os.read(0, 1)
        end_all()
        os._exit(1)

    signal.alarm(ALARM)
    early = {module: Started(child, None) for module, child in forked.items()}
    threading.Thread(target=end_with_the_listener, daemon=True).start()
    Telling(LiveSource(scope, early), areas).wait()
