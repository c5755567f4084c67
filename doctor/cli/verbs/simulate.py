"""`doctor simulate`: a host that does not exist, as a recording."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console
from doctor.errors import UsageError


@click.command()
@click.argument("description", type=click.Path(path_type=Path), metavar="DESCRIPTION.yml")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="REC",
    help="Folder to write; it must be empty or not there.",
)
def simulate(description: Path, output: Path) -> int:
    """Turn a short description of a host into a consistent recording.

    Every command takes it with --from; `doctor schema description` prints the keys.
    """
    import yaml

    from doctor.simulate.simulator import simulate as run

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is there and not empty", "name a new folder")
    try:
        raw = yaml.safe_load(description.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{description}: no such file", "write a description first") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{description}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        raise UsageError(
            f"{description}: not YAML{line}", "see: doctor schema description"
        ) from None
    try:
        recording = run(raw)
    except UsageError as error:
        raise UsageError(f"{description}: {error.message}", error.hint) from None
    recording.write(output)
    console.talk(f"{output}: {len(recording.files)} files, {len(recording.commands)} commands")
    return 0
