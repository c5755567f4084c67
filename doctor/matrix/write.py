"""Matrix rows as people maintain them: one flow mapping a row, how it is known on the last line.

`doctor matrix refresh` writes rows in this form, so a refreshed row and a hand-written one differ
only in what they say.
"""

from __future__ import annotations

import datetime
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.matrix.row import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

WIDTH = 118
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+()=<>'~^*$%;-]*(?: [A-Za-z0-9_./+()=<>'~^*$%;-]+)*")
_NOT_TEXT = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null|none")
CITATION = ("sources", "as_of", "basis")


def row_values(row: Row) -> dict[str, Any]:
    """A row's fields in the order of its type, without empty ones and the loader's."""
    values = {}
    for field in msgspec.structs.fields(type(row)):
        value = getattr(row, field.encode_name)
        if field.name in ("layer", "origin") or value is None or value == () or value == {}:
            continue
        if field.default is not msgspec.NODEFAULT and value == field.default:
            continue
        values[field.name] = value
    cited = {name: values.pop(name) for name in CITATION}
    note = {"note": values.pop("note")} if "note" in values else {}
    return {**values, **note, **cited}


def format_row(values: Mapping[str, Any]) -> str:
    """One row as YAML text, wrapped between fields, ending in a newline."""
    own = [f"{name}: {scalar(value)}" for name, value in values.items() if name not in CITATION]
    cited = [f"{name}: {scalar(values[name])}" for name in CITATION if name in values]
    whole = "- {" + ", ".join(own + cited) + "}"
    if len(whole) <= WIDTH:
        return whole + "\n"
    lines = [*_wrap(own), *_wrap(cited)]
    return "- {" + ",\n   ".join(lines) + "}\n"


def scalar(value: Any) -> str:
    """A value in flow style; text that YAML could read as anything else is quoted."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, datetime.date)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(scalar(item) for item in value) + "]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{scalar(str(name))}: {scalar(item)}" for name, item in value.items())
            + "}"
        )
    text = str(value)
    if _PLAIN.fullmatch(text) and not _NOT_TEXT.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _wrap(items: list[str]) -> Iterator[str]:
    line = ""
    for item in items:
        if line and len(line) + len(item) + 5 > WIDTH:
            yield line
            line = item
        else:
            line = f"{line}, {item}" if line else item
    if line:
        yield line
