"""The smoke ladder: rungs with their times, what the rung at work says, its numbers as bars, the log."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Static

from doctor.smoke.model import LADDER
from doctor.tui import acts, detail, plot
from doctor.tui.header import bar
from doctor.tui.row import Part, Row, mark, safe
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.run import log_rows
from doctor.tui.screens.work_and_log import WorkAndLog
from doctor.tui.state import Rung, ViewState
from doctor.tui.widgets.pane import Pane, content
from doctor.tui.widgets.row_list import RowList

SAYS = {
    "driver": "NVML answers for every GPU",
    "cuda": "a kernel runs on every GPU, copies come back right",
    "nccl": "GPUs sum together, right and fast enough",
    "container": "a container sees the GPUs",
    "engine-build": "a tiny model is made and an engine built",
    "serve": "the engine serves on loopback",
    "tokens": "its tokens are those of an independent reference",
    "load": "many requests at once, as quick as before",
}
VERDICTS = {
    "passed": ("✓", "pass"),
    "failed": ("✗", "fail"),
    "unknown": ("?", "unknown"),
    "interrupted": ("!", "warn"),
}
OUTCOMES = {"fail": "failed", "unknown": "not seen", "pass": "passed", "skip": "n/a"}


class SmokeScreen(WorkAndLog):
    """`doctor smoke` to watch."""

    MODE = "smoke"
    TWIN = "doctor smoke --level NAME"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "S",
            "start",
            "Start up to here",
            tooltip="Climb to the rung under the cursor",
            id="smoke.start",
        ),
        Binding("x", "cancel", "Cancel", tooltip="End it, clean up", id="smoke.cancel"),
        Binding("l", "log", "Log", id="smoke.log"),
        Binding("escape", "back", show=False, id="smoke.back"),
    ]

    def on_time(self) -> None:
        """Rungs count seconds."""
        self.show(self.doctor.state)

    def show(self, state: ViewState) -> None:
        """The ladder as it stands."""
        now, rows = self.doctor.now, self.query_one("#rows", RowList)
        self.query_one("#head", Static).update(content(smoke_head(state)))
        rows.set_rows(
            [rung_row(name, state.rungs.get(name), now) for name in LADDER],
            lead=next(reversed(state.rungs), ""),
        )
        self.query_one("#log", RowList).set_rows(log_rows(state.log_of("smoke")))
        self.tell()

    def tell(self) -> None:
        """The rung under the cursor."""
        row = self.query_one("#rows", RowList).row
        if row is not None:
            self.query_one("#detail", Pane).show(
                rung_lines(row.key, self.doctor.state), about=row.key
            )

    def action_start(self) -> None:
        """Ask, then climb."""
        row = self.query_one("#rows", RowList).row
        if row is None or not self.doctor.may_act():
            return
        level = row.key
        lines: list[list[Part]] = [
            [("· ", "dim"), (f"{name}: {SAYS[name]}", "")]
            for name in LADDER[: LADDER.index(level) + 1]
        ]
        lines += [
            [],
            [
                (
                    "disturbs GPUs: memory and time of each GPU while it runs; all of it is cleaned up",
                    "warn",
                )
            ],
        ]
        confirm = ConfirmScreen(f"Smoke {self.doctor.host_label()} up to {level}?", lines, "Start")
        self.app.push_screen(confirm, lambda yes: self._start(level) if yes else None)

    def _start(self, level: str) -> None:
        self.doctor.set_to_work("smoke", acts.smoking(self.doctor.origin, level), acts=True)

    def action_cancel(self) -> None:
        """End the run; it cleans up after itself."""
        job = self.doctor.bridge.job
        if job is None or not job.at_work or job.name != "smoke":
            self.notify("no smoke run is at work", severity="warning")
            return
        job.cancel.cancel()
        self.notify("ending this rung and cleaning up")


def smoke_head(state: ViewState) -> list[list[Part]]:
    """How far it is, or how it ended."""
    failed = state.failures.get("smoke")
    if failed is not None:
        return [[("✗ ", "fail"), (safe(failed.message), "")], [(safe(failed.hint), "dim")]]
    ended = [rung for rung in state.rungs.values() if rung.outcome != "running"]
    if state.working == "smoke" or (state.rungs and not state.smoke_verdict):
        line: list[Part] = [("· CLIMBING  ", "bold"), *bar(len(ended), len(LADDER))]
        return [[*line, (f" {len(ended)} of {len(LADDER)} rungs", "")]]
    if not state.rungs:
        said = "S climbs to the rung under the cursor"
        return [[("· NOT RUN  ", "bold"), (said, "dim")]]
    glyph, style = VERDICTS.get(state.smoke_verdict, ("?", "unknown"))
    all_ms = sum(rung.ms for rung in state.rungs.values())
    outcomes = Counter(rung.outcome for rung in ended)
    said = ", ".join(
        f"{outcomes[name]} {word}" for name, word in OUTCOMES.items() if outcomes[name]
    )
    first: list[Part] = [
        (f"{glyph} {state.smoke_verdict.upper()}  ", style),
        (f"{said} of {len(LADDER)} rungs in {all_ms / 1000:.1f} s", ""),
    ]
    return [first, *_next(state)]


def _next(state: ViewState) -> list[list[Part]]:
    for rung in state.rungs.values():
        fix = (rung.result.get("finding") or {}).get("fix") or {}
        if fix.get("say"):
            return [[("Next: ", "bold"), (safe(fix["say"]), "")]]
    return []


def rung_row(name: str, rung: Rung | None, now: float) -> Row:
    """One rung as it stands."""
    if rung is None:
        return Row(
            name,
            (
                ("·           ", "dim"),
                (f"{name:<14}", "bold"),
                ("          ", ""),
                (SAYS[name], "dim"),
            ),
            name,
        )
    if rung.outcome == "running":
        spent = max(0.0, now - rung.started)
        parts: list[Part] = [
            ("· climbing  ", "bold"),
            (f"{name:<14}", "bold"),
            (f"{spent:>6.0f} s  ", ""),
        ]
        if rung.done is not None and rung.total:
            parts += [*bar(rung.done, rung.total, 12), ("  ", "")]
        return Row(name, (*parts, (safe(rung.message), "dim")), name)
    glyph, style = mark(rung.outcome)
    parts = [
        (f"{glyph}   ", style),
        (f"{name:<14}", "bold"),
        (f"{rung.ms / 1000:>6.1f} s  ", ""),
        (safe(rung.message), "dim"),
    ]
    return Row(name, tuple(parts), name)


def rung_lines(name: str, state: ViewState) -> detail.Lines:
    """One rung whole: result, numbers, evidence, what would fix it."""
    rung = state.rungs.get(name)
    if rung is None:
        return [[(name, "bold")], [], [(SAYS[name], "")], [], [("not climbed", "dim")]]
    lines: detail.Lines = [
        [(name, "bold"), (f"  {rung.outcome}", "dim")],
        [],
        [(safe(rung.message), "")],
    ]
    if rung.outcome == "running" and rung.total:
        lines += [
            [],
            [
                *bar(rung.done or 0, rung.total, 30),
                (f" {rung.done or 0:g} of {rung.total:g}  {plot.throughput(rung.trace)}", "dim"),
            ],
        ]
    finding = rung.result.get("finding")
    for item in ([finding] if finding else []) + list(rung.result.get("warnings") or []):
        fix = item.get("fix") or {}
        lines += [
            [],
            [mark(str(item.get("outcome"))), (" " + safe(item.get("id", "")), "bold")],
            [(safe(item.get("message", "")), "")],
        ]
        lines += [
            [("wanted: ", "dim"), (safe(item.get("want") or ""), "")],
            [(safe(fix.get("say") or ""), "")],
        ]
        lines += detail.command(fix.get("command"))
    numbers = rung.result.get("numbers") or {}
    if numbers:
        lines += [[], *plot.number_lines(numbers)]
    evidence = rung.result.get("evidence") or []
    if evidence:
        lines += [[], [("Read", "head")]]
    for item in evidence:
        value = item.get("reason") if item.get("value") is None else item.get("value")
        lines.append(
            [
                (safe(item.get("fact", "")), "bold"),
                (f" = {safe(value)}", ""),
                (f"  {safe(item.get('via') or '')}", "dim"),
            ]
        )
    files = rung.result.get("files") or []
    return lines + (
        [[], [("Kept", "head")], *([("  " + safe(file), "")] for file in files)] if files else []
    )
