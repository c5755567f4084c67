"""What every screen has: the bar at the top, the keys at the bottom, the state that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

from doctor.tui.row import safe
from doctor.tui.state import ViewState
from doctor.tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from doctor.facts.identity import HostName
    from doctor.report.model import Report
    from doctor.tui.app import DoctorApp


class DoctorScreen(Screen[None]):
    """A mode of the app."""

    MODE: ClassVar[str] = ""
    TWIN: ClassVar[str] = ""
    """The command line that says the same."""
    TITLE_IN_HELP: ClassVar[str] = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]

    @property
    def doctor(self) -> DoctorApp:
        """The app by its type."""
        return cast("DoctorApp", self.app)

    @property
    def view(self) -> ViewState:
        """What is shown: the app's own state, unless the screen has one."""
        return self.doctor.state

    @property
    def host(self) -> HostName | None:
        """What the shown host is called, once that is known."""
        return self.doctor.host_name()

    def host_label(self) -> str:
        """The host's name as a dialog names it."""
        return safe(self.host.name) if self.host is not None and self.host.name else "this host"

    def report(self) -> Report:
        """The report of the shown host."""
        from doctor.tui.reporting import report_of

        return report_of(self.view, self.doctor.origin.as_of)

    @property
    def about(self) -> str:
        """What this is about where it is not what the app was opened for."""
        return ""

    def compose(self) -> ComposeResult:
        """Bar, body, keys."""
        yield TopBar(self.MODE, self.about)
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> ComposeResult:
        """What is between."""
        raise NotImplementedError

    def show(self, state: ViewState) -> None:
        """Draw the state."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        """What happened meanwhile."""
        self.show(self.view)
