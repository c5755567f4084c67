"""The host: verdict, the one next step, findings or facts, and what is known of the one under the cursor."""

from __future__ import annotations

from typing import ClassVar, cast

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Static

from doctor.tui import detail
from doctor.tui.copying import Copying
from doctor.tui.digest import digest
from doctor.tui.fact_rows import fact_rows, value_at
from doctor.tui.finding_rows import SHOWS, Show, finding_rows
from doctor.tui.header import bar, head_lines, next_of
from doctor.tui.row import Part, Row, keep, safe
from doctor.tui.screens.list_and_pane import ListAndPane
from doctor.tui.state import ViewState
from doctor.tui.widgets.filter_box import FilterBox
from doctor.tui.widgets.pane import Pane, content
from doctor.tui.widgets.row_list import RowList

EMPTY = {
    "problems": "Nothing wrong was found. Press o to see what passed.",
    "errors": "No error was found.",
    "not seen": "Everything was seen.",
    "all": "No check has run.",
}


class HostScreen(Copying, ListAndPane):
    """`doctor check` and `doctor explain`, to walk through."""

    MODE = "host"
    TWIN = "doctor check -v; doctor explain ID"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="host.filter"),
        Binding(
            "o", "show_next", "Show", tooltip="problems, errors, not seen, all", id="host.show"
        ),
        Binding("f", "facts", "Facts", tooltip="Facts or findings", id="host.facts"),
        Binding("n", "next", "Next step", tooltip="Go to the one thing to do", id="host.next"),
        Binding(
            "c", "copy_command", "Copy cmd", tooltip="The command that fixes it", id="host.copy"
        ),
        Binding("y", "copy_text", "Copy", tooltip="The finding as text", id="host.copy-text"),
        Binding("z", "zoom", "Zoom", show=False, tooltip="The pane alone", id="host.zoom"),
        Binding("escape", "back", show=False, id="host.back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._show: Show = "problems"
        self._facts = False
        self._unfolded: set[str] = set()
        self._made: tuple[object, ...] = ()
        self._rows: list[Row] = []

    def on_mount(self) -> None:
        """The list has the keys; a slow probe is seen to be slow."""
        self.query_one(RowList).focus()
        self.set_interval(0.5, self._tick)

    def _tick(self) -> None:
        if self.is_current and self.view.working:
            self._head(self.view)
            if self._is_looking(self.view):
                self.show(self.view)

    def show(self, state: ViewState) -> None:
        """Head, then the list where it changed, then the pane."""
        self._head(state)
        filtered = self.query_one(FilterBox).value
        key = (
            state.revision,
            len(state.looking),
            self._show,
            self._facts,
            frozenset(self._unfolded),
        )
        ticking = int(self.doctor.now * 2) if self._is_looking(state) else 0
        if (key, ticking, bool(filtered) and self._facts) != self._made:
            self._made = (key, ticking, bool(filtered) and self._facts)
            self._rows = self._all_rows(state, bool(filtered))
        rows = keep(self._rows, filtered)
        empty = self._empty(state)
        if filtered:
            among = (
                "" if self._facts or self._show == "all" else f" among {self._show}; o shows more"
            )
            empty = f'Nothing holds "{safe(filtered)}"{among}.'
        self._title(rows, filtered, state)
        self.query_one(RowList).set_rows(rows, empty=empty)
        self._detail(state)

    def _is_looking(self, state: ViewState) -> bool:
        return not self._facts and not state.findings and bool(state.probes)

    def _empty(self, state: ViewState) -> str:
        if state.failed is not None:
            return safe(state.failed.message)
        if not state.findings and state.working:
            return "Looking at the host …"
        if not state.findings and not state.facts:
            many = self.doctor.origin.mode == "fleet"
            return "Enter on a host of 6 Fleet opens it." if many else "Nothing was looked at yet."
        return "No facts yet." if self._facts else EMPTY[self._show]

    def _head(self, state: ViewState) -> None:
        lines = head_lines(state, self.host, self.doctor.now)
        self.query_one("#head", Static).update(content(lines))

    def _title(self, rows: list[Row], filtered: str, state: ViewState) -> None:
        number = sum(1 for row in rows if row.selectable)
        if self._facts and not filtered:
            number = sum(len(area) for area in state.facts.values())
        what = "Facts" if self._facts else "Probes" if self._is_looking(state) else "Findings"
        parts: list[Part] = [(what, "head")]
        if what == "Findings":
            parts.append((f"  {self._show}", "bold"))
        parts.append((f"  {number}", ""))
        if filtered:
            parts.append((f'  holding "{safe(filtered)}"', "warn"))
        self.query_one("#list-title", Static).update(content([parts]))

    def _all_rows(self, state: ViewState, filtered: bool) -> list[Row]:
        if self._facts:
            return fact_rows(state.facts, frozenset(self._unfolded), filtered)
        if self._is_looking(state):
            return [_probe_row(state, area, self.doctor.now) for area in sorted(state.probes)]
        return finding_rows(state.findings, self._show, frozenset(self._unfolded))

    def _detail(self, state: ViewState) -> None:
        row = self.query_one(RowList).row
        lines: detail.Lines = []
        if row is not None and self._facts:
            path, leaf = value_at(state.facts, row.key)
            lines = detail.fact_lines(path, leaf, digest(state.findings).readers.get(path, ()))
        elif row is not None and row.key in state.findings:
            finding = state.findings[row.key]
            explains = digest(state.findings).explains.get(finding.id, ())
            lines = detail.finding_lines(finding, explains, state.history.get(finding.id, ()))
        elif row is not None and row.key in state.probes:
            probe = state.probes[row.key]
            lines = detail.probe_lines(probe, state.facts.get(row.key, {}))
        self.query_one("#detail", Pane).show(lines, about=row.key if row else "")

    @on(RowList.Moved, "#rows")
    def _moved(self) -> None:
        self._detail(self.view)

    @on(RowList.Folded, "#rows")
    def _folded(self, event: RowList.Folded) -> None:
        if event.row is not None and event.row.fold is not None:
            self._unfolded ^= {event.row.key}
            self.show(self.view)

    @on(RowList.Chosen, "#rows")
    def _chosen(self, event: RowList.Chosen) -> None:
        if self._facts and event.row is not None and event.row.fold is not None:
            self._folded(cast("RowList.Folded", event))
            return
        if self.has_class("-narrow"):
            self.add_class("-zoom")
        self.query_one("#detail", Pane).focus()

    def action_show_next(self) -> None:
        """Problems, errors, not seen, all."""
        self._facts = False
        self.query_one(RowList).to_top()
        self._show = SHOWS[(SHOWS.index(self._show) + 1) % len(SHOWS)]
        self.show(self.view)

    def action_facts(self) -> None:
        """Facts in place of findings, and back."""
        self.query_one(RowList).to_top()
        self._facts = not self._facts
        self.show(self.view)

    def action_next(self) -> None:
        """To the finding that the head speaks of."""
        self._go_to(next_of(self.view))

    def _go_to(self, step: object) -> None:
        id = getattr(step, "id", None)
        if id is None:
            self.notify("nothing is to be done", markup=False)
            return
        self._facts = False
        self.query_one(FilterBox).value = ""
        self.show(self.view)
        if not self.query_one(RowList).move_to(id):
            self._show = "all"
            self.show(self.view)
            self.query_one(RowList).move_to(id)
        self.query_one(RowList).focus()

    def copied_finding(self) -> str | None:
        """The finding under the cursor."""
        row = self.query_one(RowList).row
        return row.key if row is not None and not self._facts else None


def _probe_row(state: ViewState, area: str, now: float) -> Row:
    probe = state.probes[area]
    if probe.ms is None:
        waits = max(0.0, now - probe.started)
        said = f"looking {waits:.0f} s" if waits >= 1 else "looking"
        return Row(area, (("· ", "bold"), (f"{safe(area):<14}", ""), (said, "dim")), area)
    facts = state.facts.get(area, {})
    parts: list[Part] = [("✓ ", "pass"), (f"{safe(area):<14}", ""), (f"{probe.ms:>6} ms  ", "dim")]
    parts += bar(min(probe.ms, 2000), 2000, 10)
    parts.append((f"  {len(facts)} facts", "dim"))
    return Row(area, tuple(parts), area)
