"""`doctor plan`: what the host should have for what is wanted, and the ordered steps to get there. It changes nothing."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console
from doctor.cli.sources import open_source

FORMATS = ("text", "json")


@click.command()
@click.option(
    "--from", "origin", metavar="REC|FACTS.json", help="Plan for a recording or probed facts."
)
@click.option(
    "--want",
    "specs",
    multiple=True,
    metavar="SPEC",
    help="What the host is for: vllm==0.27.1, cuda>=13.0, container, image:REF, engine:DIR, model:DIR, launch:'...', lock:kernel.",
)
@click.option(
    "--lock",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the solved stack, for doctor check --lock.",
)
@click.option(
    "--offline",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Plan as doctor fix --offline DIR would, with DIR in place of the net.",
)
@click.option(
    "--offline-list",
    is_flag=True,
    help="Print a shell script that fetches what belongs in DIR, on a machine of the same release.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--scope", default="shell", show_default=True, metavar="shell|service:NAME|pid:N")
@click.option("--as-of", metavar="DATE", help="Plan as of another day.")
def plan(
    origin: str | None,
    specs: tuple[str, ...],
    lock: Path | None,
    offline: Path | None,
    offline_list: bool,
    format_: str,
    output: Path | None,
    overlays: tuple[Path, ...],
    scope: str,
    as_of: str | None,
) -> int:
    """Say which stack serves what is wanted with the least change, or what cannot be and why."""
    from doctor.plan.want import parse_all

    wants = parse_all(specs, None, overlays)
    opened = open_source(origin, scope, as_of)
    from doctor import engine
    from doctor.checks.knowledge import Knowledge
    from doctor.facts.tree import decode
    from doctor.plan.make import make_plan

    options = engine.Options(as_of=opened.as_of, label=opened.label, overlays=overlays, wants=wants)
    if opened.source is not None:
        report = engine.check(opened.source, options)
    else:
        report = engine.check_facts(opened.facts or {}, options)
    folder = None
    if offline is not None:
        from doctor.plan.folder import read_folder

        folder = read_folder(offline.resolve())
    facts = decode(report.facts)
    made = make_plan(
        facts,
        report.findings,
        wants,
        Knowledge(opened.as_of, overlays=overlays, wants=wants),
        host=report.host,
        checks=engine.chosen(options),
        folder=folder,
    )
    if offline_list:
        from doctor.plan.folder_list import script

        console.data(script(made, facts, wants).rstrip(), output)
        return made.exit_code
    if lock is not None:
        from doctor.plan.lock import write_lock

        write_lock(lock, made)
        console.talk(f"wrote {lock}; judge drift with: doctor check --lock {lock}")
    from doctor.report import plan_text

    console.data(
        plan_text.to_json(made)
        if format_ == "json"
        else plan_text.render(made, console.look(output)),
        output,
    )
    return made.exit_code
