"""`doctor check`: look once, judge, say what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console
from doctor.cli.sources import open_source
from doctor.report.formats import FORMATS


@click.command()
@click.option(
    "--from", "origin", metavar="REC|FACTS.json", help="Judge a recording or probed facts."
)
@click.option("--want", "wants", multiple=True, metavar="SPEC", help="What the host is for.")
@click.option("--scope", default="shell", show_default=True, metavar="shell|service:NAME|pid:N")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--fail-on", type=click.Choice(["error", "warn", "unknown"]), default="error")
@click.option("--only", metavar="GLOB", help="Checks whose id matches.")
@click.option("--list", "list_", is_flag=True, help="List the checks instead of running them.")
@click.option("--waivers", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--lock",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Judge drift from a solved stack.",
)
@click.option("--as-of", metavar="DATE", help="Judge as of another day.")
@click.option("-v", "--verbose", is_flag=True, help="Show passes, skips and evidence too.")
def check(
    origin: str | None,
    wants: tuple[str, ...],
    scope: str,
    format_: str,
    output: Path | None,
    fail_on: str,
    only: str | None,
    list_: bool,
    waivers: Path | None,
    overlays: tuple[Path, ...],
    lock: Path | None,
    as_of: str | None,
    verbose: bool,
) -> int:
    """Look at this host (or a recording), judge it, and say the root cause first."""
    if list_:
        return _list(format_, only, overlays, output)
    opened = open_source(origin, scope, as_of)
    from doctor import engine

    options = engine.Options(
        as_of=opened.as_of,
        only=only,
        fail_on=fail_on,
        label=opened.label,
        overlays=overlays,
        wants=_wants(wants, lock),
        waivers=_waivers(waivers),
    )
    if opened.source is not None:
        report = engine.check(opened.source, options)
    else:
        report = engine.check_facts(opened.facts or {}, options)
    if not report.findings and only is not None:
        from doctor.errors import UsageError

        raise UsageError(f"no check matches {only!r}", "see doctor check --list")
    from doctor.report import formats

    look = console.look(output, verbose=verbose)
    console.data(formats.of_host(report, format_, look), output)
    return report.exit_code


def _wants(specs: tuple[str, ...], lock: Path | None) -> tuple[object, ...]:
    if not specs and lock is None:
        return ()
    from doctor.plan import want

    return want.parse_all(specs, lock)


def _waivers(file: Path | None) -> object:
    if file is None:
        return None
    from doctor.checks import waivers

    return waivers.read(file)


def _list(format_: str, only: str | None, overlays: tuple[Path, ...], output: Path | None) -> int:
    from doctor import engine
    from doctor.report import checks_list

    if format_ not in ("text", "json"):
        from doctor.errors import UsageError

        raise UsageError(f"--list has no format {format_}", "it has text and json")
    found = engine.listed(only, overlays)
    console.data(checks_list.render(found, format_), output)
    return 0
