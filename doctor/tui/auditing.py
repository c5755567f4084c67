"""Where audits come from: one that is in a folder, one that is made now, one of a fleet that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from doctor.errors import SourceError
from doctor.events import Emit, FleetReady, FleetStarted, HostFinished, RunFinished, RunStarted
from doctor.fleet.model import SUMMARY, HostLine
from doctor.tui.bridge import Cancel
from doctor.tui.origin import Origin, replay

if TYPE_CHECKING:
    from doctor.report.model import Report
    from doctor.tui.app import DoctorApp

WORK = "audit"
"""The app's name for an audit at work."""
BATCH = 200
"""Hosts of a finished audit between two looks at whether somebody wants the end."""
ReportOf: TypeAlias = "Callable[[HostLine], Report]"


def nowhere(line: HostLine) -> Report:
    """For what came without reports."""
    raise SourceError(
        f"the report of {line.name} is not here", "open the audit's folder: doctor tui --from DIR"
    )


def is_audit(path: Path) -> bool:
    """Whether a path is what `doctor fleet audit` wrote: its folder, or the summary in it."""
    return (path / SUMMARY).is_file() or (path.name == SUMMARY and path.is_file())


def in_folder(folder: Path) -> ReportOf:
    """Reports as an audit wrote them, one file a host."""

    def report_of(line: HostLine) -> Report:
        from doctor.fleet.folder import read_report
        from doctor.fleet.model import file_name

        return read_report(folder / file_name(line.name))

    return report_of


def from_folder(path: Path) -> Origin:
    """An audit that was made, told as if it went on now, without its pauses."""
    folder = path.parent if path.name == SUMMARY else path

    def start(emit: Emit, cancel: Cancel) -> object:
        import msgspec

        from doctor.engine import Clock
        from doctor.fleet.folder import Folder

        tell = Clock(emit)
        tell(RunStarted(verb="fleet report", source=str(folder)))
        fleet = Folder(folder).fleet
        hosts = fleet.hosts
        tell(FleetStarted(audit=fleet.audit, hosts={line.name: line.groups for line in hosts}))
        for number, line in enumerate(hosts, 1):
            tell(HostFinished(line=msgspec.to_builtins(line), done=number, of=len(hosts)))
            if number % BATCH == 0 and cancel.canceled:
                return None
        said = msgspec.to_builtins(msgspec.structs.replace(fleet, hosts=[]))
        tell(FleetReady(fleet=said))
        tell(RunFinished(verdict=fleet.verdict, exit_code=fleet.exit_code))
        return None

    return Origin(
        kind="recording",
        label=str(folder),
        as_of=date.today(),
        start=start,
        work=WORK,
        mode="fleet",
        report_of=in_folder(folder),
    )


def demo(name: str) -> Origin:
    """A fleet of simulated hosts, audited now."""
    kept: dict[str, Report] = {}

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor.demos.fleets.audit import audit

        audit(name, emit, cancel, keep=kept)
        return None

    def report_of(line: HostLine) -> Report:
        return kept[line.name] if line.name in kept else nowhere(line)

    return Origin(
        kind="demo",
        label=name,
        as_of=date.today(),
        start=start,
        work=WORK,
        mode="fleet",
        report_of=report_of,
    )


def replayed(path: Path) -> Origin:
    """An event log; where it is an audit's, the reports are looked for beside it."""
    import msgspec

    made = replay(path)
    if made.work != WORK:
        return made
    return msgspec.structs.replace(made, report_of=in_folder(path.parent))


def ask(app: DoctorApp) -> None:
    """Which inventory; then audit it."""
    app.notify("doctor fleet audit -i INVENTORY", severity="warning", markup=False)
