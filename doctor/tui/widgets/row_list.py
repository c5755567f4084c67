"""A list that draws only what is on the screen: five thousand rows cost as much as fifty."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from doctor.tui.row import STYLES, Row

CURSOR = "› "  # noqa: RUF001 - a mark, not a sign to compare


class RowList(ScrollView, can_focus=True):
    """Rows with a cursor that skips headings. The cursor is a mark and a background, never a background alone."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"row--{name}" for name in STYLES),
        "row--cursor",
        "row--cursor-away",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="list.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="list.page-up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="list.page-down"),
        Binding("home,g", "end(0)", "First", show=False, id="list.first"),
        Binding("end,G", "end(-1)", "Last", show=False, id="list.last"),
        Binding("enter", "choose", "Open", show=False, id="list.choose"),
        Binding("space,right,left", "fold", "Unfold", show=False, id="list.fold"),
    ]
    cursor: reactive[int] = reactive(-1)

    class Moved(Message):
        """The cursor is on another row, or on none."""

        def __init__(self, rows: RowList, row: Row | None) -> None:
            super().__init__()
            self.rows = rows
            self.row = row

        @property
        def control(self) -> RowList:
            """The list."""
            return self.rows

    class Chosen(Moved):
        """Enter, or a click on the row under the cursor."""

    class Folded(Moved):
        """The row under the cursor is to be laid open or closed."""

    def __init__(self, *, id: str | None = None, empty: str = "", follow: bool = False) -> None:
        super().__init__(id=id)
        self.rows: list[Row] = []
        self._empty = empty
        self._follow = follow
        """Whether the cursor goes with the last row while it is on it."""
        self._led = False
        """Whether a person has led the cursor: until then it stays on the first row, whatever comes above."""
        self._styles: dict[str, Style] = {}

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if 0 <= self.cursor < len(self.rows) else None

    def set_rows(self, rows: list[Row], *, empty: str | None = None, lead: str = "") -> None:
        """Show these. The cursor stays on its row where that is still there; until a person leads it, it is on `lead` or the first."""
        before = self.row
        if empty is not None:
            self._empty = empty
        at_end = self._follow and self.cursor >= len(self.rows) - 1
        self.rows = rows
        self.virtual_size = Size(max(1, self.scrollable_content_region.width), len(rows))
        index = -1
        if before is not None:
            index = next((n for n, row in enumerate(rows) if row.key == before.key), -1)
        if at_end:
            index = len(rows) - 1
        elif not self._led:
            index = next((n for n, row in enumerate(rows) if row.key == lead), -1) if lead else -1
            index = index if index >= 0 else self._selectable(0, 1)
        elif index < 0:
            index = self._selectable(min(max(0, self.cursor), len(rows) - 1), 1)
        moved = index != self.cursor or (rows and before is None)
        self.set_reactive(RowList.cursor, index)
        self.refresh()
        self._into_view()
        if moved or (before is not None and self.row != before):
            self.post_message(self.Moved(self, self.row))

    def to_top(self) -> None:
        """Other rows are going to be shown: begin with the first."""
        self._led = False

    def move_to(self, key: str) -> bool:
        """Put the cursor on a row by its key."""
        for number, row in enumerate(self.rows):
            if row.key == key:
                self._led = True
                self.cursor = number
                return True
        return False

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two rows anew and tell."""
        self.refresh_line(old)
        self.refresh_line(new)
        self._into_view()
        self.post_message(self.Moved(self, self.row))

    def _into_view(self) -> None:
        height = self.scrollable_content_region.height
        if height <= 0 or self.cursor < 0:
            return
        top = self.scroll_offset.y
        first = self.cursor == self._selectable(0, 1)
        if first and self.cursor < height:
            self.scroll_to(y=0, animate=False, immediate=True)  # with the headings above it
        elif self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True)

    def _selectable(self, start: int, step: int) -> int:
        """The first row from `start` on that can be selected, then in the other direction; -1 where none."""
        for way in (step, -step):
            number = start
            while 0 <= number < len(self.rows):
                if self.rows[number].selectable:
                    return number
                number += way
        return -1

    def action_move(self, by: int) -> None:
        """One row up or down."""
        self._led = True
        number = self.cursor + by
        while 0 <= number < len(self.rows) and not self.rows[number].selectable:
            number += by
        if 0 <= number < len(self.rows):
            self.cursor = number
        elif by < 0:
            self.scroll_home(animate=False)

    def action_page(self, by: int) -> None:
        """A screenful up or down."""
        self._led = True
        height = max(1, self.scrollable_content_region.height - 1)
        target = min(max(0, self.cursor + by * height), len(self.rows) - 1)
        self.cursor = self._selectable(target, by)

    def action_end(self, where: int) -> None:
        """The first or the last row."""
        self._led = True
        self.cursor = (
            self._selectable(0, 1) if where == 0 else self._selectable(len(self.rows) - 1, -1)
        )

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self.row is not None:
            self.post_message(self.Chosen(self, self.row))

    def action_fold(self) -> None:
        """Lay the row open, or close it."""
        if self.row is not None:
            self.post_message(self.Folded(self, self.row))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor; on the cursor it opens, on a fold mark it unfolds."""
        number = event.get_content_offset_capture(self).y + self.scroll_offset.y
        if not 0 <= number < len(self.rows) or not self.rows[number].selectable:
            return
        self._led = True
        if number != self.cursor:
            self.cursor = number
        elif self.rows[number].fold is not None:
            self.action_fold()
        else:
            self.action_choose()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self.virtual_size = Size(max(1, self.scrollable_content_region.width), len(self.rows))
        self.call_after_refresh(self._into_view)

    def notify_style_update(self) -> None:
        """The theme may have changed."""
        self._styles = {}
        super().notify_style_update()

    def on_focus(self) -> None:
        """The cursor looks another way."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor looks another way."""
        self.refresh()

    def _style(self, name: str) -> Style:
        found = self._styles.get(name)
        if found is None:
            found = self._styles[name] = (
                self.get_component_rich_style(f"row--{name}", partial=True) if name else Style()
            )
        return found

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width = self.scrollable_content_region.width
        number = y + self.scroll_offset.y
        base = self.rich_style
        if not self.rows and y == 0 and self._empty:
            text = set_cell_size(" " + self._empty, width)
            return Strip([Segment(text, base + self._style("dim"))], width)
        if number >= len(self.rows):
            return Strip.blank(width, base)
        row = self.rows[number]
        at = number == self.cursor
        if at:
            base += self._style("cursor" if self.has_focus else "cursor-away")
        segments = [Segment(CURSOR if at else "  ", base)]
        left = width - 2
        for text, name in row.parts:
            if left <= 0 or not text:
                continue
            length = cell_len(text)
            if length > left:
                text = set_cell_size(text, left - 1) + "…"
                length = left
            segments.append(Segment(text, base + self._style(name)))
            left -= length
        if left > 0:
            segments.append(Segment(" " * left, base))
        return Strip(segments, max(2, width))


class StepList(RowList):
    """A list whose rows are ticked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "fold", "Approve", tooltip="This step, or not", id="steps.approve"),
    ]
