"""The command palette: what the screens do, and every verb of the command line from its own table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

SCREEN_OF = {
    "check": "host",
    "explain": "host",
    "plan": "plan",
    "fix": "plan",
    "runs": "run",
    "smoke": "smoke",
    "matrix": "matrix",
    "fleet": "fleet",
}
"""Verbs that a screen does; the others are copied as a command line."""
Entry = tuple[str, str, Callable[[], object]]


def verbs() -> list[tuple[str, str]]:
    """Every verb with its first sentence."""
    import click

    from doctor.cli.main import group

    commands = group()
    context = click.Context(commands)
    found = []
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        if command is not None:
            found.append((name, command.get_short_help_str(90)))
    return found


def entries(app: DoctorApp) -> Iterator[Entry]:
    """What can be chosen now."""
    yield "host: Look again", "Probe and judge anew", app.action_look
    yield "host: Export the report", "To a .txt or .json file", app.action_export
    yield "plan: What is this host for", "A plan for what is wanted", partial(_plan_for, app)
    yield "fleet: Audit an inventory", "Look at many hosts now", partial(_audit, app)
    yield "app: Light or dark", "The other theme", app.action_theme
    yield "app: Help", "The keys that work here", app.action_help
    yield "app: Quit", "A run at work is ended first", app.action_quit
    for name, said in verbs():
        if name in SCREEN_OF:
            yield f"{name}: Open", said, partial(app.switch_mode, SCREEN_OF[name])
        else:
            yield (
                f"{name}: Copy `doctor {name}`",
                said,
                partial(_copy, app, f"doctor {name} --help"),
            )


async def _plan_for(app: DoctorApp) -> None:
    await app.switch_mode("plan")
    await app.run_action("screen.want")


async def _audit(app: DoctorApp) -> None:
    await app.switch_mode("fleet")
    await app.run_action("screen.audit")


def _copy(app: DoctorApp, text: str) -> None:
    app.copy_to_clipboard(text)
    app.notify(text, title="copied: run it in a shell", markup=False)


class DoctorCommands(Provider):
    """Found by fuzzy words."""

    async def startup(self) -> None:
        """Read the verbs once a palette."""
        self._entries = list(entries(cast("DoctorApp", self.app)))

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for name, said, callback in self._entries:
            yield DiscoveryHit(Content(name), callback, help=said)

    async def search(self, query: str) -> Hits:
        """Those that fit."""
        matcher = self.matcher(query)
        for name, said, callback in self._entries:
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), callback, help=said)
