"""`doctor tui`: the verdict to walk through, in a terminal or, read-only, in a browser on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from doctor.cli import console
from doctor.errors import UsageError

if TYPE_CHECKING:
    from doctor.tui.origin import Origin

PORT = 8613
ENDING = 60.0
"""Seconds that a fix or smoke run may take to end in good order after the app is gone."""


@click.command()
@click.option(
    "--from", "origin", metavar="REC|FACTS.json", help="Show a recording or probed facts."
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="EVENTS.jsonl",
    help="Show an earlier run from its event log.",
)
@click.option("--demo", metavar="NAME", help="Show a simulated host; --demo list names them.")
@click.option("--want", "wants", multiple=True, metavar="SPEC", help="What the host is for.")
@click.option("--scope", default="shell", show_default=True, metavar="shell|service:NAME|pid:N")
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--as-of", metavar="DATE", help="Judge as of another day.")
@click.option("--serve", is_flag=True, help="For a browser on this machine, read-only.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="With --serve; 0 takes a free one.",
)
@click.option("--inline", is_flag=True, help="A short panel under the prompt.")
@click.option("--read-only", is_flag=True, hidden=True)
def tui(
    origin: str | None,
    replay: Path | None,
    demo: str | None,
    wants: tuple[str, ...],
    scope: str,
    overlays: tuple[Path, ...],
    as_of: str | None,
    serve: bool,
    port: int,
    inline: bool,
    read_only: bool,
) -> int:
    """Open the host's verdict in the terminal: findings, evidence, plan, fix, smoke, matrix."""
    if demo == "list":
        return _list_demos()
    _one_of(origin, replay, demo)
    if serve and inline:
        raise UsageError("--serve and --inline exclude each other", "name one")
    if serve:
        return _serve(port)
    if not (read_only or (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty())):
        raise UsageError("the TUI needs a terminal", "doctor check says the same as text")
    shown = _origin(origin, replay, demo, wants, scope, overlays, as_of)
    from doctor.tui.app import DoctorApp
    from doctor.tui.enduring import enduring
    from doctor.tui.look import wants_plain

    app = DoctorApp(shown, read_only=read_only, plain=wants_plain())
    with enduring():
        code = app.run(inline=inline)
    if app.crashed is not None:
        raise app.crashed
    job = app.bridge.job
    if job is not None and job.acts and job.thread is not None and job.at_work:
        console.talk(f"ending the {job.name}; what was done is looked at again")
        job.thread.join(ENDING)
    return int(code or 0)


def _list_demos() -> int:
    from doctor.demos import catalog, fleets

    titles = {name: catalog.title(name) for name in catalog.names()}
    titles |= {name: fleets.title(name) for name in fleets.names()}
    widest = max(map(len, titles))
    console.data("\n".join(f"{name:<{widest}}  {title}" for name, title in titles.items()))
    return 0


def _one_of(origin: str | None, replay: Path | None, demo: str | None) -> None:
    given = [
        name
        for name, value in (("--from", origin), ("--replay", replay), ("--demo", demo))
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} both say what to show", "name one")


def _origin(
    origin: str | None,
    replay: Path | None,
    demo: str | None,
    wants: tuple[str, ...],
    scope: str,
    overlays: tuple[Path, ...],
    as_of: str | None,
) -> Origin:
    from doctor.cli.sources import day, open_source
    from doctor.demos import fleets
    from doctor.tui import auditing
    from doctor.tui import origin as origins

    if wants:
        from doctor.plan.want import parse_all

        parse_all(wants, None, overlays)
    if replay is not None:
        return auditing.replayed(replay)
    if demo is not None and demo in fleets.names():
        return auditing.demo(demo)
    if origin is not None and auditing.is_audit(Path(origin)):
        return auditing.from_folder(Path(origin))
    if demo is not None:
        from doctor.demos import catalog

        source, made = catalog.opened(demo)
        return origins.judged(
            "demo", demo, day(as_of) or made, source, wants=wants, overlays=overlays
        )
    found = open_source(origin, scope, as_of)
    if origin is None:
        return origins.judged(
            "live", "live", found.as_of, None, wants=wants, overlays=overlays, scope=scope
        )
    return origins.judged(
        "recording",
        found.label,
        found.as_of,
        found.source,
        found.facts,
        wants=wants,
        overlays=overlays,
    )


def _serve(port: int) -> int:
    """The same command for each browser session, read-only."""
    try:
        from doctor.tui.serve import serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--serve needs {error.name}", "pip install 'gpu-host-doctor[serve]'"
        ) from None
    arguments = [item for item in _own_arguments() if item != "--serve"]
    command = [sys.executable, "-m", "doctor", "tui", *arguments, "--read-only"]
    return serve(command, port, console.talk, os.environ.get("SSH_CONNECTION", ""))


def _own_arguments() -> list[str]:
    """What stands behind the verb on this command line, without --port."""
    found = sys.argv[sys.argv.index("tui") + 1 :] if "tui" in sys.argv else []
    kept: list[str] = []
    skip = False
    for item in found:
        if skip or item == "--port":
            skip = not skip
        elif not item.startswith("--port="):
            kept.append(item)
    return kept
