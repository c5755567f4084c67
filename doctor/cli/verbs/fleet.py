"""`doctor fleet`: many hosts at once. Its subcommands are found by file, imported only when called."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

VERBS = "audit fix undo report diff learn export".split()
"""Subcommands in the order of --help; those without a module in this version are left out."""
PACKAGE = "doctor.cli.fleet_verbs"


class FleetVerbs(click.Group):
    """Loads `doctor.cli.fleet_verbs.<name>` and takes the command of that name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those that are there."""
        return [verb for verb in VERBS if find_spec(f"{PACKAGE}.{verb}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them, None for another word."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = getattr(import_module(f"{PACKAGE}.{cmd_name}"), cmd_name)
        return command


@click.group(cls=FleetVerbs)
def fleet() -> None:
    """Audit many hosts through Ansible: what differs, what breaks next, what changed."""
