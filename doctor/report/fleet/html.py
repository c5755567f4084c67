"""The audit as one HTML file that needs nothing else: no request leaves it, and only its own script and style may run.

What to know first is in the markup and readable without the script. Hosts are data beside it, written one at a time, which the script
shows a page at a time; it writes text, never markup.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from doctor.fleet.folder import Audit
from doctor.fleet.model import FleetReport, HostLine
from doctor.fleet.trait_list import BY_PATH
from doctor.report.fleet.summary import (
    FLEET_VERDICTS,
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
from doctor.report.grouping import TITLES, key_of
from doctor.report.html import OUTCOME_MARKS, page
from doctor.report.plain import escape
from doctor.report.text import Look

CHARTED = (
    "driver.loaded",
    "nvml.gpus.name",
    "host.distribution",
    "kernel.running",
    "fabric.manager_version",
    "container.toolkit_version",
)
"""Traits whose values are drawn."""
VALUES = 5
FAULTS = 10
GROUPS = 16
LISTED = 500
"""Rows of a table in the markup; the rest is counted, and all of it is in the data."""
STANDINGS = ("broken", "unknown", *STATES, "degraded", "healthy")
"""Verdicts of hosts that were audited and states of those that were not, the worst first."""
_BREAK = "<!--data-->"


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar of a chart: parts of a whole, in percent."""

    label: str
    parts: list[tuple[str, int, float, float]]
    """Class, number, start and width."""
    number: int


def write(audit: Audit, _: Look) -> Iterator[str]:
    """Markup, then the hosts, then what they share, then the script."""
    seen = _Seen(audit.lines())
    shown = page("fleet.html.j2", ("report.css", "fleet.css"), "fleet.js", **_said(audit, seen))
    before, after = shown.rsplit(_BREAK, 1)  # text of hosts has no "<"
    yield before
    tables = _Tables()
    yield '<script type="application/json" id="hosts">['
    opener = "\n"
    for line in audit.lines():
        yield opener + _safe(tables.host(line))
        opener = ",\n"
    yield "]</script>\n"
    yield f'<script type="application/json" id="tables">{_safe(tables.shared(audit.fleet))}</script>\n'
    yield after


