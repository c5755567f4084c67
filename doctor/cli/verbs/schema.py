"""`doctor schema NAME`: the contracts as JSON Schema."""

from __future__ import annotations

import click

from doctor.cli import console

NAMES = ("facts", "report", "fleet", "golden", "description", "event")


@click.command()
@click.argument("name", type=click.Choice(NAMES))
def schema(name: str) -> int:
    """Print the JSON Schema of a document."""
    import msgspec

    console.data(msgspec.json.format(msgspec.json.encode(_schema(name)), indent=2).decode())
    return 0


def _schema(name: str) -> dict[str, object]:
    import msgspec

    if name == "facts":
        from doctor.facts.tree import Facts

        found = msgspec.json.schema(Facts)
    elif name == "report":
        from doctor.report.model import Report

        found = msgspec.json.schema(Report)
    elif name == "fleet":
        from doctor.fleet.model import FleetReport

        found = msgspec.json.schema(FleetReport)
    elif name == "golden":
        from doctor.fleet.golden import Golden

        found = msgspec.json.schema(Golden)
    elif name == "event":
        from doctor.events import AnyEvent

        found = msgspec.json.schema(AnyEvent)
    else:
        from doctor.simulate.description import schema as of_description

        found = of_description()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"doctor {name}",
        **found,
    }
