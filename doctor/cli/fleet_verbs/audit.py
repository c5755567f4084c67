"""`doctor fleet audit`: look at every host of an inventory through Ansible, and judge them one by one and together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from doctor.cli import console
from doctor.report.formats import FORMATS

if TYPE_CHECKING:
    from doctor.fleet.audit import Audited, AuditOptions

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.option(
    "-i",
    "--inventory",
    multiple=True,
    required=True,
    metavar="INVENTORY",
    help="As for ansible-playbook (file, folder, script, plugin, 'a,b,'), or a folder of recordings or facts.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="For one report a host and fleet.json; else the state folder.",
)
@click.option("-l", "--limit", metavar="PATTERN", help="Hosts or groups, as for ansible-playbook.")
@click.option(
    "-f",
    "--forks",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="N",
    help="Hosts asked at once.",
)
@click.option("-b", "--become", is_flag=True, help="Look as root, by Ansible's become.")
@click.option("-c", "--connection", metavar="NAME", help="For hosts that name none, as `local`.")
@click.option(
    "--deadline",
    type=click.IntRange(5, 3600),
    default=90,
    show_default=True,
    metavar="S",
    help="Seconds a host has to answer.",
)
@click.option("--resume", is_flag=True, help="Ask the hosts that an unfinished audit lacks.")
@click.option("--want", "wants", multiple=True, metavar="SPEC", help="What the hosts are for.")
@click.option("--fail-on", type=click.Choice(["error", "warn", "unknown"]), default="error")
@click.option("--waivers", type=FILE, metavar="FILE")
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--lock", type=FILE, metavar="FILE", help="Judge drift from a solved stack.")
@click.option("--golden", metavar="FILE|HOST", help="Compare with it instead of the majority.")
@click.option("--as-of", metavar="DATE", help="Judge as of another day.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Leave nothing out of the text.")
def audit(
    inventory: tuple[str, ...],
    folder: Path | None,
    limit: str | None,
    forks: int,
    become: bool,
    connection: str | None,
    deadline: int,
    resume: bool,
    wants: tuple[str, ...],
    fail_on: str,
    waivers: Path | None,
    overlays: tuple[Path, ...],
    lock: Path | None,
    golden: str | None,
    as_of: str | None,
    format_: str,
    verbose: bool,
) -> int:
    """Look at every host of an inventory, and judge them one by one and together."""
    from doctor.cli.sources import day
    from doctor.fleet.audit import AuditOptions

    asked = AuditOptions(
        inventory=inventory,
        folder=folder,
        limit=limit,
        forks=forks,
        become=become,
        connection=connection or "",
        deadline=deadline,
        resume=resume,
        as_of=str(day(as_of) or ""),
        fail_on=fail_on,
        overlays=overlays,
        wants=wants,
        lock=lock,
        waivers=waivers,
        golden=golden,
    )
    ended = _run(asked)
    _report(ended, format_, verbose)
    return ended.fleet.exit_code


def _run(asked: AuditOptions) -> Audited:
    from doctor import engine
    from doctor.cli import fleet_progress
    from doctor.events import AnyEvent

    view, kept = fleet_progress.shown(), fleet_progress.Kept()

    def emit(event: AnyEvent) -> None:
        kept(event)
        view(event)

    try:
        return engine.audit(asked, emit)
    finally:
        view.close()
        kept.close()


def _report(ended: Audited, format_: str, verbose: bool) -> None:
    from doctor.fleet.folder import Folder
    from doctor.report.formats import of_fleet

    console.stream(of_fleet(Folder(ended.folder), format_, console.look(verbose=verbose)))
    if ended.fleet.exit_code == 130:
        console.talk("interrupted; the same command with --resume asks the rest")
    console.talk(f"reports: {ended.folder}")
