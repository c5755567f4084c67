"""What the pane says of one host, fault, outlier, rule or change of an audit, as lines of styled parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from doctor.checks.finding import Outcome
from doctor.fleet.model import AcrossHosts, ByFinding, Change, HostLine, Likeness, Outlier
from doctor.tui.detail import Lines, command, sources
from doctor.tui.fleet_rows import stands
from doctor.tui.row import mark, safe

if TYPE_CHECKING:
    from doctor.fleet.store import Audit as Kept

NAMED = 40
"""Hosts that are named in a pane; a report has all of them."""


def host_lines(line: HostLine, outliers: Sequence[Outlier]) -> Lines:
    """One host: who it is, what is wrong, how it differs from those it should be like."""
    lines: Lines = [[stands(line.standing), (safe(line.name), "bold")]]
    if line.said_name and line.said_name != line.name:
        lines.append([(f"calls itself {safe(line.said_name)}", "dim")])
    about = [line.distribution, line.platform, *line.groups]
    lines.append([(safe(", ".join(item for item in about if item)), "dim")])
    if line.reason:
        lines += [[], [(safe(line.reason), "warn")]]
    if line.state == "audited":
        seen = f"{line.passed} passed, {line.unseen} facts not seen, {line.seconds:.1f} s"
        lines += [[(seen, "dim")], [], [("Enter opens its report", "command")]]
    if line.findings:
        lines += [[], [("Findings", "head")]]
    for item in line.findings:
        explained = f"  explained by {item.blocked_by}" if item.blocked_by else ""
        waived = f"  waived: {item.waived}" if item.waived else ""
        lines.append(
            [
                mark(item.outcome.value),
                (" " + safe(item.id), "bold"),
                (safe(explained + waived), "dim"),
            ]
        )
        lines.append([(f"    {safe(item.message)}", "dim")])
    own = [item for item in outliers if item.host == line.name]
    if own:
        lines += [[], [("Differs", "head")]]
    for other in own:
        lines.append(
            [
                (f"{safe(other.trait)} ", ""),
                (safe(other.value), "warn"),
                (f"  usual in {safe(other.group)}: {safe(other.usual)}", "dim"),
            ]
        )
    if line.traits:
        lines += [[], [("Traits", "head")]]
    lines += [
        [(f"{safe(path)}  ", "dim"), (safe(value), "")] for path, value in line.traits.items()
    ]
    return lines


def kept_lines(item: Kept) -> Lines:
    """One audit of the history."""
    ended = item.finished or "did not end; doctor fleet audit --resume goes on"
    return [
        [stands(item.verdict or "unfinished"), (safe(item.inventory), "bold")],
        [],
        [("audit    ", "dim"), (safe(item.id), "")],
        [("began    ", "dim"), (safe(item.started), "")],
        [("ended    ", "dim"), (safe(ended), "")],
        [("hosts    ", "dim"), (str(item.hosts), "")],
        [("reports  ", "dim"), (safe(item.folder), "")],
        [("by       ", "dim"), (f"doctor {safe(item.doctor)}", "")],
        [],
        [("Enter opens it", "command")],
    ]


def waiting_lines(name: str, groups: Iterable[str]) -> Lines:
    """A host that has not answered."""
    lines: Lines = [[stands("waiting"), (safe(name), "bold")]]
    return [*lines, *([(safe(group), "dim")] for group in groups), [], [("no answer yet", "dim")]]


def fault_lines(item: ByFinding) -> Lines:
    """One fault: what it is, where, what would fix it, by which rule."""
    lines: Lines = [
        [
            mark(item.outcome.value),
            (" " + safe(item.id), "bold"),
            (f"  {item.severity.value}", "dim"),
        ],
        [(safe(item.title), "dim")],
        [],
        [(safe(item.message), "")],
        [(_where(item), "dim")],
    ]
    if item.fix is not None:
        disturbs = "nothing" if item.fix.disturbs == "none" else item.fix.disturbs
        lines += [[], [("Fix", "head"), (f"  disturbs {disturbs}", "dim")]]
        lines += [[(safe(item.fix.say), "")], *command(item.fix.command)]
    return lines + _hosts("Hosts; Enter lists them", item.hosts) + sources(item.sources)


def _where(item: ByFinding) -> str:
    if item.outcome is Outcome.UNKNOWN:
        return f"it could not be seen on {len(item.hosts)}"
    unseen = f"; it could not be seen on {item.unseen} more" if item.unseen else ""
    have = len(item.hosts) - item.unseen
    return f"the root cause on {item.roots} of {have} hosts that have it{unseen}"


def _hosts(title: str, names: Sequence[str]) -> Lines:
    lines: Lines = [[], [(title, "head")]]
    lines += [[("  " + safe(name), "")] for name in names[:NAMED]]
    left = len(names) - NAMED
    return [*lines, [(f"  and {left} more", "dim")]] if left > 0 else lines


def outlier_lines(item: Outlier, alike: Iterable[Likeness]) -> Lines:
    """One difference, and what the others of its group have."""
    lines: Lines = [
        [(safe(item.host), "bold"), (f"  {item.severity.value}", "dim")],
        [],
        [(f"{safe(item.trait)}  ", "dim"), (safe(item.value), "warn")],
        [("usual  ", "dim"), (safe(item.usual), ""), (f"  {item.share:.0%} of the seen", "dim")],
        [("compared with  ", "dim"), (safe(item.group), "")],
    ]
    for found in alike:
        if (found.group, found.trait) == (item.group, item.trait):
            seen = f"  seen of {found.seen} of {found.hosts}"
            lines += [[], [(safe(found.title), "head"), (seen, "dim")]]
            lines += [
                [(f"{number:>6}  ", ""), (safe(value), "")]
                for value, number in found.values.items()
            ]
            lines += [[("not seen of ", "dim"), (safe(name), "")] for name in found.unseen]
    return [*lines, [], [("Enter opens the host's report", "command")]]


def across_lines(item: AcrossHosts) -> Lines:
    """One rule across hosts, value by value."""
    lines: Lines = [
        [
            mark(item.outcome.value),
            (" " + safe(item.id), "bold"),
            (f"  {item.severity.value}", "dim"),
        ],
        [(safe(item.title), "dim")],
        [(safe(item.group), "dim")],
        [],
        [(safe(item.message), "")],
    ]
    for value, names in item.values.items():
        lines += _hosts(f"{safe(value)}  ({len(names)})", names)
    return lines + sources(item.sources)


def change_lines(item: Change) -> Lines:
    """One change since the audit before."""
    return [
        [(safe(item.host), "bold"), (f"  {safe(item.kind)}", "dim")],
        [(safe(item.subject), "")],
        [],
        [("before  ", "dim"), (safe(item.before) or "not there", "")],
        [("now     ", "dim"), (safe(item.after) or "not there", "fail" if item.worse else "")],
    ]
