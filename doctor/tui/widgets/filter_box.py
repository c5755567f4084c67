"""The line that filters the list above it while it is typed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


class FilterBox(Input):
    """Hidden until it is asked for. Esc takes the filter away, Enter keeps it and goes back to the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "No filter", id="filter.leave"),
        Binding("enter,down", "keep", "Keep filter", key_display="Enter", id="filter.keep"),
    ]

    def __init__(self, back_to: str) -> None:
        super().__init__(placeholder="filter: words that a row must hold", id="filter")
        self._back_to = back_to
        self.display = False

    def open(self) -> None:
        """Show it, ready to type."""
        self.display = True
        self.screen.set_focus(self)  # at once: the next key is the first letter

    def action_leave(self) -> None:
        """All rows again."""
        self.value = ""
        self.display = False
        self.screen.set_focus(self.screen.query_one(self._back_to))

    def action_keep(self) -> None:
        """Back to what is left."""
        self.display = bool(self.value)
        self.screen.set_focus(self.screen.query_one(self._back_to))