def _safe(value: Any) -> str:
    """JSON inside a script element: ASCII, and nothing that could end the element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


class _Seen:
    """What the charts need, from one pass over the hosts."""

    def __init__(self, lines: Iterable[HostLine]) -> None:
        self.traits: dict[str, Counter[str]] = {path: Counter() for path in CHARTED}
        self.groups: dict[str, Counter[str]] = defaultdict(Counter)
        self.standings: Counter[str] = Counter()
        for line in lines:
            self.standings[line.standing] += 1
            for group in line.groups:
                self.groups[group][line.standing] += 1
            if line.state == "audited":
                for path, values in self.traits.items():
                    values[line.traits.get(path, "not seen")] += 1


def _said(audit: Audit, seen: _Seen) -> dict[str, Any]:
    fleet = audit.fleet
    rows = differences(fleet)
    return {
        "fleet": fleet,
        "title": f"GPU hosts: {fleet.verdict}",
        "said_counts": said_counts(fleet),
        "marks": {name: glyph for name, (_, glyph, _) in FLEET_VERDICTS.items()},
        "outcomes": OUTCOME_MARKS,
        "standings": {name: seen.standings[name] for name in STANDINGS if seen.standings[name]},
        "whole": _bar("", seen.standings),
        "fault_bars": _fault_bars(fleet),
        "trait_charts": _trait_charts(seen),
        "group_bars": _group_bars(seen),
        "groups": sorted(seen.groups),
        "causes": causes(fleet),
        "lost": lost(audit.lines()),
        "states": STATES,
        "rules": broken_rules(fleet),
        "differences": rows,
        "not_compared": not_compared(fleet),
        "ways": by_way(fleet.changes),
        "said_change": said_change,
        "some": some,
        "listed": LISTED,
        "version": fleet.doctor,
    }


def _bar(label: str, found: Counter[str], most: int = 0) -> Bar:
    """Its parts from the worst to the best; `most`: what the full width stands for."""
    number = found.total()
    whole = most or number or 1
    parts, start = [], 0.0
    for name in STANDINGS:
        if found[name]:
            width = found[name] / whole * 100
            parts.append((name, found[name], round(start, 3), round(width, 3)))
            start += width
    return Bar(label=label, parts=parts, number=number)


def _fault_bars(fleet: FleetReport) -> list[Bar]:
    told = [item for title, found in causes(fleet).items() if title != "Notes" for item in found]
    chosen = told[:FAULTS]
    most = max((item.roots for item in chosen), default=1)
    return [
        Bar(
            label=item.id,
            parts=[(item.outcome.value, item.roots, 0.0, round(item.roots / most * 100, 3))],
            number=item.roots,
        )
        for item in chosen
    ]


def _trait_charts(seen: _Seen) -> dict[str, list[Bar]]:
    charts = {}
    for path, values in seen.traits.items():
        if set(values) <= {"not seen"}:
            continue
        ordered = sorted(values.items(), key=lambda item: (-item[1], item[0]))
        rest = sum(number for _, number in ordered[VALUES:])
        shown = [*ordered[:VALUES], *([("others", rest)] if rest else [])]
        most = shown[0][1]
        charts[BY_PATH[path].title] = [
            Bar(
                label=value,
                parts=[("value", number, 0.0, round(number / most * 100, 3))],
                number=number,
            )
            for value, number in shown
        ]
    return charts


def _group_bars(seen: _Seen) -> list[Bar]:
    """The groups with the most hosts that are not well, the worst first."""

    def badness(found: Counter[str]) -> tuple[float, ...]:
        return tuple(-found[name] / found.total() for name in STANDINGS)

    ordered = sorted(seen.groups.items(), key=lambda item: (badness(item[1]), item[0]))
    return [_bar(name, found) for name, found in ordered[:GROUPS]]


class _Tables:
    """Texts and findings that hosts share, each once; hosts refer to them by number."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._findings: dict[tuple[int, ...], int] = {}
        self._traits = {path: place for place, path in enumerate(BY_PATH)}

    def text(self, text: str | None) -> int:
        """Its number; -1 for none."""
        if text is None:
            return -1
        return self._texts.setdefault(text, len(self._texts))

    def host(self, line: HostLine) -> list[Any]:
        """As the script reads it."""
        findings = [
            self._findings.setdefault(
                (
                    self.text(item.id),
                    list(TITLES).index(key_of(item)),
                    self.text(item.outcome.value),
                    self.text(item.severity.value),
                    self.text(item.message),
                    self.text(item.blocked_by),
                    self.text(item.waived),
                ),
                len(self._findings),
            )
            for item in line.findings
        ]
        traits = [-1] * len(self._traits)
        for path, value in line.traits.items():
            if path in self._traits:
                traits[self._traits[path]] = self.text(value)
        return [
            escape(line.name),
            self.text(line.state),
            self.text(line.verdict),
            self.text(line.reason),
            [self.text(group) for group in line.groups],
            findings,
            line.passed,
            line.skipped,
            line.unseen,
            self.text(line.next),
            line.seconds,
            traits,
            self.text(line.said_name),
            self.text(line.platform),
            self.text(line.distribution),
            escape(line.file),
        ]

    def shared(self, fleet: FleetReport) -> dict[str, Any]:
        """Everything that hosts refer to, and which of their traits are unusual."""
        outliers: dict[str, list[list[Any]]] = defaultdict(list)
        for item in fleet.outliers:
            if item.trait in self._traits:
                outliers[escape(item.host)].append(
                    [self._traits[item.trait], self.text(item.usual), self.text(item.group)]
                )
        return {
            "texts": [escape(text) for text in self._texts],
            "findings": list(self._findings),
            "traits": [[path, trait.title] for path, trait in BY_PATH.items()],
            "outliers": outliers,
            "groups": list(TITLES.items()),
            "standings": STANDINGS,
        }
