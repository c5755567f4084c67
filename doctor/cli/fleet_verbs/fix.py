"""`doctor fleet fix`: many hosts, each fixed as one of one's own would be, in waves that stop when too many fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from doctor.cli import console

if TYPE_CHECKING:
    from doctor.fleet.fixing.model import FleetFix


@click.command()
@click.option("-i", "--inventory", "inventories", multiple=True, required=True, metavar="INVENTORY")
@click.option("--limit", metavar="PATTERN", help="Only these hosts of it.")
@click.option("--serial", metavar="N|P%,...", help="Sizes of the waves.  [default: 1,25%]")
@click.option(
    "--max-fail", metavar="P%", default="0%", show_default=True,
    help="No more waves once more than that part of one failed.",
)  # fmt: skip
@click.option("--want", "specs", multiple=True, metavar="SPEC", help="What the hosts are for.")
@click.option("--only", multiple=True, metavar="ID", help="Only what this finding needs.")
@click.option("--dry-run", is_flag=True, help="Check mode with differences; changes nothing.")
@click.option(
    "--allow", "allowed", multiple=True, metavar="LIST", help="service,gpu,reboot,irreversible"
)
@click.option("--resume", is_flag=True, help="Go on with runs that were left half way.")
@click.option("--forks", type=click.IntRange(1, 500), default=10, show_default=True)
@click.option(
    "-b",
    "--become",
    is_flag=True,
    expose_value=False,
    help="As of an audit; a fix acts as root without it too.",
)
@click.option("-c", "--connection", default="", metavar="PLUGIN", help="As of ansible-playbook.")
@click.option(
    "--deadline", type=click.IntRange(5, 600), default=60, show_default=True,
    help="Seconds that a host has for a look.",
)  # fmt: skip
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
def fix(
    inventories: tuple[str, ...],
    limit: str | None,
    serial: str | None,
    max_fail: str,
    specs: tuple[str, ...],
    only: tuple[str, ...],
    dry_run: bool,
    allowed: tuple[str, ...],
    resume: bool,
    forks: int,
    connection: str,
    deadline: int,
    overlays: tuple[Path, ...],
    format_: str,
    output: Path | None,
) -> int:
    """Fix the hosts of an inventory, wave after wave. Asks nothing; disturbs only what --allow names."""
    from doctor import engine
    from doctor.cli import fleet_fix_view as view
    from doctor.cli.verbs.fix import at_work, options
    from doctor.fleet.fixing import run
    from doctor.fleet.fixing.waves import SERIAL

    asked = run.Asked(
        inventories=list(inventories),
        limit=limit,
        serial=serial or SERIAL,
        max_fail=max_fail,
        forks=forks,
        connection=connection,
        deadline=deadline,
        resume=resume,
        options=options(specs, only, allowed, dry_run, None, overlays, smoke="none"),
    )
    if output is not None:
        made(output)
    with at_work() as cancel:
        found = run.fix(asked, engine.line_of, view.Teller(console.talk), cancel)
    if output is not None:
        written(found, output)
    console.data(view.to_json(found) if format_ == "json" else view.fix(found, console.look()))
    return found.exit_code


def made(folder: Path) -> None:
    """The folder, before anything is changed. UsageError where there can be none."""
    from doctor.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror}", "name a folder") from None


def written(found: FleetFix, folder: Path) -> None:
    """The whole and each host's part, as files."""
    from doctor.cli.fleet_fix_view import to_json
    from doctor.fleet.model import FIX_SUMMARY, file_name

    console.data(to_json(found), folder / FIX_SUMMARY)
    for host in found.hosts:
        console.data(to_json(host), folder / file_name(host.name))
