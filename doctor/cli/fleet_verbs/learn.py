"""`doctor fleet learn`: what hosts should look like, from one of them or from most of them."""

from __future__ import annotations

from pathlib import Path

import click

from doctor.cli import console


@click.command()
@click.argument("audit", metavar="FOLDER|AUDIT", default="last")
@click.option("--host", metavar="NAME", help="This host is golden; else what is usual is.")
@click.option("--group", metavar="GLOB", default="*", show_default=True, help="Groups to learn.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
def learn(audit: str, host: str | None, group: str, output: Path | None) -> int:
    """Write a golden profile, for --golden FILE of doctor fleet audit and report.

    It is YAML: traits and their values, one profile a group. Take out what may differ.
    """
    import msgspec

    from doctor.errors import UsageError
    from doctor.fleet import golden, opening

    with opening.opened(audit) as found:
        lines = opening.lines_of(found)
    if host is not None:
        if host not in lines:
            raise UsageError(f"{host} is not in audit {found.fleet.audit}", "name one of its hosts")
        profile = golden.of_host(lines[host], found.fleet.judged_as_of)
    else:
        fleet = msgspec.structs.replace(found.fleet, hosts=list(lines.values()))
        profile = golden.of_majority(fleet, group)
    console.data(golden.write(profile), output)
    return 0
