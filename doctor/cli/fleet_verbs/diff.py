"""`doctor fleet diff`: what changed between two audits."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console


@click.command()
@click.argument("before", metavar="[A]", required=False)
@click.argument("after", metavar="[B]", required=False)
@click.option("--since", metavar="DATE", help="Against the last audit that ended before the day.")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json", "jsonl", "markdown"]), default="text"
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("-v", "--verbose", is_flag=True, help="Leave nothing out of the text.")
def diff(
    before: str | None,
    after: str | None,
    since: str | None,
    format_: str,
    output: Path | None,
    verbose: bool,
) -> int:
    """What changed from audit A to audit B: ids, beginnings of ids, `last`, or folders.

    With one, what changed since then; with none, since the audit before the last. Without any history it lists nothing and
    says so. The exit code is 1 when something became worse.
    """
    from doctor.fleet import opening, revising
    from doctor.report.fleet.changes import FORMATS

    old, new = opening.pair(before, after, since)
    with opening.opened(new) as after_it, opening.opened(old) as before_it:
        found = revising.since(after_it, before_it).fleet
    console.stream(FORMATS[format_](found, console.look(output, verbose=verbose)), output)
    return int(any(item.worse for item in found.changes))
