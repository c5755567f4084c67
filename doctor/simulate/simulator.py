"""Runs every writer over one resolved host."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from doctor.simulate.writer import RecordingWriter

NOT_WRITERS = frozenset({"description", "host", "resolve", "simulator", "writer", "boards"})
"""Modules of this package that hold no writer. Each other module defines `write(host, out)`."""


def simulate(description: Any) -> RecordingWriter:
    """A description (parsed YAML) -> a recording. UsageError for a wrong key or a contradiction.

    Writers run in the order of their names; `says` comes last and replaces answers.
    """
    import doctor.simulate as package
    from doctor.simulate.resolve import resolve

    host = resolve(description)
    out = RecordingWriter(recorded_at=f"{host.d.as_of}T12:00:00+00:00", host=host.d.name)
    names = sorted(item.name for item in pkgutil.iter_modules(package.__path__))
    for name in [name for name in names if name not in NOT_WRITERS and name != "says"] + ["says"]:
        importlib.import_module(f"doctor.simulate.{name}").write(host, out)
    return out
