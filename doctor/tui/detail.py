"""What the pane beside a list says of one finding, fact or row, as lines of styled parts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from doctor.checks.finding import Citation, Finding
from doctor.tui.row import Part, mark, safe
from doctor.tui.state import Change, Probe

Lines = list[list[Part]]
LONGEST = 20_000
"""Characters of one value; a report has all of it."""


def finding_lines(
    finding: Finding, explains: Iterable[str], history: Iterable[Change] = ()
) -> Lines:
    """One finding whole: what was read, by which rule, what would fix it, what it was before."""
    lines: Lines = [
        [
            mark(finding.outcome.value),
            (" " + safe(finding.id), "bold"),
            (f"  {finding.severity.value}", "dim"),
        ],
        [(safe(finding.title), "dim")],
        [],
        [(safe(finding.message), "")],
    ]
    if finding.blocked_by:
        lines.append(
            [
                ("explained by ", "dim"),
                (safe(finding.blocked_by), "bold"),
                (": look at that first", "dim"),
            ]
        )
    if finding.waived:
        lines.append([(f"waived: {safe(finding.waived)}", "warn")])
    if finding.want:
        lines.append([("wanted: ", "dim"), (safe(finding.want), "")])
    lines += _fix(finding)
    if finding.evidence:
        lines += [[], [("Read", "head")]]
    for item in finding.evidence:
        value = item.reason if item.value is None else plain_value(item.value)
        lines.append(
            [
                (safe(item.fact), "bold"),
                (" = " + safe(value), "unknown" if item.value is None else ""),
            ]
        )
        if item.via:
            lines.append([(f"    {safe(item.via)}", "dim")])
    lines += sources(finding.sources)
    found = [safe(id) for id in explains]
    if found:
        lines += [[], [("Explains", "head")], *([("  " + id, "")] for id in found)]
    lines += _history(history)
    return lines


def plain_value(value: Any) -> str:
    """A value of evidence: tables and lists without the marks of a programming language."""
    if isinstance(value, dict):
        return ", ".join(
            f"{key} {plain_value(item)}" for key, item in value.items() if item is not None
        )
    if isinstance(value, list):
        return ", ".join(plain_value(item) for item in value) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _fix(finding: Finding) -> Lines:
    if finding.fix is None:
        return []
    fix = finding.fix
    who = {"auto": "a role does it", "manual": "by hand", "hardware": "hardware"}.get(
        fix.kind, fix.kind
    )
    disturbs = "disturbs nothing" if fix.disturbs == "none" else f"disturbs {fix.disturbs}"
    lines: Lines = [[], [("Fix", "head"), (f"  {who}, {disturbs}", "dim")], [(safe(fix.say), "")]]
    return lines + command(fix.command)


def command(text: str | None) -> Lines:
    """A command, line by line as it is to be typed."""
    return [[("$ ", "dim"), (safe(line), "command")] for line in (text or "").splitlines()]


def sources(cited: Iterable[Citation]) -> Lines:
    """Where a rule comes from and of which day."""
    lines: Lines = []
    for item in cited:
        basis = f", {item.basis}" if item.basis else ""
        lines.append([(safe(item.id), "bold"), (f"  as of {safe(item.as_of)}{safe(basis)}", "dim")])
        lines.append([(f"    {safe(item.url)}", "command")])
    return [[], [("Rule", "head")], *lines] if lines else []


def _history(history: Iterable[Change]) -> Lines:
    lines: Lines = []
    for item in history:
        at = datetime.fromtimestamp(item.at).astimezone().strftime("%H:%M:%S")
        lines.append([(f"{at}  ", "dim"), mark(item.outcome), (" " + safe(item.message), "dim")])
    return [[], [("Before", "head")], *lines] if lines else []


def fact_lines(path: str, leaf: Any, readers: Iterable[str]) -> Lines:
    """One fact: value, where it came from, which checks read it."""
    if not isinstance(leaf, dict):
        return [[(safe(path), "bold")], [("unfold it to see its facts", "dim")]]
    state = str(leaf.get("state", ""))
    style = {"known": "pass", "unknown": "unknown"}.get(state, "dim")
    lines: Lines = [[(safe(path), "bold"), (f"  {safe(state)}", style)]]
    if leaf.get("via"):
        lines.append([("from ", "dim"), (safe(leaf["via"]), "")])
    if leaf.get("reason"):
        lines.append([(safe(leaf["reason"]), style)])
    if state == "known":
        lines += [[], *_value(leaf.get("value"))]
    read = list(readers)
    if read:
        lines += [[], [("Read by", "head")], *([("  " + safe(id), "")] for id in read)]
    return lines


def _value(value: Any) -> Lines:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, indent=1, ensure_ascii=False, default=str)
    )
    cut = text[:LONGEST] + ("\n… (the report has all of it)" if len(text) > LONGEST else "")
    return [[(safe(line), "")] for line in cut.split("\n")]


def probe_lines(probe: Probe, facts: Mapping[str, Any]) -> Lines:
    """An area while the others are still being looked at."""
    said = "looking" if probe.ms is None else f"looked at in {probe.ms} ms"
    lines: Lines = [[(safe(probe.area), "bold"), (f"  {said}", "dim")], []]
    for name in sorted(facts):
        leaf = facts[name]
        state = leaf.get("state") if isinstance(leaf, dict) else ""
        text = leaf.get("value") if state == "known" else leaf.get("reason") or state
        shown = (
            text
            if isinstance(text, (str, int, float, bool))
            else f"{len(text)} entries"
            if isinstance(text, (list, dict))
            else state
        )
        lines.append(
            [
                (safe(name) + "  ", ""),
                (safe(shown)[:200], "dim" if state != "unknown" else "unknown"),
            ]
        )
    return lines
