"""A smoke report as text: the verdict, the one thing to do, then each rung with what it saw. Pure: report -> str."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from doctor.checks.finding import Outcome
from doctor.report.plain import escape
from doctor.report.text import Look, command_lines, marked, wrap

if TYPE_CHECKING:
    from doctor.checks.finding import Finding
    from doctor.smoke.model import SmokeReport, StageResult

_VERDICTS = {
    "passed": ("green", "✓", "ok"),
    "failed": ("red", "✗", "x"),
    "unknown": ("cyan", "?", "?"),
    "interrupted": ("yellow", "!", "!"),
}


def render(report: SmokeReport, look: Look) -> str:
    """The whole report."""
    color, glyph, ascii_glyph = _VERDICTS[report.verdict]
    head = look.paint(
        f"{glyph if look.unicode else ascii_glyph} SMOKE {report.verdict.upper()}", color, "bold"
    )
    lines = [f"{head}  {_how_far(report)}"]
    host = ", ".join(item for item in (report.host.name, report.host.platform) if item)
    lines.append(
        look.paint(f"  {escape(host)}, engine {report.engine}, up to {report.level}", "dim")
    )
    if report.note:
        lines.append(look.paint(f"  {report.note}", "bold"))
    if report.next is not None:
        lines += ["", *wrap(f"Next: {report.next.say}", look, "", "      ")]
        lines += command_lines(report.next.command or "", look, "  ")
    lines.append("")
    for stage in report.stages:
        lines += _stage(stage, look)
    if report.left_behind:
        lines += ["", look.paint("Left behind", "red")]
        lines += [f"  {escape(item)}" for item in report.left_behind]
    if back := _memory(report):
        lines += ["", look.paint(f"  {back}", "dim")]
    if report.run_folder:
        lines += ["", look.paint(f"  logs and report: {escape(report.run_folder)}", "dim")]
    lines += [look.paint(f"  kept: {escape(item)}", "dim") for item in report.kept]
    return "\n".join(lines)


def to_json(report: SmokeReport) -> str:
    """The report for programs."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def _memory(report: SmokeReport) -> str:
    """What the GPUs held before and after, in one line."""
    values = {item.fact: item.value for item in report.cleaned if item.value is not None}
    pairs = [
        f"{values[fact.replace('-after', '-before')] >> 20} -> {after >> 20} MiB"
        for fact, after in values.items()
        if fact.endswith(".memory-after") and fact.replace("-after", "-before") in values
    ]
    return f"GPU memory in use, before and after: {', '.join(pairs)}" if pairs else ""


def _how_far(report: SmokeReport) -> str:
    passed = sum(stage.outcome == "pass" for stage in report.stages)
    skipped = sum(stage.outcome == "skip" for stage in report.stages)
    warned = sum(len(stage.warnings) for stage in report.stages)
    parts = [f"{passed} rung{'' if passed == 1 else 's'} passed"]
    parts += [
        f"stopped at {stage.name}"
        for stage in report.stages
        if stage.outcome in ("fail", "unknown")
    ]
    if skipped:
        parts.append(f"{skipped} do not apply")
    if warned:
        parts.append(f"{warned} warning{'' if warned == 1 else 's'}")
    seconds = report.timing_ms.get("all", 0) / 1000
    return f"{', '.join(parts)} in {seconds:.0f} s"


def _stage(stage: StageResult, look: Look) -> list[str]:
    lines = marked(Outcome(stage.outcome), f"{stage.name}: {stage.message}", look)
    if stage.finding is not None:
        lines += _finding(stage.finding, look)
    for warning in stage.warnings:
        lines += wrap(
            f"{warning.severity.value}: {warning.id}: {warning.message}", look, "      ", "        "
        )
    if look.verbose:
        for item in stage.evidence:
            value = item.reason if item.value is None else item.value
            via = f"  [{item.via}]" if item.via else ""
            lines += wrap(f"{item.fact} = {value}{via}", look, "        ", "          ")
    return lines


def _finding(finding: Finding, look: Look) -> list[str]:
    lines = [f"      {look.paint(finding.id, 'bold')}"]
    if finding.want:
        lines += wrap(f"wanted: {finding.want}", look, "      ", "        ")
    if finding.blocked_by:
        lines += wrap(
            f"behind it: {finding.blocked_by} (doctor explain {finding.blocked_by})",
            look,
            "      ",
            "        ",
        )
    for source in finding.sources[:3]:
        lines += wrap(f"source: {source.url} ({source.as_of})", look, "      ", "        ")
    if not look.verbose:
        logged = [item for item in finding.evidence if item.fact.startswith("log.")][-3:]
        for item in logged:
            lines += wrap(f"{item.via}: {item.value}", look, "      ", "        ")
    return lines
