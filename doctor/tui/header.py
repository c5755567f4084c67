"""The head of the host's screen: verdict, host, the one next step. Pure."""

from __future__ import annotations

from doctor.facts.identity import HostName
from doctor.facts.tree import AREAS
from doctor.report.model import Next
from doctor.tui.digest import digest
from doctor.tui.row import Part, safe
from doctor.tui.state import ViewState

VERDICTS = {
    "healthy": ("✓", "pass"),
    "degraded": ("!", "warn"),
    "broken": ("✗", "fail"),
    "unknown": ("?", "unknown"),
}
BAR = 20
"""Cells of the bar that fills while probes work."""


def bar(done: float, total: float, width: int = BAR) -> list[Part]:
    """A bar whose full part is another glyph than its empty part."""
    full = 0 if total <= 0 else min(width, int(width * done / total))
    return [("█" * full, "command"), ("─" * (width - full), "dim")]


def head_lines(
    state: ViewState, host: HostName | None, now: float, width: int = 80
) -> list[list[Part]]:
    """At most four lines."""
    lines = [_first(state, now), _host(state, host)]
    step = next_of(state)
    if step is not None:
        lines.append([("Next: ", "bold"), (safe(step.say), "")])
        for number, line in enumerate((step.command or "").splitlines()):
            if number == 0:
                lines.append([("  $ ", "dim"), (safe(line), "command")])
            else:
                lines[-1].append((" …", "dim"))
                break
    return lines


def next_of(state: ViewState) -> Next | None:
    """The one thing to do."""
    return digest(state.findings).next


def _first(state: ViewState, now: float) -> list[Part]:
    if state.failed is not None:
        return [("✗ NO VERDICT  ", "fail"), (safe(state.failed.message), "")]
    if state.looking or (state.working == "check" and not state.findings):
        done = len(state.probes) - len(state.looking)
        total = max(len(state.probes), len(AREAS)) if state.probes else 0
        names = ", ".join(item.area for item in state.looking[:4])
        rest = f" and {len(state.looking) - 4} more" if len(state.looking) > 4 else ""
        since = max(0.0, now - state.started) if state.started else 0.0
        waits = f" {since:.0f} s" if since >= 2 else ""
        said = f" {done} of {total} areas{waits}  {names}{rest}" if total else " starting"
        if total and not state.looking:
            said = f" {total} areas seen, judging{waits}"
        return [("· LOOKING  ", "bold"), *bar(done, total or 1), (said, "")]
    if not state.findings:
        return [("· WAITING  ", "bold"), ("nothing has been looked at yet", "dim")]
    found = digest(state.findings)
    glyph, style = VERDICTS[found.verdict]
    return [(f"{glyph} {found.verdict.upper()}  ", style), (found.counts, "")]


def _host(state: ViewState, host: HostName | None) -> list[Part]:
    if state.failed is not None:
        return [("  " + safe(state.failed.hint), "dim")]
    parts = [host.name, host.distribution, host.platform] if host else []
    said = ", ".join(safe(part) for part in parts if part)
    return [("  " + (said or "host not known yet"), "dim")]
