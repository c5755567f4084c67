"""`doctor fleet report`: an audit in any format, in pieces, whatever its size."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console
from doctor.report.formats import FORMATS, SUFFIXES


@click.command()
@click.argument("audit", metavar="FOLDER|AUDIT", default="last")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="Else what the file's suffix says, else text.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--golden", metavar="FILE|HOST", help="Compare with it instead of the majority.")
@click.option("--since", metavar="FOLDER|AUDIT", help="Say what changed since then.")
@click.option("-v", "--verbose", is_flag=True, help="Leave nothing out of the text.")
def report(
    audit: str,
    format_: str | None,
    output: Path | None,
    golden: str | None,
    since: str | None,
    verbose: bool,
) -> int:
    """Report an audit: its folder, or its id in the history (last when left out)."""
    from doctor.fleet import opening, revising
    from doctor.report.formats import of_fleet

    with opening.opened(audit) as found:
        if golden is not None:
            found = revising.against(found, golden)
        if since is not None:
            with opening.opened(since) as before:
                found = revising.since(found, before)
        chosen = format_ or (SUFFIXES.get(output.suffix, "text") if output else "text")
        console.stream(of_fleet(found, chosen, console.look(output, verbose=verbose)), output)
        return found.fleet.exit_code
