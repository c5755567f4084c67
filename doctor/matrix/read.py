"""Strict reading of matrix files: every mistake is one sentence with file, line and column.

A matrix that is half understood gives wrong verdicts, so nothing is skipped and nothing is
guessed: an unknown key, an unquoted version, a row without source, date or basis, and a key
written twice are errors. Only the slow path comes here; a compiled matrix never imports yaml.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import yaml

from doctor.errors import MatrixError
from doctor.matrix.model import TABLES, Row, Source, Waiver
from doctor.matrix.row import LAYER_OF

if TYPE_CHECKING:
    from pathlib import Path

    from doctor.matrix.row import Layer

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NOT_A_ROW_KEY = frozenset({"layer", "origin"})
"""Fields of a row that the loader sets; in a file they are unknown keys."""

EXECUTABLE = ("roles", "playbooks", "library", "rules")
"""Folders that an overlay must not bring: they are run or decide what is run."""


class ReadRow(NamedTuple):
    """A row and where it stands."""

    table: str
    row: Row
    file: Path
    line: int


class Folder(NamedTuple):
    """All that one folder of matrix files says."""

    sources: dict[str, Source]
    rows: list[ReadRow]
    waivers: list[Waiver]


def read_folder(folder: Path, *, site: bool = False) -> Folder:
    """Everything in a folder's *.yml, or `MatrixError` at the first mistake."""
    if not folder.is_dir():
        raise MatrixError(
            f"{folder} is not a folder of matrix files", "name a folder that holds *.yml tables"
        )
    if site:
        for name in EXECUTABLE:
            if (folder / name).exists():
                raise MatrixError(
                    f"an overlay may not bring {name}/: it adds rows and waivers only",
                    f"move {name}/ out of the overlay",
                    file=str(folder / name),
                )
    result = Folder({}, [], [])
    for file in [*sorted(folder.glob("*.yml")), *sorted((folder / "sources").glob("*.yml"))]:
        _File(file, site=site).read(result)
    return result


