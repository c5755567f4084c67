"""The matrix as rows: what is claimed, and by whose word. Pure but for loading the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.tui import detail
from doctor.tui.row import Row, safe

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix

BASIS = {
    "stated": "stated by its publisher",
    "derived": "derived from registry metadata",
    "measured": "measured",
    "field": "reported from the field",
}
CITING = ("sources", "as_of", "basis")
WANTED = {"vllm": "vllm", "tensorrt_llm": "tensorrt-llm"}
"""Tables whose rows are what a host can be for, and the package's name."""


def load(overlays: tuple[Path, ...]) -> Matrix:
    """All tables."""
    from doctor.matrix.load import load as read

    return read(overlays)


def matrix_rows(matrix: Matrix) -> list[Row]:
    """Every row of every table, under the table's name."""
    from doctor.matrix.write import row_values, scalar

    rows: list[Row] = []
    for name in matrix.names:
        table = matrix.table(name)
        if not table:
            continue
        many = f"  {len(table)} row{'s' * (len(table) != 1)}"
        rows.append(Row(f"{name}/", ((safe(name), "head"), (many, "dim")), selectable=False))
        for item in table:
            said = ", ".join(
                f"{key}: {scalar(value)}"
                for key, value in row_values(item).items()
                if key not in (*CITING, *item.KEY)
            )
            parts = (("  ", ""), (safe(item.key), "bold"), (f"  {safe(said)}", "dim"))
            text = f"{name} {item.key} {said} {' '.join(item.sources)}".lower()
            rows.append(Row(f"{name}/{item.key}", parts, text))
    return rows


def row_lines(matrix: Matrix, key: str) -> detail.Lines:
    """One row whole, with its sources."""
    from doctor.matrix.write import row_values, scalar

    table, _, name = key.partition("/")
    item: Any = matrix.index(table).get(name) if table in matrix.names else None
    if item is None:
        return []
    lines: detail.Lines = [[(safe(table), "head"), (f"  {safe(item.key)}", "bold")], []]
    values = {name: value for name, value in row_values(item).items() if name not in CITING}
    widest = max((len(name) for name in values), default=0)
    for field, value in values.items():
        shown = value if isinstance(value, str) else scalar(value)
        lines.append([(f"{safe(field):<{widest}}  ", "dim"), (safe(shown), "")])
    lines += [[], [(f"{BASIS[item.basis]}, as of {item.as_of}, {item.layer} layer", "")]]
    lines += [[(safe(item.origin), "dim")], [], [("Sources", "head")]]
    for id in item.sources:
        source = matrix.sources[id]
        lines.append([(safe(source.title), "bold")])
        lines.append([(f"    {safe(source.publisher)}, retrieved {source.retrieved}", "dim")])
        lines.append([(f"    {safe(source.link)}", "command")])
    return lines


def want_of(key: str) -> str:
    """What a host would be for that is to have this row, as --want says it; empty where that cannot be said."""
    table, _, name = key.partition("/")
    version = name.partition("/")[0]
    if table in WANTED:
        return f"{WANTED[table]}=={version}"
    return f"cuda>={version}" if table == "cuda_toolkits" else ""
