"""What every screen has: the bar at the top, the keys at the bottom, the state when it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

from doctor.tui.state import ViewState
from doctor.tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp


class DoctorScreen(Screen[None]):
    """A mode of the app."""

    MODE: ClassVar[str] = ""
    TWIN: ClassVar[str] = ""
    """The command line that says the same."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]

    @property
    def doctor(self) -> DoctorApp:
        """The app by its type."""
        return cast("DoctorApp", self.app)

    def compose(self) -> ComposeResult:
        """Bar, body, keys."""
        yield TopBar(self.MODE)
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
        self.show(self.doctor.state)
