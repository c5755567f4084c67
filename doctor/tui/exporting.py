"""Asks where the report is to go, and brings it there: a file of this host, or a download where the app is served."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.errors import DoctorError
from doctor.tui.reporting import EXPORTS, export, rendered, report_of
from doctor.tui.row import Part
from doctor.tui.screens.prompt import PromptScreen

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp


def ask(app: DoctorApp) -> None:
    """The name of the file; its suffix is the format."""
    screen = app.shown
    if screen is None or not screen.view.findings:
        twin = "doctor fleet report DIR -o FILE writes an audit's"
        app.notify(f"there is no report of a host here; {twin}", severity="warning", markup=False)
        return
    name = f"doctor-{screen.host_label().replace('/', '-').replace(' ', '-')}.txt"
    said: list[list[Part]] = [[(f"The suffix says the format: {', '.join(EXPORTS)}", "dim")]]
    app.push_screen(PromptScreen("Export the report to", said, name), lambda path: bring(app, path))


def bring(app: DoctorApp, answer: str | None) -> None:
    """Write or send it. A served app writes nothing here."""
    if answer is None:
        return
    path = Path(answer)
    try:
        screen = app.shown
        report = screen.report() if screen is not None else report_of(app.state, app.origin.as_of)
        if app.read_only:
            app.deliver_text(StringIO(rendered(report, path) + "\n"), save_filename=path.name)
            return
        export(report, path)
    except DoctorError as error:
        app.notify(f"{error.message}\n{error.hint}", severity="error", markup=False)
    else:
        app.notify(answer, title="written", markup=False)
