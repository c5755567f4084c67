"""Findings as rows: by area, root causes first, what they explain under them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from doctor.checks.evaluate import AREA_ORDER, root_causes
from doctor.checks.finding import Finding, Outcome, Severity
from doctor.tui.row import Row, mark, safe, tree_mark

Show = Literal["problems", "errors", "not seen", "all"]
SHOWS: tuple[Show, ...] = ("problems", "errors", "not seen", "all")
WORDS = {
    Outcome.FAIL: "error",
    Outcome.WARN: "warning",
    Outcome.UNKNOWN: "not seen",
    Outcome.PASS: "passed",
    Outcome.SKIP: "n/a",
}
NOTE = (Outcome.WARN, Severity.INFO)
NEAR = 3
"""Blocked findings that are shown under their cause without being asked for."""


def finding_rows(
    findings: Mapping[str, Finding], show: Show, unfolded: frozenset[str] = frozenset()
) -> list[Row]:
    """Headings and findings. Areas come in the order of their worst root cause."""
    every = list(findings.values())
    roots = root_causes(every)
    rank = {item.id: number for number, item in enumerate(roots)}
    under: dict[str, list[Finding]] = {}
    for item in every:
        if item.blocked_by is not None and item.blocked_by in findings:
            under.setdefault(item.blocked_by, []).append(item)
    tops = [item for item in every if item.blocked_by is None or item.blocked_by not in findings]
    by_area: dict[str, list[Finding]] = {}
    for item in tops:
        if _is_shown(item, show):
            by_area.setdefault(_area(item.id), []).append(item)
    rows: list[Row] = []
    for area in sorted(by_area, key=lambda name: _first(by_area[name], rank, name)):
        shown = sorted(by_area[area], key=lambda item: _order(item, rank))
        rows.append(_heading(area, shown))
        for item in shown:
            rows += _with_blocked(item, under.get(item.id, []), unfolded)
    return rows


def _area(id: str) -> str:
    return id.partition(".")[0]


def _is_shown(item: Finding, show: Show) -> bool:
    if show == "all":
        return True
    if show == "not seen":
        return item.outcome is Outcome.UNKNOWN
    if show == "errors":
        return item.outcome is Outcome.FAIL
    return item.outcome in (Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN) and not item.waived


def _first(items: Iterable[Finding], rank: Mapping[str, int], area: str) -> tuple[int, int]:
    best = min(rank.get(item.id, len(rank)) for item in items)
    return best, AREA_ORDER.index(area) if area in AREA_ORDER else len(AREA_ORDER)


def _order(item: Finding, rank: Mapping[str, int]) -> tuple[int, int, int, str]:
    outcomes = (Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN, Outcome.PASS, Outcome.SKIP)
    severities = (Severity.ERROR, Severity.WARN, Severity.INFO)
    return (
        rank.get(item.id, len(rank)),
        outcomes.index(item.outcome),
        severities.index(item.severity),
        item.id,
    )


def _heading(area: str, items: Iterable[Finding]) -> Row:
    counts = Counter(
        "note" if (item.outcome, item.severity) == NOTE else WORDS[item.outcome] for item in items
    )
    said = []
    for word in (*WORDS.values(), "note"):
        number = counts[word]
        if number:
            plural = "s" if number > 1 and word in ("error", "warning", "note") else ""
            said.append(f"{number} {word}{plural}")
    parts = ((safe(area), "head"), ("  " + ", ".join(said), "dim"))
    return Row(f"area:{area}", parts, selectable=False)


def _with_blocked(item: Finding, under: list[Finding], unfolded: frozenset[str]) -> list[Row]:
    if not under:
        return [_row(item, "  ", None)]
    under.sort(key=lambda found: (found.outcome is not Outcome.FAIL, found.id))
    is_open = item.id in unfolded or len(under) <= NEAR
    rows = [_row(item, "  ", None if len(under) <= NEAR else not is_open, len(under))]
    if is_open:
        rows += [_row(found, "    └ ", None) for found in under]
    return rows


def _row(item: Finding, indent: str, folded: bool | None, explains: int = 0) -> Row:
    noted = f" ({item.severity.value})" if item.outcome is Outcome.UNKNOWN else ""
    if item.outcome is Outcome.WARN and item.severity is Severity.INFO:
        noted = " (note)"
    if item.waived:
        noted += " (waived)"
    lead = indent if folded is None else tree_mark(folded)
    parts = [(lead, "dim"), mark(item.outcome.value), (" " + safe(item.id), "bold")]
    if explains:
        parts.append((f"  explains {explains} more", "dim"))
    parts.append((f"{noted}  {safe(item.message)}", "dim"))
    words = f"{item.outcome.value} {item.severity.value} {item.id} {item.title} {item.message}"
    return Row(item.id, tuple(parts), words.lower(), fold=folded)
