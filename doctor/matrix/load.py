"""Load the matrix: shipped tables, overlays on top, from YAML or a compiled copy of just that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import doctor
from doctor.matrix import cache
from doctor.matrix.matrix import Compiled, Matrix, compile_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from doctor.matrix.read import ReadRow
    from doctor.matrix.row import Row, Source, Waiver

_READER = (
    "row.py",
    "hardware.py",
    "engines.py",
    "systems.py",
    "model.py",
    "read.py",
    "overlap.py",
    "load.py",
    "matrix.py",
)
"""Files that decide what a compiled matrix looks like: a change in one makes old copies unfit."""


def load(
    overlays: Sequence[Path] = (), *, root: Path | None = None, use_cache: bool = True
) -> Matrix:
    """The matrix, or `MatrixError` with file and line.

    `root` is the folder of the shipped tables where a test brings its own.
    """
    if root is None:
        from doctor.resources import matrices_dir

        root = matrices_dir()
    folders = [root, *(Path(overlay) for overlay in overlays)]
    if not use_cache or not all(folder.is_dir() for folder in folders):
        return Matrix(*read_all(folders))
    digest = cache.digest_of(folders, _salt())
    if (compiled := cache.read(digest)) is not None:
        try:
            stored = msgspec.json.decode(compiled, type=Compiled)
        except msgspec.DecodeError:
            pass
        else:
            return Matrix(stored.tables, stored.sources, stored.waivers)
    tables, sources, waivers = read_all(folders)
    cache.write(digest, compile_matrix(tables, sources, waivers))
    return Matrix(tables, sources, waivers)


def read_all(
    folders: Sequence[Path],
) -> tuple[dict[str, tuple[Row, ...]], dict[str, Source], tuple[Waiver, ...]]:
    """Tables, sources and waivers of the shipped folder and its overlays, checked as one."""
    from doctor.errors import MatrixError
    from doctor.matrix import overlap
    from doctor.matrix.read import read_folder

    rows: list[ReadRow] = []
    sources: dict[str, Source] = {}
    waivers: list[Waiver] = []
    for position, folder in enumerate(folders):
        read = read_folder(folder, site=position > 0)
        for ident, source in read.sources.items():
            if sources.setdefault(ident, source) != source:
                raise MatrixError(
                    f'source "{ident}" is already defined and says something else',
                    "give the overlay's source an id of its own",
                    file=str(folder / "sources.yml"),
                )
        for row in read.rows:
            for ident in row.row.sources:
                if ident not in sources:
                    raise MatrixError(
                        f'source "{ident}" of {row.table} {row.row.key} is not in sources.yml',
                        "define it there, with a url, a repository path or a package",
                        file=str(row.file),
                        line=row.line,
                    )
        if position:
            rows = overlap.merge(rows, read.rows)
        else:
            overlap.check_own(read.rows)
            rows = read.rows
        waivers.extend(read.waivers)
    tables = {name: tuple(r.row for r in group) for name, group in overlap.by_table(rows).items()}
    return tables, sources, tuple(waivers)


def _salt() -> bytes:
    here = Path(__file__).parent
    return doctor.__version__.encode() + b"".join((here / name).read_bytes() for name in _READER)
