"""Help: the keys that work on the screen below, and the command line that says the same."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen

from doctor.tui.row import MARKS, Part
from doctor.tui.screens.base import DoctorScreen
from doctor.tui.widgets.pane import Pane

NAMES = {
    "slash": "/",
    "question_mark": "?",
    "space": "Space",
    "escape": "Esc",
    "enter": "Enter",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "home": "Home",
    "end": "End",
}
MOVING = (
    ("↑ ↓ j k", "one row"),
    ("PgUp PgDn g G", "a page, first, last"),
    ("Enter", "read it, or unfold it"),
    ("Space ← →", "unfold"),
    ("Tab", "list, pane, log"),
    ("Esc", "back"),
)


class HelpScreen(ModalScreen[None]):
    """Esc, ? or q closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,q", "dismiss", "Close", id="help.close")
    ]

    def __init__(self, below: Screen[object]) -> None:
        super().__init__()
        self._below = below

    def compose(self) -> ComposeResult:
        """One pane."""
        with Vertical(id="dialog", classes="help"):
            yield Pane(id="keys")

    def on_mount(self) -> None:
        """Fill it."""
        pane = self.query_one(Pane)
        pane.show(help_lines(self._below))
        pane.focus()


def help_lines(screen: Screen[object]) -> list[list[Part]]:
    """Keys of the screen, of every screen, of lists; what the marks mean; the command line."""
    lines: list[list[Part]] = []
    if isinstance(screen, DoctorScreen):
        lines += [
            [(screen.TITLE_IN_HELP or screen.MODE.capitalize(), "head")],
            *_keys(type(screen)),
            [],
        ]
    lines += [
        [("Everywhere", "head")],
        *_keys(type(screen.app)),
        _key("Ctrl+P", "every command by name"),
        [],
    ]
    lines += [[("Lists", "head")], *(_key(key, said) for key, said in MOVING), []]
    lines.append([("Marks", "head")])
    lines.append(
        [
            part
            for name, (glyph, word) in MARKS.items()
            for part in ((f"{glyph} {word}   ", "dim" if name == "skip" else name),)
        ]
    )
    if isinstance(screen, DoctorScreen) and screen.TWIN:
        lines += [[], [("The same on the command line", "head")]]
        lines += [[("  $ ", "dim"), (part.strip(), "command")] for part in screen.TWIN.split(";")]
    return lines


def _keys(kind: type) -> list[list[Part]]:
    found = []
    bindings = (item for each in _ours(kind) for item in each.__dict__.get("BINDINGS", []))
    for binding in bindings:
        if isinstance(binding, Binding) and binding.description:
            keys = " ".join(
                NAMES.get(key) or (key.title() if len(key) > 1 else key)
                for key in binding.key.split(",")
            )
            found.append(_key(keys, binding.tooltip or binding.description))
    return found


def _ours(kind: type) -> list[type]:
    """The class and those that it is made of, as far as they are the doctor's."""
    return [each for each in kind.__mro__ if each.__module__.startswith("doctor.")]


def _key(key: str, said: str) -> list[Part]:
    return [(f"  {key:<16}", "bold"), (said, "")]
