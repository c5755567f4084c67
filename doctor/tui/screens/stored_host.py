"""A host of an audit: its report as it was kept, to walk through like a host that was looked at now. Esc goes back to the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from doctor.tui.reporting import state_of
from doctor.tui.screens.host import HostScreen

if TYPE_CHECKING:
    from doctor.facts.identity import HostName
    from doctor.report.model import Report
    from doctor.tui.state import ViewState


class StoredHostScreen(HostScreen):
    """`doctor check --from DIR/HOST.json`, to walk through."""

    MODE = "fleet"
    TITLE_IN_HELP = "Host of the fleet"
    TWIN: ClassVar[str] = (
        "doctor check --from DIR/HOST.json -v; doctor explain ID --from DIR/HOST.json"
    )

    def __init__(self, name: str, report: Report) -> None:
        super().__init__()
        self._inventory_name = name
        self._report = report
        self._state = state_of(report)

    @property
    def view(self) -> ViewState:
        """What the report says."""
        return self._state

    @property
    def host(self) -> HostName:
        """As the report has it."""
        return self._report.host

    @property
    def about(self) -> str:
        """Whose report it is, by its inventory name."""
        return f"fleet: {self._inventory_name}"

    def report(self) -> Report:
        """As it was kept."""
        return self._report

    def action_back(self) -> None:
        """As on every host; where there is nothing to go back from, to the fleet."""
        if self.is_at_rest:
            self.dismiss()
            return
        super().action_back()
