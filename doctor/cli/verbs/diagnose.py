"""`doctor diagnose TEXT`: paste an error message or a log; findings that explain it, checked against the host."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from doctor.cli import console
from doctor.cli.sources import open_source


@click.command()
@click.argument("text")
@click.option("--from", "origin", metavar="REC|FACTS.json", help="Check against a recording.")
@click.option("--scope", default="shell", metavar="shell|service:NAME|pid:N")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1, 50))
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--as-of", metavar="DATE")
def diagnose(
    text: str,
    origin: str | None,
    scope: str,
    format_: str,
    top: int,
    overlays: tuple[Path, ...],
    as_of: str | None,
) -> int:
    """Explain an error message or log (- reads standard input). Exit 0 when something explains it, 3 when nothing does."""
    from doctor import engine
    from doctor.checks.knowledge import Knowledge
    from doctor.diagnose import explain
    from doctor.errors import UsageError
    from doctor.report import diagnosis

    message = sys.stdin.read() if text == "-" else text
    if not message.strip():
        raise UsageError(
            "there is no text to explain", "paste the error message, or pipe the log with -"
        )
    opened = open_source(origin, scope, as_of)
    options = engine.Options(as_of=opened.as_of, label=opened.label, overlays=overlays)
    if opened.source is not None:
        report = engine.check(opened.source, options)
    else:
        report = engine.check_facts(opened.facts or {}, options)
    knowledge = Knowledge(opened.as_of, overlays=overlays)
    found = explain(message, knowledge, {item.id: item for item in report.findings})[:top]
    console.data(diagnosis.render(found, format_, console.width()))
    return 0 if found else 3
