"""`doctor fleet export`: an audit as tables for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console


@click.command()
@click.argument("audit", metavar="FOLDER|AUDIT", default="last")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["parquet", "jsonl"]),
    help="Else what the suffix says.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", required=True
)
def export(audit: str, format_: str | None, output: Path) -> int:
    """Write an audit's findings, hosts, traits and changes to one table, a row each."""
    from doctor.fleet import export as exporting
    from doctor.fleet import opening

    chosen = format_ or ("parquet" if output.suffix == ".parquet" else "jsonl")
    with opening.opened(audit) as found:
        if chosen == "parquet":
            rows = exporting.to_parquet(found, output)
            console.talk(f"{output}: {rows} rows")
        else:
            console.stream(exporting.to_jsonl(found), output)
    return 0
