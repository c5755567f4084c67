"""The head of the fleet's screen: verdict or progress, what was audited, the fault that stops most hosts. Pure."""

from __future__ import annotations

from doctor.checks.finding import Outcome
from doctor.tui.fleet_rows import summary
from doctor.tui.fleet_state import FleetView, faults
from doctor.tui.header import VERDICTS, bar
from doctor.tui.origin import AUDIT
from doctor.tui.row import Part, safe
from doctor.tui.state import ViewState

NONE = "A audits an inventory; doctor tui --from DIR shows an audit"


def fleet_head(state: ViewState, now: float) -> list[list[Part]]:
    """At most four lines."""
    failed = state.failures.get(AUDIT)
    if failed is not None:
        return [
            [("✗ NO VERDICT  ", "fail"), (safe(failed.message), "")],
            [("  " + safe(failed.hint), "dim")],
        ]
    fleet = state.fleet
    at_work = state.working == AUDIT
    if fleet is None:
        if at_work:
            return [[("· AUDITING  ", "bold"), *bar(0, 1), (" reading the inventory", "")]]
        return [[("· NO AUDIT  ", "bold"), (NONE, "dim")]]
    lines = [_first(fleet, at_work, now), [("  ", ""), *summary(fleet)], _about(fleet)]
    return [*lines, *_next(fleet), *_note(state)]


def _first(fleet: FleetView, at_work: bool, now: float) -> list[Part]:
    hosts = f"{fleet.of} host{'s' * (fleet.of != 1)}"
    if fleet.report is not None:
        said = fleet.report.verdict
        glyph, style = VERDICTS.get(said, ("?", "unknown"))
        cut_short = "" if fleet.report.finished else "  of an audit that did not finish"
        return [(f"{glyph} {said.upper()}  ", style), (hosts, ""), (cut_short, "warn")]
    done = len(fleet.lines)
    if not at_work:
        return [("? INTERRUPTED  ", "unknown"), (f"{done} of {hosts} answered", "")]
    spent = f"  {max(0.0, now - fleet.started):.0f} s" if fleet.started else ""
    return [("· AUDITING  ", "bold"), *bar(done, fleet.of or 1), (f" {done} of {hosts}{spent}", "")]


def _about(fleet: FleetView) -> list[Part]:
    report = fleet.report
    if report is None:
        return [(f"  audit {safe(fleet.audit)}" if fleet.audit else "", "dim")]
    said = [f"audit {report.audit}", report.inventory, f"as of {report.judged_as_of}"]
    if report.golden:
        said.append(f"compared with {report.golden}")
    if report.before:
        said.append(f"{len(report.changes)} changes since {report.before}")
    return [("  " + safe(", ".join(item for item in said if item)), "dim")]


def _next(fleet: FleetView) -> list[list[Part]]:
    """What stops the most hosts; with its fix once all of it is known."""
    failed = [item for item in faults(fleet) if item.roots and item.outcome is not Outcome.UNKNOWN]
    if fleet.report is not None:
        failed = [item for item in failed if item.fix is not None]
    if not failed:
        return []
    first = failed[0]
    many = f"{first.roots} host{'s' * (first.roots != 1)} {safe(first.id)}: "
    if first.fix is None:
        return [[("So far: ", "bold"), (many + safe(first.message), "")]]
    return [[("Next: ", "bold"), (many + safe(first.fix.say), "")]]


def _note(state: ViewState) -> list[list[Part]]:
    """The last thing that the audit had to say beside its hosts."""
    said = [line.text for line in state.log_of("fleet audit") if not line.style]
    return [[("! ", "warn"), (safe(said[-1]), "")]] if said else []
