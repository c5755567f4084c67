"""What is done piece by piece: the pieces, a pane that tells of the one under the cursor, and the log of the whole."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from doctor.tui.screens.base import DoctorScreen
from doctor.tui.widgets.pane import Pane
from doctor.tui.widgets.row_list import RowList

TICK_S = 0.5
"""Between two drawings of what is at work: times go on though nothing happens."""


class WorkAndLog(DoctorScreen):
    """Head, list, pane, log; keys to the log and back."""

    NO_ROWS: ClassVar[str] = ""
    """Said in the place of the list."""

    def body(self) -> ComposeResult:
        """Head, list, pane, log."""
        yield Static(id="head", markup=False)
        with Container(id="panes"):
            with Vertical(id="left"):
                yield RowList(id="rows", empty=self.NO_ROWS)
            yield Pane(id="detail", empty="Nothing is selected.")
        yield RowList(id="log", empty="The log is empty.", follow=True)

    def on_mount(self) -> None:
        """The list has the keys; time goes on."""
        self.query_one("#rows", RowList).focus()
        self.set_interval(TICK_S, self._tick)

    def _tick(self) -> None:
        if self.is_current and self.doctor.state.working:
            self.on_time()

    def on_time(self) -> None:
        """Draw what changes with time alone."""
        raise NotImplementedError

    def tell(self) -> None:
        """Draw the pane."""
        raise NotImplementedError

    @on(RowList.Moved, "#rows")
    def _moved(self) -> None:
        self.tell()

    @on(RowList.Chosen, "#rows")
    def _chosen(self) -> None:
        self.query_one("#detail", Pane).focus()

    def action_log(self) -> None:
        """To the log."""
        self.add_class("-log")
        self.query_one("#log", RowList).focus()

    def action_back(self) -> None:
        """To the list."""
        self.remove_class("-log")
        self.query_one("#rows", RowList).focus()
