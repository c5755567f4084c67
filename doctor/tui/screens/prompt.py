"""Ask for one line of text."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from doctor.tui.row import Part
from doctor.tui.widgets.pane import content


class PromptScreen(ModalScreen[str | None]):
    """The text, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", id="prompt.cancel")
    ]

    def __init__(
        self, title: str, lines: list[list[Part]], value: str, placeholder: str = ""
    ) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._value = value
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        """Title, examples, the line."""
        with Vertical(id="dialog"):
            yield Static(content([[(self._title, "bold")]]), id="title", markup=False)
            yield Static(content(self._lines), id="said", markup=False)
            yield Input(self._value, placeholder=self._placeholder, id="answer")
            yield Static(content([[("Enter takes it, Esc leaves", "dim")]]), markup=False)

    def on_mount(self) -> None:
        """Ready to type."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)
