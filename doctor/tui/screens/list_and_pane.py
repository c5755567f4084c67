"""A list that a filter narrows, and beside it a pane that tells of the row under the cursor."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from doctor.tui.screens.base import DoctorScreen
from doctor.tui.widgets.filter_box import FilterBox
from doctor.tui.widgets.pane import Pane
from doctor.tui.widgets.row_list import RowList


class ListAndPane(DoctorScreen):
    """Head, list with its title, pane; keys to filter, to see the pane alone, and to go back."""

    def body(self) -> ComposeResult:
        """Head, list, pane."""
        yield Static(id="head", markup=False)
        with Container(id="panes"):
            with Vertical(id="left"):
                yield Static(id="list-title", markup=False)
                yield RowList(id="rows")
                yield FilterBox("#rows")
            yield Pane(id="detail", empty="Nothing is selected.")

    @on(FilterBox.Changed, "#filter")
    def _filtered(self) -> None:
        self.show(self.view)

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing here to go back from."""
        return (
            self.query_one("#rows", RowList).has_focus
            and not self.has_class("-zoom")
            and not self.query_one(FilterBox).value
        )

    def action_filter(self) -> None:
        """Type words."""
        self.remove_class("-zoom")
        self.query_one(FilterBox).open()

    def action_zoom(self) -> None:
        """The pane alone, and back."""
        self.toggle_class("-zoom")
        self.query_one(Pane if self.has_class("-zoom") else RowList).focus()

    def action_back(self) -> None:
        """From the pane to the list; then the filter goes."""
        rows = self.query_one("#rows", RowList)
        if self.has_class("-zoom") or not rows.has_focus:
            self.remove_class("-zoom")
            rows.focus()
        else:
            self.query_one(FilterBox).action_leave()
