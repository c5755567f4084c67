"""Ask before anything is changed: which host, what is done, what it disturbs. Cancel has the focus."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from doctor.tui.row import Part
from doctor.tui.widgets.pane import content


class ConfirmScreen(ModalScreen[bool]):
    """True only by its own button or the letter y."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "Cancel", id="confirm.no"),
        Binding("y", "answer(True)", "Yes", id="confirm.yes"),
        Binding("left,right", "other", show=False, id="confirm.other"),
    ]

    def __init__(self, title: str, lines: list[list[Part]], yes: str) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._yes = yes

    def compose(self) -> ComposeResult:
        """Title, what happens, two buttons."""
        with Vertical(id="dialog"):
            yield Static(content([[(self._title, "bold")]]), id="title", markup=False)
            with VerticalScroll(id="said", can_focus=False):
                yield Static(content(self._lines), markup=False)
            with Horizontal(id="buttons"):
                yield Button("Cancel (Esc)", id="no")
                yield Button(f"{self._yes} (y)", id="yes", variant="warning")

    def on_mount(self) -> None:
        """The safe answer is the one that Enter gives."""
        self.query_one("#no", Button).focus()

    def action_answer(self, answer: bool) -> None:
        """Say it."""
        self.dismiss(answer)

    def action_other(self) -> None:
        """The other button."""
        self.focus_next()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")
