"""Copies a finding or its command to the clipboard of the person's terminal (OSC 52), as text that a shell takes as it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.report.plain import escape
from doctor.tui.header import next_of
from doctor.tui.screens.base import DoctorScreen

if TYPE_CHECKING:
    from doctor.checks.finding import Finding
    from doctor.report.model import Report


def command_text(command: str) -> str:
    """A command to paste: its lines, with control characters spelled out."""
    return "\n".join(escape(line) for line in command.splitlines())


class Copying(DoctorScreen):
    """For screens that have a finding under the cursor."""

    def copied_finding(self) -> str | None:
        """Its id."""
        raise NotImplementedError

    def action_copy_command(self) -> None:
        """The command of the finding, else that of the next step."""
        state = self.view
        finding = state.findings.get(self.copied_finding() or "")
        command = finding.fix.command if finding is not None and finding.fix is not None else None
        step = next_of(state)
        if finding is None and step is not None:
            command = step.command
        if not command:
            self.notify("it has no command", severity="warning", markup=False)
            return
        text = command_text(command)
        self.app.copy_to_clipboard(text)
        self.notify(text, title="copied", markup=False)

    def action_copy_text(self) -> None:
        """The finding as `doctor explain` says it."""
        state = self.view
        finding = state.findings.get(self.copied_finding() or "")
        if finding is None:
            self.notify("no finding is selected", severity="warning", markup=False)
            return
        self.app.copy_to_clipboard(explained(self.report(), finding))
        self.notify(finding.id, title="copied", markup=False)


def explained(report: Report, finding: Finding) -> str:
    """One finding as text, without colours."""
    from doctor.report import text

    return text.explain(finding, report, text.Look(width=80))
