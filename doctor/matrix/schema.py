"""The tables as JSON Schema, for editors that complete and check YAML while it is written."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.facts.versions import Specifier, Version
from doctor.matrix.model import TABLES
from doctor.matrix.read import NOT_A_ROW_KEY


def schema() -> dict[str, Any]:
    """One schema for every file of tables: a mapping of table names to lists of rows."""
    kinds = list(dict.fromkeys(TABLES.values()))
    rows, named = msgspec.json.schema_components(
        kinds, schema_hook=_named, ref_template="#/$defs/{name}"
    )
    for definition in named.values():
        for key in NOT_A_ROW_KEY:
            definition.get("properties", {}).pop(key, None)
    of = dict(zip(kinds, rows, strict=True))
    tables = {name: {"type": "array", "items": of[kind]} for name, kind in TABLES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tables of the matrix",
        "type": "object",
        "properties": tables,
        "additionalProperties": False,
        "$defs": named,
    }


def _named(kind: type) -> dict[str, Any]:
    if issubclass(kind, (Version, Specifier)):
        return {"type": "string", "description": f"a {kind.kind}", "examples": [kind.example]}
    raise NotImplementedError
