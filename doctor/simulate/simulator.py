"""Runs every writer over one resolved host."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any

from doctor.simulate.host import Host
from doctor.simulate.writer import RecordingWriter

Write = Callable[[Host, RecordingWriter], None]


def simulate(description: Any) -> RecordingWriter:
    """A description (parsed YAML) -> a recording. UsageError for a wrong key or a contradiction.

    Writers run in the order of their names; `says` comes last and replaces answers.
    """
    from doctor.simulate.resolve import resolve

    return record(resolve(description))


def record(host: Host) -> RecordingWriter:
    """The recording of a resolved host."""
    from doctor.simulate.says import check
    from doctor.simulate.says import write as replace_answers

    check(host)
    out = RecordingWriter(recorded_at=f"{host.d.as_of}T12:00:00+00:00", host=host.d.name)
    for write in writers().values():
        write(host, out)
    replace_answers(host, out)
    return out


@cache
def writers() -> dict[str, Write]:
    """The modules of this package that define `write(host, out)`, by name."""
    import doctor.simulate as package

    found = {}
    for name in sorted(item.name for item in pkgutil.iter_modules(package.__path__)):
        write = getattr(importlib.import_module(f"doctor.simulate.{name}"), "write", None)
        if write is not None and name != "says":
            found[name] = write
    return found
