"""The plan: steps with what each disturbs, approved one by one, tried dry, then done."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from doctor.tui import acts, asking
from doctor.tui.copying import command_text
from doctor.tui.plan_rows import plan_rows, row_lines, title
from doctor.tui.row import Part, safe
from doctor.tui.screens.base import DoctorScreen
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.prompt import PromptScreen
from doctor.tui.state import ViewState
from doctor.tui.widgets.pane import Pane, content
from doctor.tui.widgets.row_list import RowList, StepList

EXAMPLES: list[list[Part]] = [
    [("vllm==0.27.1   tensorrt-llm>=1.2   cuda>=13.0   container", "command")],
    [("image:REF   model:DIR   engine:DIR   lock:kernel", "command")],
    [("several are separated by spaces", "dim")],
]


class PlanScreen(DoctorScreen):
    """`doctor plan` and `doctor fix`, step by step."""

    MODE = "plan"
    TWIN = "doctor plan; doctor fix --dry-run; doctor fix"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "a",
            "approve_harmless",
            "Harmless",
            tooltip="Every step that disturbs nothing",
            id="plan.all",
        ),
        Binding("w", "want", "Want", tooltip="What the host is for", id="plan.want"),
        Binding(
            "d", "dry_run", "Dry run", tooltip="Check mode with differences", id="plan.dry-run"
        ),
        Binding("F", "fix", "Fix", tooltip="Do what is approved; asks once more", id="plan.fix"),
        Binding("c", "copy", "Copy cmd", show=False, tooltip="The step's command", id="plan.copy"),
        Binding("escape", "back", show=False, id="plan.back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._approved: set[str] = set()
        self._asked_for: tuple[object, ...] = ()

    def body(self) -> ComposeResult:
        """Title, steps and target, pane."""
        yield Static(id="head", markup=False)
        with Container(id="panes"):
            with Vertical(id="left"):
                yield StepList(id="rows")
            yield Pane(id="detail", empty="Nothing is selected.")

    def on_mount(self) -> None:
        """The list has the keys."""
        self.query_one(RowList).focus()

    def show(self, state: ViewState) -> None:
        """The plan of what is judged now; made anew when that changed."""
        if self._is_due(state):
            self._asked_for = (state.judged, self.doctor.wants)
            self.call_later(self._make, state)
        rows = self.query_one(RowList)
        if state.plan is None:
            rows.set_rows([], empty=_waits(state))
        else:
            self._approved &= {step.id for step in state.plan.steps}
            rows.set_rows(
                plan_rows(state.plan, frozenset(self._approved), state.steps),
                empty="Nothing is to be done.",
            )
        self.query_one("#head", Static).update(content(self._head(state)))
        self._detail()

    def _is_due(self, state: ViewState) -> bool:
        """Once for what is judged and wanted now, and not for what came with a plan."""
        if not self.is_current or not state.findings or state.working:
            return False
        told = state.plan is not None and state.planned == state.judged
        if told and tuple(state.plan.want if state.plan else ()) == self.doctor.wants:
            return False
        return (state.judged, self.doctor.wants) != self._asked_for

    def _make(self, state: ViewState) -> None:
        self.doctor.set_to_work(
            "plan", acts.planning(self.doctor.origin, state.facts, self.doctor.wants)
        )

    def _head(self, state: ViewState) -> list[list[Part]]:
        failed = state.failures.get("plan")
        if failed is not None:
            return [[("✗ ", "fail"), (safe(failed.message), "")], [(safe(failed.hint), "dim")]]
        if state.plan is None:
            return [[("· PLAN  ", "bold"), (_waits(state), "dim")]]
        approved = f"{len(self._approved)} approved" if self._approved else "none approved"
        said = f"  {approved}; space approves, d tries it dry, F does it"
        if not self.doctor.origin.is_live or self.doctor.read_only:
            said = "  read only: nothing is done from here"
        return [title(state.plan), [(said if state.plan.steps else "", "dim")]]

    def _detail(self) -> None:
        state, row = self.doctor.state, self.query_one(RowList).row
        lines = row_lines(state.plan, row.key, state.steps) if state.plan and row else []
        self.query_one("#detail", Pane).show(lines, about=row.key if row else "")

    @on(RowList.Moved, "#rows")
    def _moved(self) -> None:
        self._detail()

    @on(RowList.Folded, "#rows")
    def _folded(self) -> None:
        self.action_approve()

    @on(RowList.Chosen, "#rows")
    def _chosen(self) -> None:
        if self.has_class("-narrow"):
            self.add_class("-zoom")
        self.query_one("#detail", Pane).focus()

    def action_back(self) -> None:
        """From the pane to the list."""
        self.remove_class("-zoom")
        self.query_one(RowList).focus()

    def action_approve(self) -> None:
        """The step under the cursor, or no longer."""
        plan, row = self.doctor.state.plan, self.query_one(RowList).row
        if plan is None or row is None or not row.key.startswith("step:"):
            return
        step = next(item for item in plan.steps if f"step:{item.id}" == row.key)
        if step.remedy is None:
            self.notify("this is done by hand; c copies its command", severity="warning")
            return
        self._approved ^= {step.id}
        self.show(self.doctor.state)

    def action_approve_harmless(self) -> None:
        """Every step of a role that disturbs nothing; again: none."""
        plan = self.doctor.state.plan
        if plan is None:
            return
        harmless = {step.id for step in plan.steps if step.remedy and step.disturbs == "none"}
        self._approved = set() if self._approved == harmless else harmless
        self.show(self.doctor.state)

    def action_want(self) -> None:
        """What the host is for."""
        before = " ".join(self.doctor.wants)
        self.app.push_screen(
            PromptScreen("What is this host for?", EXAMPLES, before, "vllm==0.27.1"), self._want
        )

    def _want(self, text: str | None) -> None:
        self.doctor.want(tuple((text or "").split()))

    def action_dry_run(self) -> None:
        """Every step in check mode."""
        self._set_to_work(dry_run=True)

    def action_fix(self) -> None:
        """Ask, then do what is approved."""
        plan = self.doctor.state.plan
        if not self.doctor.may_act() or plan is None:
            return
        steps = [step for step in plan.steps if step.id in self._approved]
        if not steps:
            self.notify("no step is approved; space approves one", severity="warning")
            return
        lines: list[list[Part]] = []
        for step in steps:
            disturbs = (
                "disturbs nothing" if step.disturbs == "none" else f"disturbs {step.disturbs}"
            )
            style = "dim" if step.disturbs == "none" else "warn"
            lines.append(
                [
                    ("· ", "dim"),
                    (safe(step.id), "bold"),
                    (f"  {disturbs}, undo {step.reversible}", style),
                ]
            )
            lines += [[(f"    {safe(change)}", "")] for change in step.changes]
        many = f"{len(steps)} step{'s' * (len(steps) != 1)}"
        confirm = ConfirmScreen(f"Do {many} on {self.doctor.host_label()}?", lines, "Do it")
        self.app.push_screen(confirm, lambda yes: self._set_to_work(dry_run=False) if yes else None)

    def _set_to_work(self, *, dry_run: bool) -> None:
        if not self.doctor.may_act():
            return
        work = acts.fixing(
            self.doctor.origin,
            frozenset(self._approved),
            self.doctor.wants,
            partial(asking.person, self.doctor),
            dry_run=dry_run,
        )
        if self.doctor.set_to_work("dry run" if dry_run else "fix", work, acts=True):
            self.call_later(self.app.switch_mode, "run")

    def action_copy(self) -> None:
        """The command of a step that is done by hand."""
        plan, row = self.doctor.state.plan, self.query_one(RowList).row
        for step in plan.steps if plan else []:
            if row is not None and row.key == f"step:{step.id}" and step.command:
                self.app.copy_to_clipboard(command_text(step.command))
                self.notify(command_text(step.command), title="copied", markup=False)
                return
        self.notify("it has no command", severity="warning")


def _waits(state: ViewState) -> str:
    if state.working == "plan":
        return "planning …"
    if state.failed is not None:
        return "there is no verdict to plan from"
    return "the plan follows the look" if not state.findings else "planning …"
