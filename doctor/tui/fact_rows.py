"""Facts as the rows of a tree: area, fact, what is inside. Pure; values are laid open only where somebody unfolds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from doctor.tui.row import Part, Row, safe, tree_mark

SHORT = 120
"""Characters of a value in its row; the pane beside shows all of it."""
MOST = 2000
"""Entries of one list or table that are laid open."""
STATES = {
    "known": ("", ""),
    "absent": ("not there", "dim"),
    "unknown": ("? not seen", "unknown"),
    "not-applicable": ("n/a", "dim"),
}


def fact_rows(
    facts: Mapping[str, Any], unfolded: frozenset[str], filtered: bool = False
) -> list[Row]:
    """Areas, and the facts of the unfolded ones; all of them where a filter looks for one."""
    rows: list[Row] = []
    for area in sorted(facts):
        leaves = facts[area] if isinstance(facts[area], dict) else {}
        is_open = filtered or area in unfolded
        unseen = sum(1 for leaf in leaves.values() if _state(leaf) == "unknown")
        said = f"  {len(leaves)} fact{'s' * (len(leaves) != 1)}" + (
            f", {unseen} not seen" if unseen else ""
        )
        parts = ((tree_mark(not is_open), "dim"), (safe(area), "head"), (said, "dim"))
        rows.append(Row(area, parts, area.lower(), selectable=not filtered, fold=not is_open))
        if is_open:
            for name in sorted(leaves):
                rows += _fact(
                    f"{area}.{name}" if name else area + ".", name, leaves[name], unfolded
                )
    return rows


def _state(leaf: Any) -> str:
    return str(leaf.get("state", "")) if isinstance(leaf, dict) else ""


def _fact(path: str, name: str, leaf: Any, unfolded: frozenset[str]) -> Iterator[Row]:
    state = _state(leaf)
    label = name or "(all)"
    if state == "known":
        yield from _value(path, label, leaf.get("value"), 1, unfolded)
        return
    word, style = STATES.get(state, (state, "dim"))
    reason = safe(leaf.get("reason") or "") if isinstance(leaf, dict) else ""
    parts: tuple[Part, ...] = (
        ("    ", ""),
        (safe(label), ""),
        (f"  {word}", style),
        (f"  {reason}" if reason else "", "dim"),
    )
    yield Row(path, parts, f"{path} {word} {reason}".lower())


def _value(
    path: str, label: str, value: Any, depth: int, unfolded: frozenset[str]
) -> Iterator[Row]:
    if (
        isinstance(value, dict)
        and "state" in value
        and set(value) <= {"state", "value", "via", "reason"}
    ):
        value = (
            value["value"]
            if value["state"] == "known"
            else f"({value.get('reason') or value['state']})"
        )
    indent = "  " * depth
    if not isinstance(value, (dict, list)) or not value:
        text = brief(value)
        parts = ((indent + "  ", ""), (safe(label), ""), (f" = {text}", "dim"))
        yield Row(path, parts, f"{path} {text}".lower())
        return
    is_open = path in unfolded
    kind = "entries" if len(value) != 1 else "entry"
    head = (
        (indent + tree_mark(not is_open), "dim"),
        (safe(label), ""),
        (f"  {len(value)} {kind}", "dim"),
    )
    yield Row(path, head, f"{path} {brief(value)}".lower(), fold=not is_open)
    if is_open:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for number, (key, inner) in enumerate(pairs):
            if number >= MOST:
                break
            yield from _value(f"{path}/{key}", str(key), inner, depth + 1, unfolded)


def brief(value: Any) -> str:
    """A value in one short line."""
    text = value if isinstance(value, str) else str(value)
    return safe(text[:SHORT] + ("…" if len(text) > SHORT else ""))


def value_at(facts: Mapping[str, Any], key: str) -> tuple[str, Any]:
    """The fact of a row's key, as `area.name` and its leaf; an area has none."""
    path, _, _ = key.partition("/")
    area, _, name = path.partition(".")
    leaf = facts.get(area, {}).get(name) if isinstance(facts.get(area), dict) else None
    return path, leaf
