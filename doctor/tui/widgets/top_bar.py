"""The line at the top: which screens there are, and which host this is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from doctor.tui.row import safe

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

TABS = (
    ("host", "Host"),
    ("plan", "Plan"),
    ("run", "Run"),
    ("smoke", "Smoke"),
    ("matrix", "Matrix"),
    ("fleet", "Fleet"),
)
"""Modes in the order of their digits."""


class Tab(Static):
    """A screen's name; a click goes there."""

    def __init__(self, mode: str, text: str, here: bool) -> None:
        super().__init__(Content(text), markup=False, classes="-here" if here else "")
        self._mode = mode

    async def on_click(self) -> None:
        """Go to the screen."""
        await self.app.switch_mode(self._mode)


class TopBar(Horizontal):
    """Drawn by every screen."""

    def __init__(self, here: str, about: str = "") -> None:
        super().__init__()
        self._here = here
        self._about = about

    def compose(self) -> ComposeResult:
        """The screens and the origin."""
        for number, (mode, title) in enumerate(TABS, 1):
            here = mode == self._here
            yield Tab(mode, f"[{number} {title}]" if here else f" {number} {title} ", here)
        yield Static(self._origin(), id="origin", markup=False)

    def _origin(self) -> Content:
        app = cast("DoctorApp", self.app)
        kind, label = app.origin.kind, app.origin.label
        said = "live: this host" if kind == "live" else f"{kind}: {safe(label)}"
        said = safe(self._about) or said
        notes = ["served"] * app.read_only + ["read only"] * (app.read_only or kind != "live")
        return Content(", ".join([*notes, said]))
