"""A fix at work: steps, what runs now, what it said, how it stands after a fresh look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Static

from doctor.tui import detail
from doctor.tui.header import VERDICTS, bar
from doctor.tui.plan_rows import STEP_MARKS, diff_lines
from doctor.tui.row import Part, Row, safe
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.work_and_log import WorkAndLog
from doctor.tui.state import LogLine, StepView, ViewState
from doctor.tui.widgets.pane import Pane, content
from doctor.tui.widgets.row_list import RowList


class RunScreen(WorkAndLog):
    """`doctor fix` while it runs, and how it ended."""

    MODE = "run"
    TWIN = "doctor fix; doctor runs list; doctor undo RUN"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "cancel", "Cancel", tooltip="End this step, do no more", id="run.cancel"),
        Binding("l", "log", "Log", tooltip="To the log", id="run.log"),
        Binding("escape", "back", show=False, id="run.back"),
    ]

    NO_ROWS = "Nothing has been done. Approve steps on 2 Plan."

    def on_time(self) -> None:
        """The head counts seconds."""
        self.query_one("#head", Static).update(
            content(run_head(self.doctor.state, self.doctor.now))
        )

    def show(self, state: ViewState) -> None:
        """Steps and log as they stand."""
        self.query_one("#head", Static).update(content(run_head(state, self.doctor.now)))
        self.query_one("#rows", RowList).set_rows(
            [step_row(item) for item in state.steps.values()],
            lead=next(reversed(state.steps), ""),
        )
        self.query_one("#log", RowList).set_rows(log_rows(state.log_of("fix", "undo")))
        self.tell()

    def tell(self) -> None:
        """The step under the cursor."""
        row = self.query_one("#rows", RowList).row
        step = self.doctor.state.steps.get(row.key) if row is not None else None
        self.query_one("#detail", Pane).show(
            step_lines(step) if step else [], about=row.key if row else ""
        )

    def action_cancel(self) -> None:
        """Ask, then end the run in good order."""
        job = self.doctor.bridge.job
        if job is None or not job.at_work or not job.acts:
            self.notify("nothing is at work", severity="warning")
            return
        lines: list[list[Part]] = [
            [("The step at work is stopped, what was done stays and is looked at again.", "")],
            [("doctor undo takes a run back.", "dim")],
        ]
        confirm = ConfirmScreen(
            f"Cancel the {job.name} on {self.doctor.host_label()}?", lines, "Cancel the run"
        )
        self.app.push_screen(confirm, lambda yes: job.cancel.cancel() if yes else None)


def run_head(state: ViewState, now: float) -> list[list[Part]]:
    """Progress and the task at work; afterwards how the host stands."""
    steps = list(state.steps.values())
    ended = [item for item in steps if item.status not in ("running", "waiting")]
    failed = state.failures.get("fix") or state.failures.get("dry run")
    if failed is not None:
        return [[("✗ ", "fail"), (safe(failed.message), "")], [(safe(failed.hint), "dim")]]
    if state.working in ("fix", "dry run"):
        of = max([item.of for item in steps], default=0)
        at = next((item for item in reversed(steps) if item.status == "running"), None)
        since = f"{max(0, now - at.started):.0f} s" if at is not None and at.started else ""
        first: list[Part] = [("· RUNNING  ", "bold"), *bar(len(ended), of or 1)]
        first.append(
            (f" {len(ended)} of {of} steps  {since}" if of else " looking at the host", "")
        )
        task = f"{safe(at.id)}: {safe(at.task or at.say)}" if at else "probing, planning, judging"
        return [first, [("  " + task, "dim")]]
    if not steps and state.fix_verdict:
        glyph, style = VERDICTS.get(state.fix_verdict, ("·", "bold"))
        return [
            [(f"{glyph} {state.fix_verdict.upper()}  ", style), ("no step was to be done", "")],
            [(f"  exit {state.exit_code}; the findings say what is left by hand", "dim")],
        ]
    if not steps:
        return [[("· NO RUN  ", "bold"), ("nothing has been done in this session", "dim")]]
    counts: dict[str, int] = {}
    for item in steps:
        counts[item.status] = counts.get(item.status, 0) + 1
    glyph, style = VERDICTS.get(state.fix_verdict, ("·", "bold"))
    said = ", ".join(f"{number} {status}" for status, number in counts.items())
    line: list[Part] = [(f"{glyph} {(state.fix_verdict or 'ended').upper()}  ", style), (said, "")]
    return [line, [(_reboot(state), "warn")]]


def _reboot(state: ViewState) -> str:
    if state.reboot is None:
        return ""
    command = f": {safe(state.reboot.command)}" if state.reboot.command else ""
    when = "a reboot is scheduled" if state.reboot.scheduled else "a reboot is needed"
    return f"  {when}: {safe(state.reboot.why)}{command}"


def step_row(step: StepView) -> Row:
    """One step as it stands."""
    glyph, style = STEP_MARKS.get(step.status, ("?", "unknown"))
    said = step.task if step.status == "running" and step.task else step.say
    parts = (
        (f"{glyph} {step.status:<12}", style),
        (safe(step.id), "bold"),
        (f"  {safe(said)}", "dim"),
    )
    return Row(step.id, parts, step.id)


def step_lines(step: StepView) -> detail.Lines:
    """One step whole: what failed, what changed."""
    glyph, style = STEP_MARKS.get(step.status, ("?", "unknown"))
    disturbs = "disturbs nothing" if step.disturbs == "none" else f"disturbs {step.disturbs}"
    lines: detail.Lines = [
        [(f"{glyph} {step.status}  ", style), (safe(step.id), "bold"), (f"  {disturbs}", "dim")],
        [],
        [(safe(step.say), "")],
    ]
    if step.refused:
        lines += [[], *detail.command(f"doctor fix --allow {step.refused}")]
    if step.failures:
        lines += [[], [("Failures", "head")], *([(safe(item), "fail")] for item in step.failures)]
    return lines + diff_lines(step.diffs)


def log_rows(log: Sequence[LogLine]) -> list[Row]:
    """The log, a line a row."""
    rows = []
    for number, line in enumerate(log):
        at = (
            datetime.fromtimestamp(line.at).astimezone().strftime("%H:%M:%S")
            if line.at
            else "        "
        )
        parts = (
            (f"{at} ", "dim"),
            (f"{safe(line.who):<12} ", "head"),
            (safe(line.text), line.style),
        )
        rows.append(Row(f"{number}:{line.at}", parts))
    return rows
