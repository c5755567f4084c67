"""`doctor fleet undo FIX`: what a fix of many hosts changed, taken back on each."""

from __future__ import annotations

import click

from doctor.cli import console


@click.command()
@click.argument("fix")
@click.option("-i", "--inventory", "inventories", multiple=True, required=True, metavar="INVENTORY")
@click.option("--limit", metavar="PATTERN", help="Only these hosts of it.")
@click.option("--allow", "allowed", multiple=True, metavar="LIST", help="service,gpu")
@click.option("--forks", type=click.IntRange(1, 500), default=10, show_default=True)
@click.option("-c", "--connection", default="", metavar="PLUGIN", help="As of ansible-playbook.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
def undo(
    fix: str,
    inventories: tuple[str, ...],
    limit: str | None,
    allowed: tuple[str, ...],
    forks: int,
    connection: str,
    format_: str,
) -> int:
    """Take a fix back, host by host. What somebody else changed since is left and named."""
    from doctor import engine
    from doctor.cli import fleet_fix_view as view
    from doctor.cli.verbs.fix import at_work, options
    from doctor.fleet.fixing import run

    asked = run.Asked(
        inventories=list(inventories),
        limit=limit,
        forks=forks,
        connection=connection,
        options=options((), (), allowed, False, None, (), smoke="none"),
    )
    with at_work() as cancel:
        found = run.undo(fix, asked, engine.line_of, view.Teller(console.talk), cancel)
    console.data(view.to_json(found) if format_ == "json" else view.undo(found, console.look()))
    return found.exit_code
