"""The tables that every verdict cites, to browse; and what a thing in them would need of this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from doctor.errors import DoctorError
from doctor.tui.matrix_rows import load, matrix_rows, row_lines, want_of
from doctor.tui.row import Row, keep, safe
from doctor.tui.screens.list_and_pane import ListAndPane
from doctor.tui.screens.plan import EXAMPLES
from doctor.tui.screens.prompt import PromptScreen
from doctor.tui.state import ViewState
from doctor.tui.widgets.filter_box import FilterBox
from doctor.tui.widgets.pane import Pane, content
from doctor.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix


class MatrixScreen(ListAndPane):
    """`doctor matrix show` and `why`, to walk through."""

    MODE = "matrix"
    TWIN = "doctor matrix show TABLE; doctor matrix why KEY; doctor plan --want SPEC"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="matrix.filter"),
        Binding(
            "w", "want", "What would it need", tooltip="Plan this host for it", id="matrix.want"
        ),
        Binding("escape", "back", show=False, id="matrix.back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._matrix: Matrix | None = None
        self._rows: list[Row] = []
        self._failed = ""

    def body(self) -> ComposeResult:
        """Title, rows, pane."""
        yield Static(id="head", markup=False)
        with Container(id="panes"):
            with Vertical(id="left"):
                yield RowList(id="rows", empty="Reading the tables …")
                yield FilterBox("#rows")
            yield Pane(id="detail", empty="Nothing is selected.")

    def on_mount(self) -> None:
        """Read the tables beside the drawing."""
        self.query_one(RowList).focus()
        self._load()

    @work(thread=True, exclusive=True, group="matrix")
    def _load(self) -> None:
        try:
            matrix = load(self.doctor.origin.overlays)
            rows = matrix_rows(matrix)
        except DoctorError as error:
            self._failed = f"{error.message} {error.hint}"
            rows, matrix = [], None
        self.app.call_from_thread(self._loaded, matrix, rows)

    def _loaded(self, matrix: Matrix | None, rows: list[Row]) -> None:
        self._matrix, self._rows = matrix, rows
        self.show(self.doctor.state)

    def show(self, state: ViewState) -> None:
        """Rows that the filter leaves."""
        filtered = self.query_one(FilterBox).value
        rows = keep(self._rows, filtered)
        number = sum(1 for row in rows if row.selectable)
        said = f'{number} rows holding "{safe(filtered)}"' if filtered else f"{number} rows"
        if self._matrix is not None and not filtered:
            said += f" from {len(self._matrix.sources)} sources"
        self.query_one("#head", Static).update(content([[("Matrix  ", "head"), (said, "dim")]]))
        empty = safe(self._failed) or (
            "Reading the tables …" if self._matrix is None else f'Nothing holds "{safe(filtered)}".'
        )
        self.query_one(RowList).set_rows(rows, empty=empty)
        self._detail()

    def _detail(self) -> None:
        row = self.query_one(RowList).row
        lines = (
            row_lines(self._matrix, row.key) if self._matrix is not None and row is not None else []
        )
        self.query_one("#detail", Pane).show(lines, about=row.key if row else "")

    @on(RowList.Moved, "#rows")
    def _moved(self) -> None:
        self._detail()

    @on(RowList.Chosen, "#rows")
    def _chosen(self) -> None:
        if self.has_class("-narrow"):
            self.add_class("-zoom")
        self.query_one("#detail", Pane).focus()

    def action_want(self) -> None:
        """What would it need: the plan for this host."""
        row = self.query_one(RowList).row
        value = want_of(row.key) if row is not None else ""
        self.app.push_screen(
            PromptScreen("What would this host need for", EXAMPLES, value, "vllm==0.27.1"),
            self._want,
        )

    def _want(self, text: str | None) -> None:
        if text and self.doctor.want(tuple(text.split())):
            self.call_later(self.app.switch_mode, "plan")
