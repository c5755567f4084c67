"""A fix, an undo and the list of runs as text. Pure: record -> str."""

from __future__ import annotations

from collections import Counter

import msgspec

from doctor.remedy.outcome import FixReport, StepOutcome
from doctor.remedy.undo import UndoReport
from doctor.report.plain import escape
from doctor.report.text import Look, wrap

MARKS = {
    "verified": ("✓", "ok", "green"),
    "planned": ("·", ".", "cyan"),
    "not-applied": ("–", "-", "yellow"),  # noqa: RUF001 - the house's glyph for n/a
    "unverified": ("?", "?", "cyan"),
    "failed": ("✗", "x", "red"),
    "undone": ("✓", "ok", "green"),
    "partly": ("!", "!", "yellow"),
    "stopped": ("–", "-", "yellow"),  # noqa: RUF001 - the house's glyph for n/a
}


def to_json(report: FixReport | UndoReport) -> str:
    """The contract for programs (doctor.fix/1, doctor.undo/1)."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def fix(report: FixReport, look: Look) -> str:
    """What was done, what is left to do, and how the host stands."""
    lines = [_head(report, look)]
    for step in report.steps:
        lines += _step(step, look, report.dry_run)
    left = [item for item in report.findings if item.status not in ("verified",)]
    by_hand = [item for item in left if item.status == "not-applied" and item.command]
    if by_hand:
        lines += ["", look.paint("By hand", "bold")]
        for item in by_hand:
            lines += wrap(f"{item.id}: {item.say}", look, "  ", "      ")
            lines += [f"      $ {escape(line)}" for line in (item.command or "").splitlines()]
    for stop in report.stopped:
        lines += ["", *wrap(f"Stopped: {stop.why}", look, "", "  ")]
        if stop.allow:
            lines.append(f"  --allow {stop.allow} allows it")
        if stop.command:
            lines.append(f"  $ {escape(stop.command)}")
    if report.smoke is not None:
        from doctor.report import smoke_text

        lines += ["", smoke_text.render(report.smoke, look)]
    elif report.no_smoke and not report.dry_run:
        lines += ["", *wrap(f"not proved by smoke: {report.no_smoke}", look, "  ", "    ")]
    if any(item.ran for item in report.steps):
        lines += ["", look.paint(f"  doctor undo {report.run}: takes it back", "dim")]
    return "\n".join(lines)


def _head(report: FixReport, look: Look) -> str:
    counts: Counter[str] = Counter(item.status for item in report.steps)
    said = ", ".join(f"{counts[key]} {key}" for key in MARKS if counts[key]) or "nothing to do"
    what = "dry run" if report.dry_run else f"run {report.run}"
    verdict = report.verdict_after.upper()
    color = {"healthy": "green", "degraded": "yellow", "broken": "red"}.get(
        report.verdict_after, "cyan"
    )
    before = (
        "" if report.verdict_before == report.verdict_after else f" (was {report.verdict_before})"
    )
    return f"{look.paint(verdict, color, 'bold')}{before}  {what}: {said}"


def _step(step: StepOutcome, look: Look, dry_run: bool) -> list[str]:
    lines = ["", f"  {_mark(step.status, look)} {look.paint(step.id, 'bold')}"]
    lines += wrap(step.say, look, "      ", "      ")
    lines += [
        line for item in step.failures[1:4] for line in wrap(item, look, "      ", "        ")
    ]
    if step.command:
        lines += [f"      $ {escape(line)}" for line in step.command.splitlines()]
    if step.findings:
        lines += wrap(f"answers {', '.join(step.findings)}", look, "      ", "        ")
    if dry_run:
        for diff in step.diffs:
            lines += [f"      {escape(line)}" for line in diff.splitlines()]
    return lines


def undo(report: UndoReport, look: Look) -> str:
    """What was taken back and what was left."""
    if not report.steps:
        return f"run {report.run} has nothing left to undo"
    lines = [f"undo of run {report.run}; the host is {report.report.verdict}"]
    for step in report.steps:
        lines += [
            "",
            f"  {_mark(step.status, look)} {look.paint(step.id, 'bold')}: {escape(step.say)}",
        ]
        for part in step.left:
            lines += wrap(f"left: {part.path}: {part.why}", look, "      ", "        ")
        for part in step.failed:
            lines += wrap(f"failed: {part.path}: {part.why}", look, "      ", "        ")
        for note in step.notes:
            lines += wrap(note, look, "      ", "        ")
    for stop in report.stopped:
        lines += ["", *wrap(f"Stopped: {stop.why}", look, "", "  ")]
        if stop.allow:
            lines.append(f"  --allow {stop.allow} allows it")
    return "\n".join(lines)


def _mark(status: str, look: Look) -> str:
    glyph, plain, color = MARKS.get(status, ("?", "?", "cyan"))
    return look.paint(f"{glyph if look.unicode else plain} {status}", color)
