"""Re-derive registry rows from package metadata and show the difference as a patch of the YAML.

Only columns that the metadata carries are touched, and only rows that changed are rewritten, so
that the patch is what a reviewer has to read and nothing else.
"""

from __future__ import annotations

import difflib
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from doctor.errors import MatrixError
from doctor.facts.versions import Pep440Version, specifier_set
from doctor.matrix import derive
from doctor.matrix.load import read_all
from doctor.matrix.model import TABLES, Row
from doctor.matrix.write import format_row, row_values

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable

    from doctor.matrix.matrix import Matrix
    from doctor.matrix.registry import IndexFile, Registry

Step = Callable[[str, int, int], None]
"""Told what is being read, how many are done and how many there are."""

WORKERS = 8


class Change(NamedTuple):
    """A row that is new, or whose columns changed."""

    table: str
    key: str
    old: Row | None
    values: dict[str, Any]
    columns: tuple[str, ...]


def derive_changes(
    matrix: Matrix, registry: Registry, today: datetime.date, step: Step
) -> list[Change]:
    """Every registry row that the metadata says otherwise, or that the matrix does not have."""
    torch = _columns("torch", registry, step)
    torches = {v: derive.torch_columns(f, m, matrix) for v, f, m in torch}
    vllms = {
        v: derive.vllm_columns(f, m, matrix, torches)
        for v, f, m in _columns("vllm", registry, step)
    }
    found = [
        *_compare(matrix, "torch", "pypi-torch", torches, today),
        *_compare(matrix, "vllm", "pypi-vllm", vllms, today),
        *_compare(matrix, "tensorrt_llm", "pypi-tensorrt-llm", _tensorrt_llm(registry), today),
    ]
    for package in derive.NVIDIA_WHEELS:
        index = registry.index(package)
        step(package, 1, 1)
        wheels = {}
        for version in derive.versions(index, "0"):
            if file := derive.preferred_wheel(index, version):
                columns = {"package": package, "version": version, **derive.wheel_tag(file)}
                wheels[f"{package}/{version}"] = columns
        found += _compare(matrix, "nvidia_wheels", f"pypi-{package}", wheels, today)
    return found


def _tensorrt_llm(registry: Registry) -> dict[str, dict[str, Any]]:
    """PyPI has its sdists only: the index tells the Python range, nothing of CUDA or torch."""
    index = registry.index("tensorrt-llm")
    by_version = {file.version: file for file in index.files}
    rows = {}
    for version in derive.versions(index, derive.FIRST["tensorrt-llm"]):
        python = by_version[version].requires_python
        rows[version] = {"requires_python": python} if python else {}
    return rows


def _columns(
    package: str, registry: Registry, step: Step
) -> Iterable[tuple[str, IndexFile, bytes]]:
    """The preferred wheel and its METADATA for each release, read a few at a time."""
    index = registry.index(package)
    chosen = [
        (version, file)
        for version in derive.versions(index, derive.FIRST[package])
        if (file := derive.preferred_wheel(index, version))
    ]
    done = []
    with ThreadPoolExecutor(WORKERS) as pool:
        read = pool.map(lambda item: registry.metadata(package, item[1]), chosen)
        for (version, file), metadata in zip(chosen, read, strict=True):
            done.append((version, file, metadata))
            step(package, len(done), len(chosen))
    return done


def _compare(
    matrix: Matrix,
    table: str,
    source: str,
    derived: dict[str, dict[str, Any]],
    today: datetime.date,
) -> list[Change]:
    known: dict[str, Any] = {str(row.key): row for row in matrix.table(table)}
    changes = []
    for key, columns in derived.items():
        row = known.get(key)
        if row is None:
            values = {
                **({} if "version" in columns else {"version": key}),
                **columns,
                "sources": [source],
                "as_of": today,
                "basis": "derived",
            }
            changes.append(Change(table, key, None, _ordered(table, values), tuple(columns)))
            continue
        differs = tuple(n for n, v in columns.items() if not _same(getattr(row, n), v))
        if differs:
            fresh = {name: columns[name] for name in differs}
            values = {**row_values(row), **fresh, "as_of": today}
            changes.append(Change(table, key, row, _ordered(table, values), differs))
    return changes


