"""Rows that speak of one thing and claim different things are an error that names both lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.errors import MatrixError
from doctor.facts.versions import Pep440Version, Specifier
from doctor.matrix.model import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from doctor.matrix.read import ReadRow
    from doctor.matrix.row import Row


def check_own(rows: list[ReadRow]) -> None:
    """Within one folder a key is there once and ranges do not overlap with different claims."""
    for table, of_table in by_table(rows).items():
        seen: dict[str, ReadRow] = {}
        for read in of_table:
            first = seen.setdefault(read.row.key, read)
            if first is not read:
                raise clash(table, first, read)
        _check_ranges(table, of_table)


def merge(base: list[ReadRow], site: list[ReadRow]) -> list[ReadRow]:
    """Rows with an overlay on top: it may replace field and registry rows, never the vendor's."""
    check_own(site)
    added = by_table(site)
    result: list[ReadRow] = []
    for table, of_table in by_table(base).items():
        mine = {read.row.key: read for read in added.pop(table, [])}
        for read in of_table:
            other = mine.get(read.row.key)
            if other is None or other.row.claims() == read.row.claims():
                mine.pop(read.row.key, None)
                result.append(read)
            elif read.row.layer == "vendor":
                raise clash(table, read, other)
        fresh = list(mine.values())
        _check_ranges(table, [*(r for r in result if r.table == table), *fresh])
        result.extend(fresh)
    for of_table in added.values():
        result.extend(of_table)
    return result


def by_table(rows: Iterable[ReadRow]) -> dict[str, list[ReadRow]]:
    """Rows grouped by table, in file order."""
    groups: dict[str, list[ReadRow]] = {}
    for read in rows:
        groups.setdefault(read.table, []).append(read)
    return groups


def clash(table: str, first: ReadRow, second: ReadRow) -> MatrixError:
    """The error for two rows that speak of the same thing; it names both lines and what differs."""
    one, two = first.row.claims(), second.row.claims()
    differs = [name for name in one if one[name] != two[name]]
    where = f"{first.file}:{first.line}"
    if not differs:
        message = f"{table} {second.row.key} is already at {where}"
    else:
        here, there = _show(two[differs[0]]), _show(one[differs[0]])
        message = (
            f"{table} {second.row.key} contradicts {where}: "
            f"{differs[0]} is {here} here and {there} there"
        )
    return MatrixError(
        message,
        "keep one row, or make the ranges meet without overlap",
        file=str(second.file),
        line=second.line,
    )


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return "empty" if value is None else str(value)


def _check_ranges(table: str, rows: list[ReadRow]) -> None:
    kind = TABLES[table]
    if not kind.RANGE:
        return
    groups: dict[tuple[str, ...], list[ReadRow]] = {}
    for read in rows:
        fixed = tuple(str(getattr(read.row, name)) for name in kind.KEY if name not in kind.RANGE)
        groups.setdefault(fixed, []).append(read)
    for group in groups.values():
        for index, read in enumerate(group):
            for other in group[:index]:
                if _meet(other.row, read.row) and _differ(other.row, read.row):
                    raise clash(table, other, read)


def _differ(one: Row, two: Row) -> bool:
    skip = set(one.RANGE)
    return {n: v for n, v in one.claims().items() if n not in skip} != {
        n: v for n, v in two.claims().items() if n not in skip
    }


def _meet(one: Row, two: Row) -> bool:
    first, second = _range(one), _range(two)
    return any(
        first.contains(point) and second.contains(point) for point in _points(first.raw, second.raw)
    )


def _range(row: Row) -> Specifier:
    values = [getattr(row, name) for name in row.RANGE]
    if len(values) == 1:
        return values[0] if isinstance(values[0], Specifier) else Specifier(str(values[0]))
    since, until = values
    return Specifier(
        ",".join([f">={since}"] * (since is not None) + [f"<={until}"] * (until is not None))
    )


def _points(*texts: str) -> set[Pep440Version]:
    """The bounds of ranges, one just above each, one below all: enough to see two meet."""
    named = {
        part.strip().lstrip("<>=!~").removesuffix(".*")
        for text in texts
        for part in text.split(",")
        if part.strip()
    }
    bounds = {Pep440Version.parse(name) for name in named}
    above = {Pep440Version(f"{bound.key.base_version}.0.1") for bound in bounds}
    return bounds | above | {Pep440Version("0")}
