"""An audit as rows: hosts by what they need, faults by how many they stop, who differs, rules across hosts, changes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from doctor.checks.finding import Outcome
from doctor.fleet.model import AcrossHosts, ByFinding, Change, HostLine, Outlier
from doctor.tui.fleet_state import ORDER, WAITING, FleetView, counts, faults
from doctor.tui.header import VERDICTS
from doctor.tui.row import Part, Row, mark, safe

if TYPE_CHECKING:
    from doctor.fleet.store import Audit as Kept

Show = Literal["hosts", "findings", "outliers", "across hosts", "changes"]
SHOWS: tuple[Show, ...] = ("hosts", "findings", "outliers", "across hosts", "changes")
WIDEST = 28
"""Cells of a host's name in its row; the pane has all of it."""
STANDS = {**VERDICTS, WAITING: ("·", "dim")}
"""Glyph and style of how a host stands; every state without a verdict is that of unknown."""


def stands(word: str) -> Part:
    """Glyph and word of how a host stands, as wide as the widest."""
    glyph, style = STANDS.get(word, ("?", "unknown"))
    return f"{glyph} {word:<12}", style


class HostRows:
    """Rows of hosts. A row is made once for each line: ten thousand are not made anew for each host that answers."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, Row]] = {}
        self._width = 0

    def rows(self, view: FleetView, having: str = "") -> list[Row]:
        """Hosts that need somebody first; with `having` those alone that have this finding."""
        self._fit(view)
        by_word: dict[str, list[Row]] = {}
        for name in sorted(view.lines):
            line = view.lines[name]
            if not having or any(item.id == having for item in line.findings):
                by_word.setdefault(line.standing, []).append(self._row(name, line))
        if not having and view.report is None:
            waiting = sorted(view.groups.keys() - view.lines.keys())
            by_word[WAITING] = [self._row(name, tuple(view.groups[name])) for name in waiting]
        rows: list[Row] = []
        for word in ORDER:
            found = by_word.get(word, [])
            if found:
                rows += [_heading(f"is:{word}", word, f"{len(found)}"), *found]
        return rows

    def _fit(self, view: FleetView) -> None:
        names = view.groups.keys() | view.lines.keys()
        width = min(WIDEST, max((len(name) for name in names), default=0))
        if width != self._width:
            self._width, self._kept = width, {}

    def _row(self, name: str, line: HostLine | tuple[str, ...]) -> Row:
        kept = self._kept.get(name)
        if kept is not None and (kept[0] is line or kept[0] == line):
            return kept[1]
        made = (
            host_row(line, self._width)
            if isinstance(line, HostLine)
            else waiting_row(name, line, self._width)
        )
        self._kept[name] = (line, made)
        return made


def _heading(key: str, title: str, said: str) -> Row:
    return Row(key, ((safe(title), "head"), (f"  {said}", "dim")), selectable=False)


def _fitted(name: str, width: int) -> str:
    text = safe(name)
    return f"{text:<{width}}" if len(text) <= width else text[: width - 1] + "…"


def host_row(line: HostLine, width: int) -> Row:
    """One host: how it stands, the finding to begin with, how many more."""
    parts: list[Part] = [
        ("  ", ""),
        stands(line.standing),
        (_fitted(line.name, width) + "  ", "bold"),
    ]
    problems = [item for item in line.findings if item.outcome is not Outcome.UNKNOWN]
    first = next((item for item in line.findings if item.id == line.next), None)
    if line.state != "audited":
        parts.append((safe(line.reason), "dim"))
    elif line.verdict == "healthy" or (first is None and not problems):
        notes = f", {len(problems)} note{'s' * (len(problems) != 1)}" if problems else ""
        parts.append((f"{line.passed} passed{notes}", "dim"))
    else:
        first = first or problems[0]
        more = len(problems) - (first in problems)
        parts += [
            (safe(first.id), ""),
            (f" +{more}" if more else "", "dim"),
            (f"  {safe(first.message)}", "dim"),
        ]
    if line.state == "audited" and line.reason:
        parts.append((f"  {safe(line.reason)}", "warn"))
    return Row(line.name, tuple(parts), _words(line))


def _words(line: HostLine) -> str:
    found = [line.name, line.standing, line.reason, line.said_name, line.platform]
    found += [line.distribution, *line.groups, *(item.id for item in line.findings)]
    return " ".join([*found, *line.traits.values()]).lower()


def waiting_row(name: str, groups: tuple[str, ...], width: int) -> Row:
    """A host that has not answered."""
    parts: tuple[Part, ...] = (("  ", ""), stands(WAITING), (_fitted(name, width), "dim"))
    return Row(name, parts, " ".join([name, WAITING, *groups]).lower())


def fault_rows(view: FleetView) -> list[Row]:
    """Faults, those first that stop the most hosts; what another finding explains on every host comes last."""
    rows: list[Row] = []
    found = faults(view)
    for title, some in (
        ("Root causes", [item for item in found if item.roots and _failed(item)]),
        ("Not seen", [item for item in found if item.roots and not _failed(item)]),
        ("Explained by others", [item for item in found if not item.roots]),
    ):
        if some:
            rows += [_heading(f"title:{title}", title, str(len(some))), *map(_fault, some)]
    return rows


def _failed(item: ByFinding) -> bool:
    return item.outcome is not Outcome.UNKNOWN


def _fault(item: ByFinding) -> Row:
    hosts = f"{len(item.hosts)} host{'s' * (len(item.hosts) != 1)}"
    parts = (
        ("  ", ""),
        mark(item.outcome.value),
        (f" {hosts:>11}  ", ""),
        (safe(item.id), "bold"),
        (f"  {safe(item.message)}", "dim"),
    )
    words = f"{item.id} {item.outcome.value} {item.severity.value} {item.title} {item.message}"
    return Row(item.id, parts, f"{words} {' '.join(item.hosts)}".lower())


def outlier_rows(found: Iterable[Outlier]) -> list[Row]:
    """Who differs, group by group."""
    by_group: dict[str, list[tuple[int, Outlier]]] = {}
    for number, item in enumerate(found):
        by_group.setdefault(item.group, []).append((number, item))
    rows: list[Row] = []
    for group, items in sorted(by_group.items()):
        rows.append(_heading(f"group:{group}", group, f"{len(items)} differ"))
        rows += [_outlier(number, item) for number, item in items]
    return rows


def _outlier(number: int, item: Outlier) -> Row:
    parts = (
        ("  ", ""),
        mark("fail" if item.severity.value == "error" else "warn"),
        (" " + safe(item.host), "bold"),
        (f"  {safe(item.trait)} ", ""),
        (safe(item.value), "warn"),
        (f"  usual: {safe(item.usual)} ({item.share:.0%})", "dim"),
    )
    words = f"{item.host} {item.group} {item.trait} {item.value} {item.usual}"
    return Row(f"{number}", parts, words.lower())


def across_rows(found: Iterable[AcrossHosts]) -> list[Row]:
    """Rules that only hosts together can break."""
    return [
        Row(
            f"{number}",
            (
                ("  ", ""),
                mark(item.outcome.value),
                (" " + safe(item.id), "bold"),
                (f"  {safe(item.group)}", ""),
                (f"  {safe(item.message)}", "dim"),
            ),
            f"{item.id} {item.title} {item.group} {item.message}".lower(),
        )
        for number, item in enumerate(found)
    ]


def change_rows(found: Iterable[Change]) -> list[Row]:
    """What is different from the audit before, what is worse first."""
    items = list(enumerate(found))
    rows: list[Row] = []
    for title, worse in (("Worse", True), ("Better or other", False)):
        some = [_change(number, item) for number, item in items if item.worse is worse]
        if some:
            rows += [_heading(f"title:{title}", title, str(len(some))), *some]
    return rows


def _change(number: int, item: Change) -> Row:
    parts = (
        ("  ", ""),
        ("✗ worse  " if item.worse else "· changed ", "fail" if item.worse else "dim"),
        (safe(item.host), "bold"),
        (f"  {safe(item.subject or item.kind)}  ", ""),
        (f"{safe(item.before) or 'not there'} → {safe(item.after) or 'not there'}", "dim"),
    )
    words = f"{item.host} {item.kind} {item.subject} {item.before} {item.after}"
    return Row(f"{number}", parts, words.lower())


def kept_rows(audits: Iterable[Kept]) -> list[Row]:
    """Audits of the history, to open one."""
    found = list(audits)
    rows = [
        Row(
            item.id,
            (
                ("  ", ""),
                stands(item.verdict or "unfinished"),
                (f"{safe(item.started[:16]):<18}", ""),
                (f"{item.hosts:>6} host{'s' * (item.hosts != 1)}  ", ""),
                (safe(item.inventory), "bold"),
            ),
            f"{item.id} {item.verdict} {item.inventory} {item.started}".lower(),
        )
        for item in found
    ]
    return [_heading("title:kept", "Earlier audits", f"{len(found)}"), *rows] if rows else []


def summary(view: FleetView) -> Iterator[Part]:
    """How many hosts stand how, in words and marks; those without a verdict together."""
    numbers: Counter[str] = Counter()
    for word, number in counts(view).items():
        numbers[word if word in STANDS else "not audited"] += number
    for word, number in numbers.items():
        glyph, style = STANDS.get(word, ("?", "unknown"))
        yield (f"{glyph} {number} {word}  ", style)
