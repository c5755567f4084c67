"""`doctor undo RUN`: packages, files and unit states as they were before that run."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console
from doctor.cli.verbs.fix import asking, at_work, options, refuse_recording


@click.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask before each step.")
@click.option("--allow", "allowed", multiple=True, metavar="LIST", help="service,gpu")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--from", "origin", hidden=True, metavar="REC")
def undo(
    run: str,
    yes: bool,
    allowed: tuple[str, ...],
    format_: str,
    output: Path | None,
    origin: str | None,
) -> int:
    """Take a run back, its last step first. What somebody else changed since is left and named."""
    refuse_recording(origin)
    asked = options((), (), allowed, False, None, ())
    from doctor import engine
    from doctor.cli import fix_view
    from doctor.cli.progress import shown
    from doctor.remedy.lock import LockedError

    view = shown()
    with at_work() as cancel:
        ask = None if yes else asking(view)
        try:
            report = engine.undo(run, asked, view, ask=ask, cancel=cancel)
        except LockedError as error:
            console.problem(error.message, error.hint)
            return 5
        finally:
            view.close()
    text = (
        fix_view.to_json(report)
        if format_ == "json"
        else fix_view.undo(report, console.look(output))
    )
    console.data(text, output)
    return report.exit_code
