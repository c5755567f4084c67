"""Questions that must be answered before something is done: of a step that would disturb something now, of an end in mid-work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from doctor.exit_codes import ExitCode
from doctor.tui.row import Part, safe
from doctor.tui.screens.confirm import ConfirmScreen

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp


def person(app: DoctorApp, step: str, question: str) -> bool:
    """Asked from the engine's thread: waits for the answer, or for the end of the work."""
    answered = threading.Event()
    answers: list[bool] = []

    def take(answer: bool | None) -> None:
        answers.append(bool(answer))
        answered.set()

    lines: list[list[Part]] = [[(safe(question), "warn")]]
    confirm = ConfirmScreen(f"Do {safe(step)} on {app.host_label()} now?", lines, "Do it")
    app.call_from_thread(app.push_screen, confirm, take)
    job = app.bridge.job
    while not answered.wait(0.2):
        if job is None or job.cancel.canceled:
            return False
    return answers[0]


def whether_to_quit(app: DoctorApp, work: str) -> None:
    """A fix or a smoke run is ended first, in good order."""
    lines: list[list[Part]] = [
        [(f"The {work} on {app.host_label()} is ended in good order first.", "")]
    ]
    confirm = ConfirmScreen(f"Cancel the {work} and quit?", lines, "Cancel it and quit")
    app.push_screen(confirm, lambda yes: app.leave(int(ExitCode.INTERRUPTED)) if yes else None)
