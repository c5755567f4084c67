"""Opens what a verb judges: this host, a recording, or facts that were probed elsewhere."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import SourceError, UsageError
from doctor.probes.source import Source, ThisHost


class Opened(msgspec.Struct, frozen=True):
    """A source to probe, or facts that are already there, and the day it is judged as of."""

    source: Source | None
    facts: dict[str, Any] | None
    label: str
    as_of: date


def open_source(origin: str | None, scope: str = "shell", as_of: str | None = None) -> Opened:
    """`origin` is None for this host, a recording folder, or a facts or report JSON file (- for stdin)."""
    if origin is None:
        return Opened(ThisHost(scope), None, "live", day(as_of) or today())
    path = Path(origin)
    if origin != "-" and path.is_dir():
        from doctor.probes.recordings.recorded import RecordedSource, RecordingError

        try:
            source = RecordedSource(origin)
        except RecordingError as error:
            raise SourceError(str(error), "name a folder made by doctor record") from None
        return Opened(source, None, origin, day(as_of) or _recorded_day(source.recorded_at))
    return _facts_file(origin, as_of)


def _facts_file(origin: str, as_of: str | None) -> Opened:
    try:
        if origin == "-":
            import sys

            text = sys.stdin.read()
        else:
            text = Path(origin).read_text(encoding="utf-8")
        document = json.loads(text)
    except OSError as error:
        raise SourceError(
            f"{origin}: {error.strerror}", "name a recording folder or a facts file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{origin}: not valid JSON ({error})", "name a recording folder or a facts file"
        ) from None
    facts = document.get("facts") if isinstance(document, dict) else None
    if not isinstance(facts, dict):
        raise SourceError(f"{origin}: holds no facts", "make it with python3 doctor-probe.pyz")
    if document.get("schema") not in ("doctor.facts/1", "doctor.report/1"):
        raise SourceError(
            f"{origin}: schema {document.get('schema')!r} is not one this doctor reads",
            "use a doctor at least as new as the one that made it",
        )
    made = str(document.get("recorded_at") or document.get("judged_as_of") or "")
    return Opened(None, facts, origin, day(as_of) or _recorded_day(made))


def day(text: str | None) -> date | None:
    """An ISO date, or UsageError."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date", "write it as 2026-11-30") from None


def today() -> date:
    """The day in UTC."""
    return datetime.now(timezone.utc).date()


def _recorded_day(text: str) -> date:
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return today()
