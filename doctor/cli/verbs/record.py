"""`doctor record`: this host as a folder, redacted, that any command can be run against later and elsewhere."""

from __future__ import annotations

import shlex

import click

from doctor.cli import console
from doctor.errors import SourceError


@click.command()
@click.argument("out", type=click.Path(), metavar="OUT")
@click.option("--scope", default="shell", show_default=True, metavar="shell|service:NAME|pid:N")
@click.option("--note", default="", metavar="TEXT", help="A sentence kept in the recording.")
def record(out: str, scope: str, note: str) -> int:
    """Record this host, without what identifies it, so that any command can judge it later.

    OUT must be empty or not there. Host names, users, addresses, serials and UUIDs are renamed, secrets cut;
    names of your own folders, packages and containers may need an eye before it is passed on.
    """
    from doctor.probes.recordings import record as recorder

    try:
        envelope = recorder.record(out, scope, note=note)
    except recorder.RecordError as error:
        raise SourceError(str(error), "name a folder that is empty or not there") from None
    for area, reason in sorted(envelope["errors"].items()):
        console.talk(f"not seen: {area}: {reason}")
    console.talk(
        f"look through it before you pass it on, then: doctor check --from {shlex.quote(out)}"
    )
    console.data(out)
    return 0
