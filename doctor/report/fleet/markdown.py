"""The audit as GitHub-flavoured Markdown, for issues, merge requests and chats. A host's text can start no markup, link or mention.

It is short whatever the size of the fleet: what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from doctor.checks.finding import Outcome
from doctor.fleet.folder import Audit
from doctor.fleet.model import ByFinding, FleetReport, HostLine
from doctor.report.fleet.summary import (
    STATES,
    broken_rules,
    by_way,
    causes,
    differences,
    lost,
    not_compared,
    said_change,
    said_counts,
    some,
)
from doctor.report.markdown import MARKS, code, fold, link, mark_up, table
from doctor.report.text import Look

MOST_ROWS = 50
"""Rows of a table; of hosts that are healthy only the number is said. A comment on GitHub holds 65,536 characters."""


def write(audit: Audit, _: Look) -> Iterator[str]:
    """Section by section."""
    for section in _sections(audit):
        yield "\n".join(section) + "\n"


def _sections(audit: Audit) -> Iterator[list[str]]:
    fleet = audit.fleet
    about = f"Audit {fleet.audit} of {fleet.inventory}, as of {fleet.judged_as_of}"
    unfinished = "" if fleet.finished else ", **not finished**"
    head = [f"# GPU hosts: {fleet.verdict}", "", f"**{said_counts(fleet)}**", ""]
    yield [*head, mark_up(about) + unfinished, ""]
    for title, found in causes(fleet).items():
        yield from _faults(title, found)
    yield from _lost(audit)
    yield from _across(fleet)
    yield from _differences(fleet)
    yield from changes(fleet)
    yield from _hosts(audit)


def _faults(title: str, found: list[ByFinding]) -> Iterator[list[str]]:
    rows = [
        [
            MARKS[item.outcome.value],
            mark_up(item.id),
            str(item.roots),
            mark_up(item.message),
            mark_up(some(item.hosts[: item.roots])),
        ]
        for item in found
    ]
    yield [
        f"## {title}",
        "",
        *_cut(["Outcome", "Finding", "Hosts", "Seen on one of them", "Which"], rows),
    ]
    for item in found[:MOST_ROWS]:
        if item.fix is not None and item.outcome is not Outcome.UNKNOWN:
            inside = [f"Fix (disturbs: {item.fix.disturbs}): {mark_up(item.fix.say)}", ""]
            inside += code(item.fix.command)
            inside += [
                f"- {mark_up(source.id)} ({mark_up(source.as_of)}): {link(source.url)}"
                for source in item.sources
            ]
            yield fold(f"{mark_up(item.id)}: fix and sources", [*inside, ""])


def _cut(head: list[str], rows: list[list[str]]) -> list[str]:
    rest = len(rows) - MOST_ROWS
    return [*table(head, rows[:MOST_ROWS]), *([f"and {rest} more", ""] if rest > 0 else [])]


def _lost(audit: Audit) -> Iterator[list[str]]:
    found = lost(audit.lines())
    if not found:
        return
    rows = [
        [mark_up(line.name), f"{state} ({STATES.get(state, state)})", mark_up(line.reason)]
        for state, hosts in found.items()
        for line in hosts
    ]
    yield ["## Not audited", "", *_cut(["Host", "State", "Reason"], rows)]


def _across(fleet: FleetReport) -> Iterator[list[str]]:
    found = broken_rules(fleet)
    if not found:
        return
    rows = [
        [
            MARKS[item.outcome.value],
            mark_up(item.id),
            mark_up(item.group),
            mark_up(item.message),
            ", ".join(link(source.url) for source in item.sources),
        ]
        for item in found
    ]
    yield [
        "## Across hosts",
        "",
        *_cut(["Outcome", "Rule", "Group", "Seen", "Source"], rows),
    ]


def _differences(fleet: FleetReport) -> Iterator[list[str]]:
    found = differences(fleet)
    if not found:
        return
    rows = [
        [
            mark_up(item.title),
            mark_up(item.value),
            mark_up(item.usual),
            str(len(item.hosts)),
            mark_up(some(item.hosts)),
        ]
        for item in found
    ]
    yield [
        "## Hosts that differ from their like",
        "",
        *_cut(["Trait", "Value", "Golden" if fleet.golden else "Usual", "Hosts", "Which"], rows),
    ]
    unseen = [f"{title} ({number})" for title, number in not_compared(fleet).items()]
    if unseen:
        yield [f"Not seen, so not called alike: {mark_up(some(unseen, 8))}", ""]


def changes(fleet: FleetReport) -> Iterator[list[str]]:
    """What is different since the audit before; nothing where there is none."""
    if not fleet.before:
        return
    yield [f"## Since {mark_up(fleet.before)}", ""]
    if not fleet.changes:
        yield ["Nothing changed.", ""]
    for title, items in by_way(fleet.changes).items():
        rows = [[mark_up(item.host), item.kind, mark_up(said_change(item))] for item in items]
        head = f"### {title.capitalize()} ({len(rows)})"
        yield [head, "", *_cut(["Host", "What", "Change"], rows)]


def _hosts(audit: Audit) -> Iterator[list[str]]:
    """Those that are not healthy."""
    telling = (
        line for line in audit.lines() if line.state == "audited" and line.verdict != "healthy"
    )
    rows = [_host(line) for line in islice(telling, MOST_ROWS)]
    rest = sum(1 for _ in telling)
    if rows:
        shown = table(["Host", "Verdict", "Begin with", "Not seen"], rows)
        yield fold(
            f"Hosts that are not healthy ({len(rows) + rest})",
            [*shown, *([f"and {rest} more", ""] if rest else [])],
        )


def _host(line: HostLine) -> list[str]:
    return [mark_up(line.name), line.verdict, mark_up(line.next), str(line.unseen)]
