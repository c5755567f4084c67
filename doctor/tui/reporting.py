"""The report of what is shown, put together from events, so that a replay can be exported as well."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.errors import UsageError
from doctor.report.formats import SUFFIXES, of_host
from doctor.report.model import Report, next_step
from doctor.tui.state import ViewState

if TYPE_CHECKING:
    from datetime import date

    from doctor.facts.identity import HostName

EXPORTS = tuple(SUFFIXES)


def report_of(state: ViewState, as_of: date | None = None) -> Report:
    """The report that the check made."""
    from doctor import __version__
    from doctor.checks.verdict import verdict
    from doctor.exit_codes import code_for
    from doctor.facts.identity import host_name, unseen_facts
    from doctor.facts.tree import decode

    findings = [state.findings[id] for id in sorted(state.findings)]
    said = verdict(findings)
    day = as_of or datetime.fromtimestamp(state.started, timezone.utc).date()
    facts = decode(state.facts)
    return Report(
        doctor=__version__,
        host=host_name(facts, state.source),
        judged_as_of=day.isoformat(),
        verdict=said,
        exit_code=int(code_for(said)),
        next=next_step(findings),
        findings=findings,
        facts=state.facts,
        unseen=unseen_facts(facts, state.facts),
        timing_ms={
            f"probe.{item.area}": item.ms for item in state.probes.values() if item.ms is not None
        },
    )


def state_of(report: Report) -> ViewState:
    """A report as if its check had just ended."""
    return ViewState(
        verb="check",
        source=report.host.source,
        facts=report.facts,
        findings={item.id: item for item in report.findings},
        exit_code=report.exit_code,
        revision=1,
    )


class HostNames:
    """What the host is called, as soon as the facts say it."""

    def __init__(self) -> None:
        self._of = lru_cache(4)(self._read)
        self._facts: dict[int, object] = {}

    def of(self, state: ViewState) -> HostName | None:
        """From the area `host` alone, for the others may still be looked at."""
        area = state.facts.get("host")
        if not area:
            return None
        self._facts = {id(area): area}
        return self._of(id(area), state.source)

    def _read(self, key: int, source: str) -> HostName:
        from doctor.facts.identity import host_name
        from doctor.facts.tree import decode

        return host_name(decode({"host": self._facts[key]}), source)


def export(report: Report, path: Path) -> None:
    """Write it; the suffix says how. Never over something that is there."""
    path = path.expanduser()
    text = rendered(report, path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError:
        raise UsageError(f"{path} is there", "name a new file") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a writable file") from None


def rendered(report: Report, path: Path) -> str:
    """The report in the format that the suffix names."""
    if path.suffix in SUFFIXES:
        from doctor.report.text import Look

        return of_host(report, SUFFIXES[path.suffix], Look(width=80, verbose=True))
    raise UsageError(
        f"{path.name}: the suffix says the format", f"it is one of {', '.join(EXPORTS)}"
    )
