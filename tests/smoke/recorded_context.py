"""A run's context over a recorded host: the facts and the report are the recording's, what is started is real."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from doctor.checks.knowledge import Knowledge
from doctor.engine import Options as CheckOptions
from doctor.engine import check
from doctor.facts.tree import decode
from doctor.probes.recordings.recorded import RecordedSource
from doctor.smoke.context import Context, Options

HOSTS = Path(__file__).parents[1] / "hosts"
DAY = date(2026, 11, 30)
_SEEN: dict[str, Any] = {}


def context(folder: Path, host: str = "h200x2", **options: Any) -> Context:
    """A context whose run folder is `folder`; the check of each host is made once."""
    source = RecordedSource(HOSTS / host)
    if host not in _SEEN:
        _SEEN[host] = check(source, CheckOptions(as_of=DAY, label=host))
    report = _SEEN[host]
    return Context(
        folder=folder,
        source=source,
        facts=decode(report.facts),
        report=report,
        knowledge=Knowledge(DAY),
        options=Options(**options),
        emit=[].append,
    )


def with_facts(ctx: Context, area: str, **fields: Any) -> None:
    """Replace facts of one area."""
    changed = msgspec.structs.replace(getattr(ctx.facts, area), **fields)
    ctx.facts = msgspec.structs.replace(ctx.facts, **{area: changed})
