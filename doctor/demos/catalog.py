"""Finds the demos: each is a description of a simulated host with a title and the report that it comes from."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from datetime import date
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.errors import UsageError

if TYPE_CHECKING:
    from doctor.probes.source import Source

FOLDER = Path(__file__).parent


@cache
def names() -> tuple[str, ...]:
    """Every demo, the healthy one first."""
    found = sorted(file.stem for file in FOLDER.glob("*.yml"))
    return tuple(sorted(found, key=lambda name: not name.startswith("healthy")))


def read(name: str) -> dict[str, Any]:
    """title, source, root (the finding that a person sees first, or null) and host, the description."""
    import yaml

    if name not in names():
        from doctor.demos import fleets

        near = get_close_matches(name, (*names(), *fleets.names()), 1)
        hint = f"did you mean {near[0]}?" if near else "doctor tui --demo list names them"
        raise UsageError(f"no demo is called {name!r}", hint)
    document: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    return document


def title(name: str) -> str:
    """One sentence."""
    return str(read(name)["title"])


def opened(name: str) -> tuple[Source, date]:
    """The simulated host, and the day it is judged as of."""
    from doctor.probes.recordings.recorded import RecordedSource
    from doctor.simulate.simulator import simulate

    folder = Path(tempfile.mkdtemp(prefix="doctor-demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    simulate(read(name)["host"]).write(folder / "host")
    source = RecordedSource(str(folder / "host"))
    return source, date.fromisoformat(source.recorded_at[:10])