class _File:
    def __init__(self, path: Path, *, site: bool) -> None:
        self.path = path
        self.site = site
        self.shown = str(path) if site else path.name

    def read(self, into: Folder) -> None:
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MatrixError(
                f"cannot read {self.path}: {error}", "make it readable UTF-8", file=str(self.path)
            ) from None
        self.loader = _Loader(text)
        try:
            root = self.loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise MatrixError(
                f"not YAML: {error.problem or error}",
                "mend the line",
                file=str(self.path),
                line=mark.line + 1 if mark else 0,
                col=mark.column + 1 if mark else 0,
            ) from None
        if root is None:
            return
        if not isinstance(root, yaml.MappingNode):
            raise self.error(
                root,
                "a matrix file is a mapping of table names to rows",
                "begin it with a table name",
            )
        self.check_keys(root)
        for key, value in root.value:
            if self.path.name == "sources.yml" or self.path.parent.name == "sources":
                self.read_source(key, value, into)
            elif key.value == "waivers":
                self.read_waivers(value, into)
            else:
                self.read_table(key, value, into)

    def read_source(self, key: yaml.Node, node: yaml.Node, into: Folder) -> None:
        source = self.convert(node, Source, "source")
        if not source.is_citable:
            raise self.error(
                key,
                f'source "{key.value}" has no https url, no repository path, no package',
                "a claim that nobody can look up does not load",
            )
        into.sources[key.value] = source

    def read_waivers(self, node: yaml.Node, into: Folder) -> None:
        if not self.site:
            raise self.error(
                node, "waivers belong in an overlay", "move them to the folder given with --matrix"
            )
        into.waivers.extend(
            self.convert(item, Waiver, "waiver") for item in self.items(node, "waivers")
        )

    def read_table(self, key: yaml.Node, node: yaml.Node, into: Folder) -> None:
        kind = TABLES.get(key.value)
        if kind is None:
            raise self.error(key, f'unknown table "{key.value}"', nearest(key.value, TABLES))
        if self.site and not kind.SITE_MAY_ADD:
            raise self.error(
                key,
                f"an overlay may not add to {key.value}: repositories, their keys and what is "
                "installed from them come with doctor",
                "remove the table from the overlay",
            )
        for item in self.items(node, key.value):
            into.rows.append(self.read_row(key.value, kind, item))

    def read_row(self, table: str, kind: type[Row], node: yaml.Node) -> ReadRow:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            for key, _ in node.value:
                if key.value in NOT_A_ROW_KEY:
                    raise self.unknown(key, kind)
                if self.site and key.value in kind.SITE_MAY_NOT_SET:
                    raise self.error(
                        key,
                        f'an overlay may not set "{key.value}": '
                        "commands and addresses come with doctor",
                        "remove the key",
                    )
        row = self.convert(node, kind, f"row of {table}")
        if not row.sources:
            raise self.error(
                node,
                f"the row has no sources ({table} {row.key})",
                "name at least one id of sources.yml",
            )
        layer: Layer = "site" if self.site else LAYER_OF[row.basis]
        marked = msgspec.structs.replace(row, layer=layer, origin=f"{self.shown}:{line}")
        return ReadRow(table, marked, self.path, line)

    def items(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(node, f"{what} is not a list of rows", 'begin each row with "- "')
        return list(node.value)

    def convert(self, node: yaml.Node, kind: Any, what: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            raise self.error(
                node, f"a {what} is a mapping of keys to values", "write {key: value, ...}"
            )
        self.check_keys(node)
        data = self.loader.construct_object(node, deep=True)
        try:
            return msgspec.convert(data, kind, dec_hook=parse_named)
        except msgspec.ValidationError as error:
            raise self.explain(node, kind, str(error)) from None

    def check_keys(self, node: yaml.MappingNode) -> None:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error(key, "a key is one word", "write key: value")
            if key.value in seen:
                raise self.error(
                    key,
                    f'"{key.value}" is written twice, first on line {seen[key.value]}',
                    "keep one of the two",
                )
            seen[key.value] = key.start_mark.line + 1

    def explain(self, node: yaml.MappingNode, kind: Any, text: str) -> MatrixError:
        message, _, path = text.partition(" - at `")
        place = _at(node, path.rstrip("`"))
        if unknown := re.search(r"unknown field `([^`]+)`", message):
            holder = place if isinstance(place, yaml.MappingNode) else node
            key = next((k for k, _ in holder.value if k.value == unknown[1]), holder)
            return self.unknown(key, kind)
        if missing := re.search(r"missing required field `([^`]+)`", message):
            return self.error(
                place, f'the row has no "{missing[1]}"', f"add {missing[1]}: to the row"
            )
        if (
            isinstance(place, yaml.ScalarNode)
            and not place.style
            and place.tag.endswith((":float", ":int"))
        ):
            return self.error(
                place,
                f"unquoted version or text: {place.value}",
                f'write "{place.value}" in quotes',
            )
        name = path.rstrip("`").lstrip("$.")
        return self.error(
            place,
            f"{name}: {message}" if name else message,
            "see matrices/README.md for the columns",
        )

    def unknown(self, key: yaml.Node, kind: Any) -> MatrixError:
        names = [n for n in kind.__struct_fields__ if n not in NOT_A_ROW_KEY]
        return self.error(key, f'unknown key "{key.value}"', nearest(str(key.value), names))

    def error(self, node: yaml.Node, message: str, hint: str) -> MatrixError:
        mark = node.start_mark
        return MatrixError(
            message, hint, file=str(self.path), line=mark.line + 1, col=mark.column + 1
        )


def parse_named(kind: Any, value: object) -> Any:
    """A named version type from quoted text; anything else is an unquoted version."""
    if not isinstance(value, str):
        raise ValueError(f"a {kind.kind} that is not quoted: {value}")  # noqa: TRY004 - msgspec adds the path to it
    return kind.parse(value)


def nearest(word: str, known: Any) -> str:
    """A hint that names the nearest right word, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f'did you mean "{close[0]}"?' if close else "known: " + ", ".join(names)


def _at(node: yaml.Node, path: str) -> yaml.Node:
    """The node at msgspec's path ("$.texts[1]"), or the nearest one above it."""
    here = node
    for name, index in re.findall(r"\.([A-Za-z_0-9]+)|\[(\d+|\.\.\.)\]", path):
        if name and isinstance(here, yaml.MappingNode):
            found = next((value for key, value in here.value if key.value == name), None)
        elif (
            index.isdigit() and isinstance(here, yaml.SequenceNode) and int(index) < len(here.value)
        ):
            found = here.value[int(index)]
        else:
            found = None
        if found is None:
            return here
        here = found
    return here
