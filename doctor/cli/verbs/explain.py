"""`doctor explain ID`: what was read, which row, which source, what would fix it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import click

from doctor.cli import console
from doctor.cli.sources import open_source


@click.command()
@click.argument("id")
@click.option("--from", "origin", metavar="REC|FACTS.json", help="Explain on a recording.")
@click.option("--scope", default="shell", metavar="shell|service:NAME|pid:N")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--as-of", metavar="DATE")
def explain(
    id: str,
    origin: str | None,
    scope: str,
    format_: str,
    overlays: tuple[Path, ...],
    as_of: str | None,
) -> int:
    """Explain one check on this host or a recording."""
    from doctor import engine
    from doctor.errors import UsageError

    opened = open_source(origin, scope, as_of)
    options = engine.Options(as_of=opened.as_of, only=id, label=opened.label, overlays=overlays)
    known = engine.chosen(options)
    if id not in known:
        every = engine.every_check(overlays)
        near = get_close_matches(id, every, 1)
        hint = f"did you mean {near[0]}?" if near else "see doctor check --list"
        raise UsageError(f"no check is called {id!r}", hint)
    if opened.source is not None:
        report = engine.check(opened.source, options)
    else:
        report = engine.check_facts(opened.facts or {}, options)
    finding = next(item for item in report.findings if item.id == id)
    if format_ == "json":
        import msgspec

        console.data(msgspec.json.format(msgspec.json.encode(finding), indent=2).decode())
        return 0
    from doctor.report import text

    console.data(text.explain(finding, report, console.look()))
    return 0