def _same(have: Any, derived: object) -> bool:
    if have is None:
        return False
    if str(have) == str(derived):
        return True
    try:
        return specifier_set(str(have)) == specifier_set(str(derived))
    except ValueError:
        return bool(have == type(have)(str(derived)))


def _ordered(table: str, values: dict[str, Any]) -> dict[str, Any]:
    """Columns in the order of the row's type, how it is known last."""
    last = ("note", "sources", "as_of", "basis")
    names = [n for n in TABLES[table].__struct_fields__ if n not in last]
    return {name: values[name] for name in (*names, *last) if values.get(name) is not None}


def patched(folder: Path, changes: list[Change]) -> dict[Path, tuple[str, str]]:
    """For each file that a change touches, its text before and after."""
    by_file: dict[Path, tuple[str, str]] = {}
    for table in dict.fromkeys(change.table for change in changes):
        path = _file_of(folder, table)
        before, text = by_file.get(path, (path.read_text(), path.read_text()))
        mine = [change for change in changes if change.table == table]
        by_file[path] = (before, _rewrite(path, text, table, mine))
    return by_file


def check_patched(folder: Path, files: dict[Path, tuple[str, str]]) -> None:
    """Read the tables as they would be, so that nothing is written that would not load."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.name
        shutil.copytree(folder, copy)
        for path, (_, after) in files.items():
            (copy / path.relative_to(folder)).write_text(after)
        read_all([copy])


def unified(folder: Path, files: dict[Path, tuple[str, str]]) -> str:
    """The differences as one patch that `git apply` takes from the folder's parent."""
    parts: list[str] = []
    for path, (before, after) in files.items():
        name = f"{folder.name}/{path.relative_to(folder)}"
        parts += difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
        )
    return "".join(parts)


def _file_of(folder: Path, table: str) -> Path:
    for path in sorted(folder.glob("*.yml")):
        if f"\n{table}:" in "\n" + path.read_text():
            return path
    raise MatrixError(f"no file has the table {table}", f'add "{table}:" to one', file=str(folder))


def _rewrite(path: Path, text: str, table: str, changes: list[Change]) -> str:
    lines = text.splitlines(keepends=True)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # noqa: S101 - the loader has read this file
    node = next(value for key, value in root.value if key.value == table)
    if not node.value:
        at = node.start_mark.line
        new = "".join(format_row(change.values) for change in changes)
        return "".join([*lines[:at], f"{table}:\n", new, *lines[at + 1 :]])
    spans = {
        _key(table, item): (item.start_mark.line, item.end_mark.line + 1) for item in node.value
    }
    edits: list[tuple[int, int, str]] = []
    for change in changes:
        written = format_row(change.values)
        if change.old is not None:
            start, end = spans[change.key]
            edits.append((start, end, written))
        else:
            at = _place(spans, change.key, node.start_mark.line)
            edits.append((at, at, written))
    for _, (start, end, written) in sorted(
        enumerate(edits), key=lambda edit: (*edit[1][:2], edit[0]), reverse=True
    ):
        lines[start:end] = [written]
    return "".join(lines)


def _key(table: str, item: yaml.MappingNode) -> str:
    values = {key.value: value.value for key, value in item.value}
    return "/".join(values[name] for name in TABLES[table].KEY if name in values)


def _place(spans: dict[str, tuple[int, int]], key: str, first: int) -> int:
    """The line before the first row that is newer, in a table that is sorted either way."""
    prefix, _, version = key.rpartition("/")
    mine = {k: v for k, v in spans.items() if k.rpartition("/")[0] == prefix}
    if not mine:
        return max((end for _, end in spans.values()), default=first)
    older = [s for k, s in mine.items() if _number(k) < Pep440Version(version)]
    newer = [s for k, s in mine.items() if _number(k) > Pep440Version(version)]
    ascending = not older or not newer or max(older)[0] < min(newer)[0]
    if ascending:
        return max(older)[1] if older else min(newer)[0]
    return min(older)[0]


def _number(key: str) -> Pep440Version:
    return Pep440Version(key.rpartition("/")[2])
