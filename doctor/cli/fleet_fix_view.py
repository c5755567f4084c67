"""A fix of many hosts as text, and what is said while it goes on. Pure but for the teller's own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from doctor.cli.fix_view import MARKS
from doctor.events import ApprovalNeeded, Note, RebootRequired, StepFinished, StepStarted
from doctor.fleet.fixing.model import FleetFix, FleetUndo, HostFix
from doctor.redact import redact
from doctor.report.plain import escape
from doctor.report.text import Look


def to_json(report: FleetFix | FleetUndo | HostFix) -> str:
    """The contract for programs."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


class Teller:
    """Says what happens on which host, a line each."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def __call__(self, event: Any) -> None:
        """One event."""
        text = said(event)
        if text:
            self._say(escape(redact(f"{event.host}: {text}" if event.host else text)))


def said(event: Any) -> str:
    """What of an event is worth a line."""
    if isinstance(event, StepStarted):
        return f"{event.step} ({event.number} of {event.of})"
    if isinstance(event, StepFinished):
        return f"{event.step}: {event.status}: {event.say}"
    if isinstance(event, ApprovalNeeded):
        return f"{event.step}: {event.why}; --allow {event.allow} allows it"
    if isinstance(event, RebootRequired):
        return f"reboot: {event.why}"
    return event.text if isinstance(event, Note) else ""


def fix(report: FleetFix, look: Look) -> str:
    """Head, waves, hosts: what was done to each and what is left."""
    lines = [_head(report, look)]
    for wave in report.waves:
        failed = f", {len(wave.failed)} failed" if wave.failed else ""
        lines += ["", look.paint(f"Wave {wave.number}: {_hosts(len(wave.hosts))}{failed}", "bold")]
        for host in report.hosts:
            if host.wave == wave.number:
                lines += _host(host, look, report.dry_run)
    told = {wave.number for wave in report.waves}
    left = [escape(host.name) for host in report.hosts if host.wave not in told]
    if left:
        more = f" and {len(left) - 20} more" if len(left) > 20 else ""
        lines += ["", look.paint(f"Not reached: {', '.join(left[:20])}{more}", "bold")]
    if report.stopped:
        lines += ["", f"Stopped: {escape(report.stopped)}"]
    if any(host.changed for host in report.hosts):
        lines += ["", look.paint(f"  doctor fleet undo {report.fix}: takes it back", "dim")]
    return "\n".join(lines)


def _head(report: FleetFix, look: Look) -> str:
    verdicts = Counter(host.verdict_after for host in report.hosts if host.state == "done")
    counts = [f"{number} {word}" for word, number in verdicts.most_common()]
    counts += [f"{report.counts[key]} {key}" for key in ("failed", "not-reached") if report.counts.get(key)]  # fmt: skip
    what = "dry run" if report.dry_run else f"fix {report.fix}"
    return f"{look.paint(_hosts(len(report.hosts)), 'bold')}  {what}: {', '.join(counts)}"


def _hosts(number: int) -> str:
    return "1 host" if number == 1 else f"{number} hosts"


def _host(host: HostFix, look: Look, dry_run: bool) -> list[str]:
    glyph, plain, color = MARKS[_mark(host)]
    changed = f", {host.changed} changes" if host.changed else ""
    lines = [
        f"  {look.paint(glyph if look.unicode else plain, color)} {escape(host.name)}: "
        f"{host.verdict_after if host.state == 'done' else host.state}{changed}"
    ]
    if host.reason:
        lines.append(f"      {escape(host.reason)}")
    for step in host.steps:
        lines.append(f"      {step.id}: {step.status}: {escape(step.say)}")
        lines += [f"        {escape(item)}" for item in step.failures[1:3]]
        if dry_run:
            lines += [
                f"        {escape(line)}" for diff in step.diffs for line in diff.splitlines()
            ]
    of_steps = {id for step in host.steps for id in step.findings}
    for finding in host.findings:
        if finding.id not in of_steps and finding.status != "verified":
            lines.append(f"      {finding.id}: {finding.status}: {escape(finding.say)}")
    for stop in host.stopped:
        lines.append(f"      stopped: {escape(stop.why)}")
    return lines


def _mark(host: HostFix) -> str:
    if host.failed:
        return "failed"
    return "verified" if host.exit_code == 0 else "not-applied"


def undo(report: FleetUndo, look: Look) -> str:
    """What was taken back, host by host."""
    lines = [look.paint(f"undo of fix {report.fix}", "bold")]
    for host in report.hosts:
        glyph, plain, color = MARKS["undone" if host.exit_code == 0 else "failed"]
        mark = look.paint(glyph if look.unicode else plain, color)
        lines.append(f"  {mark} {escape(host.name)}: {escape(host.say)}")
    return "\n".join(lines)
