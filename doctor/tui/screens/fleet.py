"""Many hosts: how each stands while an audit runs and after it, what is wrong where, who differs; from each into its report."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.widgets import Static

from doctor.errors import DoctorError
from doctor.fleet.model import FleetReport
from doctor.tui import auditing, fleet_detail
from doctor.tui.detail import Lines
from doctor.tui.fleet_head import fleet_head
from doctor.tui.fleet_rows import (
    SHOWS,
    HostRows,
    Show,
    across_rows,
    change_rows,
    fault_rows,
    kept_rows,
    outlier_rows,
)
from doctor.tui.fleet_state import FleetView, faults
from doctor.tui.origin import AUDIT
from doctor.tui.row import Part, Row, keep, safe
from doctor.tui.screens.list_and_pane import ListAndPane
from doctor.tui.state import ViewState
from doctor.tui.widgets.filter_box import FilterBox
from doctor.tui.widgets.pane import Pane, content
from doctor.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from doctor.fleet.store import Audit as Kept

EMPTY: dict[Show, str] = {
    "hosts": "The audit has no hosts.",
    "findings": "No host has a finding.",
    "outliers": "No host differs from those it should be like.",
    "across hosts": "No rule across hosts is broken.",
    "changes": "Nothing changed since the audit before, or there is none.",
}
LATER = "This is said when every host has answered."
OF_REPORT: dict[Show, Callable[[FleetReport], list[Row]]] = {
    "outliers": lambda report: outlier_rows(report.outliers),
    "across hosts": lambda report: across_rows(report.across),
    "changes": lambda report: change_rows(report.changes),
}


class FleetScreen(ListAndPane):
    """`doctor fleet audit` to watch and `doctor fleet report` to walk through."""

    MODE = "fleet"
    TWIN = "doctor fleet audit -i INVENTORY -o DIR; doctor fleet report DIR; doctor fleet diff A B"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="fleet.filter"),
        Binding("o", "show_next", "Show", tooltip=", ".join(SHOWS), id="fleet.show"),
        Binding("A", "audit", "Audit", tooltip="Audit an inventory", id="fleet.audit"),
        Binding("x", "cancel", "Cancel", tooltip="End it, keep what came", id="fleet.cancel"),
        Binding("z", "zoom", "Zoom", show=False, tooltip="The pane alone", id="fleet.zoom"),
        Binding("escape", "back", show=False, id="fleet.back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._show: Show = "hosts"
        self._having = ""
        """The finding that the listed hosts have."""
        self._hosts = HostRows()
        self._of: FleetView | None = None
        """What the rows are made of: keys mean these until what came since is drawn."""
        self._made: dict[tuple[Show, str], list[Row]] = {}
        self._rows: list[Row] = []
        self._kept: list[Kept] = []

    def on_mount(self) -> None:
        """The list has the keys; time goes on."""
        self.query_one(RowList).focus()
        self.set_interval(0.5, self._tick)
        if self.doctor.origin.is_live and not self.doctor.read_only:
            self._read_history()

    @work(thread=True, exclusive=True, group="history")
    def _read_history(self) -> None:
        with contextlib.suppress(DoctorError):  # whoever audits is told; here is only none to open
            self._kept = auditing.history()
            self.app.call_from_thread(self._with_history)

    def _with_history(self) -> None:
        self._made = {}
        self.show(self.view)

    def _tick(self) -> None:
        if self.is_current and self.view.working == AUDIT:
            self._head(self.view)

    def _head(self, state: ViewState) -> None:
        self.query_one("#head", Static).update(content(fleet_head(state, self.doctor.now)))

    def show(self, state: ViewState) -> None:
        """Head, then the list where it changed, then the pane."""
        self._head(state)
        self._make(state.fleet)
        filtered = self.query_one(FilterBox).value
        rows = keep(self._rows, filtered)
        empty = f'Nothing holds "{safe(filtered)}".' if filtered else self._empty(state)
        self._title(rows, filtered)
        self.query_one(RowList).set_rows(rows, empty=empty)
        self._detail()

    def _make(self, fleet: FleetView | None) -> None:
        """Rows of this view of the audit, each kind once."""
        if fleet is not self._of:
            self._of, self._made = fleet, {}
        asked = (self._show, self._having)
        if asked not in self._made:
            self._made[asked] = (
                self._all_rows(fleet) if fleet is not None else kept_rows(self._kept)
            )
        self._rows = self._made[asked]

    def _empty(self, state: ViewState) -> str:
        failed = state.failures.get(AUDIT)
        if failed is not None:
            return safe(failed.message)
        if state.fleet is None:
            at_work = state.working == AUDIT
            return "Waiting for hosts …" if at_work else "No earlier audit is kept here."
        if self._show in OF_REPORT and state.fleet.report is None:
            return LATER
        return EMPTY[self._show]

    def _all_rows(self, fleet: FleetView) -> list[Row]:
        if self._show == "hosts":
            return self._hosts.rows(fleet, self._having)
        if self._show == "findings":
            return fault_rows(fleet)
        return OF_REPORT[self._show](fleet.report) if fleet.report is not None else []

    def _title(self, rows: list[Row], filtered: str) -> None:
        number = sum(1 for row in rows if row.selectable)
        what = "Audits" if self.view.fleet is None else self._show.capitalize()
        parts: list[Part] = [(what, "head"), (f"  {number}", "")]
        if self._having and self._show == "hosts":
            parts.append((f"  with {safe(self._having)}", "warn"))
        if filtered:
            parts.append((f'  holding "{safe(filtered)}"', "warn"))
        self.query_one("#list-title", Static).update(content([parts]))

    def _detail(self) -> None:
        row, fleet = self.query_one(RowList).row, self._of
        lines: Lines = []
        if row is not None and fleet is not None:
            lines = self._lines(fleet, row.key)
        elif row is not None:
            lines = fleet_detail.kept_lines(next(it for it in self._kept if it.id == row.key))
        self.query_one("#detail", Pane).show(lines, about=row.key if row else "")

    def _lines(self, fleet: FleetView, key: str) -> Lines:
        report = fleet.report
        if self._show == "hosts":
            if key in fleet.lines:
                return fleet_detail.host_lines(
                    fleet.lines[key], report.outliers if report is not None else ()
                )
            return fleet_detail.waiting_lines(key, fleet.groups.get(key, ()))
        if self._show == "findings":
            found = next((item for item in faults(fleet) if item.id == key), None)
            return fleet_detail.fault_lines(found) if found is not None else []
        if report is None or not key.isdecimal():
            return []
        number = int(key)
        if self._show == "outliers":
            return fleet_detail.outlier_lines(report.outliers[number], report.likeness)
        if self._show == "changes":
            return fleet_detail.change_lines(report.changes[number])
        return fleet_detail.across_lines(report.across[number])

    @on(RowList.Moved, "#rows")
    def _moved(self) -> None:
        self._detail()

    @on(RowList.Chosen, "#rows")
    def _chosen(self, event: RowList.Chosen) -> None:
        row, fleet = event.row, self._of
        if row is None:
            return
        if fleet is None:
            kept = next(item for item in self._kept if item.id == row.key)
            auditing.open_kept(self.doctor, kept)
            return
        report = fleet.report
        if self._show == "hosts":
            self._open(fleet, row.key)
        elif self._show == "findings":
            self._show, self._having = "hosts", row.key
            self.query_one(RowList).to_top()
            self.query_one(FilterBox).action_leave()
            self.show(self.view)
        elif self._show == "outliers" and report is not None:
            self._open(fleet, report.outliers[int(row.key)].host)
        elif self._show == "changes" and report is not None:
            self._open(fleet, report.changes[int(row.key)].host)
        else:
            self.query_one("#detail", Pane).focus()

    def _open(self, fleet: FleetView, name: str) -> None:
        """The host's own report, as it was kept."""
        from doctor.tui.screens.stored_host import StoredHostScreen

        line = fleet.lines.get(name)
        if line is None or line.state != "audited":
            said = "it is not part of this audit" if line is None else line.reason or line.state
            if line is None and name in fleet.groups:
                said = "no answer yet"
            self.notify(f"{safe(name)}: {safe(said)}", severity="warning", markup=False)
            return
        try:
            report = self.doctor.report_of(line)
        except DoctorError as error:
            said = f"{safe(error.message)}\n{safe(error.hint)}"
            self.notify(said, title=safe(name), severity="error", markup=False)
            return
        self.app.push_screen(StoredHostScreen(name, report))

    def action_show_next(self) -> None:
        """Hosts, findings, outliers, rules across hosts, changes."""
        self._having = ""
        self.query_one(RowList).to_top()
        self._show = SHOWS[(SHOWS.index(self._show) + 1) % len(SHOWS)]
        self.show(self.view)

    def action_back(self) -> None:
        """As in every list; then from a finding's hosts to the finding."""
        if self.is_at_rest and self._having:
            finding, self._having, self._show = self._having, "", "findings"
            self.show(self.view)
            self.query_one(RowList).move_to(finding)
            return
        super().action_back()

    def action_audit(self) -> None:
        """Ask for the inventory, then audit it."""
        auditing.ask(self.doctor)

    def action_cancel(self) -> None:
        """End the audit; what came is kept."""
        job = self.doctor.bridge.job
        if job is None or not job.at_work or job.name != AUDIT:
            self.notify("no audit is at work", severity="warning")
            return
        job.cancel.cancel()
        self.notify("ending the audit; what came is kept")
