"""The loaded matrix: rows by table, decoded on first use, and the sources that they cite.

Row types are imported with the first table: what only cites sources need not wait until their classes are made.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from doctor.matrix.row import Row, Source, Waiver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from doctor.matrix.model import Statement

R = TypeVar("R", bound=Row)


class Compiled(msgspec.Struct, frozen=True):
    """A matrix as it lies in the cache."""

    sources: msgspec.Raw
    waivers: tuple[Waiver, ...]
    tables: dict[str, msgspec.Raw]


class Matrix:
    """All rows. Tables decode on first use, so a command pays only for what it asks."""

    def __init__(
        self,
        tables: Mapping[str, tuple[Row, ...] | msgspec.Raw],
        sources: Mapping[str, Source] | msgspec.Raw,
        waivers: Iterable[Waiver] = (),
    ) -> None:
        """Rows and sources as they are, or as JSON to be decoded when asked for."""
        self._tables = dict(tables)
        self._sources = sources
        self._indexes: dict[str, dict[str, Any]] = {}
        self.memo: dict[Any, Any] = {}
        self.waivers = tuple(waivers)

    @property
    def names(self) -> tuple[str, ...]:
        """Every table's name, in the order of the model, whether it has rows or not."""
        from doctor.matrix.model import TABLES

        return tuple(TABLES)

    @property
    def sources(self) -> Mapping[str, Source]:
        """Every source by id."""
        if isinstance(self._sources, msgspec.Raw):
            self._sources = msgspec.json.decode(self._sources, type=dict[str, Source])
        return self._sources

    def rows(self, kind: type[R]) -> tuple[R, ...]:
        """The rows of a table, asked for by their type: `matrix.rows(Gpu)`."""
        from doctor.matrix.model import TABLE_OF

        rows: tuple[Any, ...] = self.table(TABLE_OF[kind])
        return rows

    def statements(self, table: str) -> tuple[Statement, ...]:
        """The rows of a table of statements: `matrix.statements("wsl_rules")`."""
        rows: tuple[Any, ...] = self.table(table)
        return rows

    def table(self, name: str) -> tuple[Row, ...]:
        """The rows of a table by its name; `KeyError` for a name that is no table."""
        rows = self._tables.get(name)
        if rows is None or isinstance(rows, msgspec.Raw):
            from doctor.matrix.model import TABLES

            kind: Any = GenericAlias(tuple, (TABLES[name], ...))
            rows = () if rows is None else msgspec.json.decode(rows, type=kind, dec_hook=construct)
            self._tables[name] = rows
        return rows

    def find(self, kind: type[R], key: str) -> R | None:
        """The row with that key, or None: a matrix that does not know never guesses."""
        from doctor.matrix.model import TABLE_OF

        found: R | None = self.index(TABLE_OF[kind]).get(key)
        return found

    def index(self, name: str) -> dict[str, Any]:
        """Rows of a table by key."""
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = {row.key: row for row in self.table(name)}
        return index

    def statement(self, table: str, ident: str) -> Statement | None:
        """One statement by table and id, or None."""
        found: Statement | None = self.index(table).get(ident)
        return found

    def cite(self, *rows: Row) -> list[dict[str, str]]:
        """The rows' sources as a report carries them: id, address, day."""
        cited: dict[str, dict[str, str]] = {}
        for row in rows:
            for ident in row.sources:
                cited.setdefault(
                    ident, {"id": ident, "url": self.sources[ident].link, "as_of": str(row.as_of)}
                )
        return list(cited.values())


def construct(kind: Any, raw: Any) -> Any:
    """A named version type from text that was validated when the matrix was compiled."""
    return kind(raw)


def compile_matrix(
    tables: Mapping[str, tuple[Row, ...]], sources: Mapping[str, Source], waivers: Iterable[Waiver]
) -> bytes:
    """The matrix as JSON for the cache."""
    return msgspec.json.encode(
        {"sources": dict(sources), "waivers": tuple(waivers), "tables": dict(tables)}, enc_hook=str
    )
