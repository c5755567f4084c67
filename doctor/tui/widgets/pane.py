"""A pane of wrapped text that scrolls. Text is text: no markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from doctor.tui.row import STYLES, Part


def content(lines: Iterable[Sequence[Part]]) -> Content:
    """Lines of styled parts as Textual shows them."""
    return Content("\n").join(
        Content.assemble(*((text, STYLES.get(name, "")) for text, name in line)) for line in lines
    )


class Pane(VerticalScroll, can_focus=True):
    """What is known of the row beside it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="pane.down"),
        Binding("k", "scroll_up", "Up", show=False, id="pane.up"),
    ]

    def __init__(self, *, id: str | None = None, empty: str = "") -> None:
        super().__init__(id=id)
        self._empty = empty
        self._shown: list[list[Part]] | None = None
        self._about = ""

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(content([[(self._empty, "dim")]]), markup=False)

    def show(self, lines: list[list[Part]], *, about: str = "") -> None:
        """Replace what is shown; news about the same thing leaves the place where a person reads."""
        if lines == self._shown:
            return
        self._shown = lines
        shown = content(lines) if lines else content([[(self._empty, "dim")]])
        self.query_one(Static).update(shown)
        if about != self._about:
            self._about = about
            self.scroll_home(animate=False, immediate=True)
