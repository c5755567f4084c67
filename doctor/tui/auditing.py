"""Where audits come from: one that is in a folder, one that is made now, one of a fleet that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from doctor.errors import SourceError, UsageError
from doctor.events import (
    AnyEvent,
    Emit,
    FleetReady,
    FleetStarted,
    HostFinished,
    RunFinished,
    RunStarted,
)
from doctor.fleet.model import SUMMARY, HostLine
from doctor.tui.bridge import Cancel
from doctor.tui.origin import AUDIT, Origin, replay
from doctor.tui.row import Part

if TYPE_CHECKING:
    from doctor.fleet.audit import AuditOptions
    from doctor.fleet.folder import Audit
    from doctor.fleet.store import Audit as Kept
    from doctor.report.model import Report
    from doctor.tui.app import DoctorApp

BATCH = 200
"""Hosts of a finished audit between two looks at whether somebody wants the end."""
ReportOf: TypeAlias = "Callable[[HostLine], Report]"


def nowhere(line: HostLine) -> Report:
    """For what came without reports."""
    raise SourceError(
        f"the report of {line.name} is not here", "open the audit's folder: doctor tui --from DIR"
    )


def is_audit(path: Path) -> bool:
    """Whether a path is what `doctor fleet audit` wrote: its folder, also of one that was killed, or the summary in it."""
    if path.name == SUMMARY and path.is_file():
        return True
    cut_short = (path / "events.jsonl").is_file() and not (path / "manifest.json").exists()
    return (path / SUMMARY).is_file() or cut_short


def in_folder(folder: Path) -> ReportOf:
    """Reports as an audit wrote them, one file a host."""

    def report_of(line: HostLine) -> Report:
        from doctor.fleet.folder import read_report
        from doctor.fleet.model import file_name

        return read_report(folder / file_name(line.name))

    return report_of


def _told(audit: Audit, source: str, emit: Emit, cancel: Cancel) -> None:
    """An audit that was made, as if it went on now, without its pauses."""
    import msgspec

    from doctor.engine import Clock

    tell = Clock(emit)
    tell(RunStarted(verb="fleet report", source=source))
    fleet, hosts = audit.fleet, list(audit.lines())
    tell(FleetStarted(audit=fleet.audit, hosts={line.name: line.groups for line in hosts}))
    for number, line in enumerate(hosts, 1):
        tell(HostFinished(line=msgspec.to_builtins(line), done=number, of=len(hosts)))
        if number % BATCH == 0 and cancel.canceled:
            return
    said = msgspec.to_builtins(msgspec.structs.replace(fleet, hosts=[]))
    tell(FleetReady(fleet=said))
    tell(RunFinished(verdict=fleet.verdict, exit_code=fleet.exit_code))


def from_folder(path: Path) -> Origin:
    """What `doctor fleet audit` wrote."""
    folder = path.parent if path.name == SUMMARY else path

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor.fleet.folder import Folder

        _told(Folder(folder), str(folder), emit, cancel)
        return None

    return Origin(
        kind="recording",
        label=str(folder),
        as_of=date.today(),
        start=start,
        work=AUDIT,
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
        work=AUDIT,
        report_of=report_of,
    )


def replayed(path: Path) -> Origin:
    """An event log; where it is an audit's, the reports are looked for beside it."""
    import msgspec

    made = replay(path)
    if made.work != AUDIT:
        return made
    return msgspec.structs.replace(made, report_of=in_folder(path.parent))


def history() -> list[Kept]:
    """Audits that this host keeps, the newest first. Looking makes nothing."""
    from doctor.fleet.store import NAME, Store
    from doctor.remedy.state import open_state

    path = open_state(create=False).root / "fleet" / NAME
    if not path.is_file():
        return []
    with Store(path) as store:
        return store.audits()[::-1]


def open_kept(app: DoctorApp, kept: Kept) -> None:
    """Show an audit of the history."""

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor.fleet.opening import opened

        with opened(kept.id) as found:
            _told(found, kept.inventory, emit, cancel)
        return None

    def report_of(line: HostLine) -> Report:
        from doctor.fleet.store import open_store

        with open_store() as store:
            return store.report(kept.id, line.name) or nowhere(line)

    if app.set_to_work(AUDIT, start):
        app.report_of = report_of


def ask(app: DoctorApp) -> None:
    """Which inventory; then audit it."""
    if app.read_only or not app.origin.is_live:
        said = "an audit is started from a live doctor: doctor tui, or doctor fleet audit"
        app.notify(said, title="not from here", severity="warning")
        return
    from doctor.tui.screens.prompt import PromptScreen

    lines: list[list[Part]] = [
        [("hosts.yml   'gpu-1,gpu-2,'   hosts.ini -l h100 -b --forks 50", "command")],
        [("as after doctor fleet audit -i; it asks by Ansible and changes nothing", "dim")],
    ]
    prompt = PromptScreen("Audit which inventory?", lines, app.asked_inventory, "hosts.yml")
    app.push_screen(prompt, lambda words: _begin(app, words))


def _begin(app: DoctorApp, words: str | None) -> None:
    if words is None:
        return
    app.asked_inventory = words
    try:
        asked = options(words)
    except UsageError as error:
        app.notify(f"{error.message}\n{error.hint}", severity="error", markup=False)
        return
    folders: list[Path] = []

    def report_of(line: HostLine) -> Report:
        return in_folder(folders[0])(line) if folders else nowhere(line)

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor import engine
        from doctor.cli.fleet_progress import Kept as KeptEvents

        kept = KeptEvents()

        def both(event: AnyEvent) -> None:
            if isinstance(event, FleetStarted):
                folders.append(Path(event.folder))
            kept(event)
            emit(event)

        try:
            return engine.audit(asked, both, lambda: cancel.canceled)
        finally:
            kept.close()

    if app.set_to_work(AUDIT, start, acts=True):
        app.report_of = report_of


def options(words: str) -> AuditOptions:
    """What was typed, read as the command line reads it. UsageError where it is wrong."""
    import shlex

    import click

    from doctor.cli.fleet_verbs.audit import audit as command
    from doctor.fleet.audit import AuditOptions

    try:
        split = shlex.split(words)
        if not split or split[0].startswith("-"):
            raise UsageError("the inventory comes first", "doctor fleet audit --help")
        given = command.make_context("audit", ["-i", *split], help_option_names=[]).params
    except (click.ClickException, ValueError) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise UsageError(said, "doctor fleet audit --help") from None
    known = AuditOptions.__struct_fields__
    asked = {name: value for name, value in given.items() if name in known and value is not None}
    return AuditOptions(**asked)
