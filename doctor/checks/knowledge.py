"""What checks may know beside the facts: the matrix, loaded when first asked for, the day, and what the host is for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.checks.finding import Citation

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix


class Knowledge:
    """Read-only company of a judgement. `as_of` is the day the host is judged as of."""

    def __init__(
        self, as_of: date, *, overlays: Sequence[Path] = (), wants: Sequence[Any] = ()
    ) -> None:
        self.as_of = as_of
        self.wants = tuple(wants)
        self.overlays = tuple(overlays)

    @cached_property
    def matrix(self) -> Matrix:
        """All tables; loading may raise MatrixError."""
        from doctor.matrix.load import load

        return load(self.overlays)

    def preload(self) -> None:
        """Load the matrix now, while probes wait for the host."""
        _ = self.matrix.sources

    def citation(self, id: str) -> Citation:
        """A source of sources.yml by id."""
        source = self.matrix.sources[id]
        return Citation(id=id, url=source.link, as_of=str(source.retrieved))

    def citations_of(self, row: Any) -> list[Citation]:
        """The sources of one matrix row, as of the row's day."""
        return [
            Citation(id=id, url=self.matrix.sources[id].link, as_of=str(row.as_of), basis=row.basis)
            for id in row.sources
        ]
