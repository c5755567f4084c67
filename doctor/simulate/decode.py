"""Parsed YAML -> Description, strictly: a misspelt key names the nearest right one, a wrong type says what was expected."""

from __future__ import annotations

import datetime
import difflib
import re
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.simulate.description import Description

_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(?P<key>.*?)`(?: - at `(?P<path>.*)`)?$")
_WRONG_TYPE = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[A-Za-z0-9_]+)|(?P<item>\[[^\]]*\])")


def decode(raw: Any) -> Description:
    """A description, or UsageError with one sentence."""
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise UsageError("a description is a mapping of keys", "see: doctor schema description")
    shape = msgspec.inspect.type_info(Description)
    try:
        return msgspec.convert(_said_plainly(raw, shape), Description)
    except msgspec.ValidationError as error:
        raise _explained(str(error), shape) from None


def _explained(text: str, shape: Any) -> UsageError:
    unknown = _UNKNOWN_KEY.match(text)
    if unknown:
        key, path = unknown["key"], unknown["path"] or "$"
        names = _names(_at(shape, path))
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
        where = _spoken(path)
        place = f" under {where}" if where else ""
        elsewhere = [] if near else sorted(_holders(key, shape))
        if near:
            hint = f"did you mean {near[0]}?"
        elif elsewhere:
            hint = f"{key} is a key of {elsewhere[0]}"
        else:
            hint = "see: doctor schema description"
        return UsageError(f"the description has no key {key}{place}; {hint}", hint)
    wrong = _WRONG_TYPE.match(text)
    what, path = (wrong["what"], wrong["path"]) if wrong else (text, None)
    where = _spoken(path or "$") or "the description"
    if "got `float`" in text:
        return UsageError(
            f"{where}: a bare number loses its end; put versions in quotes", "quote it"
        )
    plain = what.replace("`", "").replace("object", "mapping").replace(" | null", "")
    return UsageError(f"{where}: {plain[:1].lower()}{plain[1:]}", "see: doctor schema description")


def _spoken(path: str) -> str:
    """`$.containers.cdi` -> containers.cdi."""
    return path.removeprefix("$").removeprefix(".")


def _holders(key: str, shape: Any) -> set[str]:
    """Sections whose own keys include this one."""
    return {name for name in _names(shape) if key in _section_names(_child(shape, name))}


def _section_names(shape: Any) -> list[str]:
    return _names(shape) + _names(_item(shape))


def _structs(shape: Any) -> list[Any]:
    if isinstance(shape, msgspec.inspect.StructType):
        return [shape]
    if isinstance(shape, msgspec.inspect.UnionType):
        return [found for part in shape.types for found in _structs(part)]
    return []


def _names(shape: Any) -> list[str]:
    return [field.encode_name for struct in _structs(shape) for field in struct.fields]


def _child(shape: Any, name: str) -> Any:
    for struct in _structs(shape):
        for field in struct.fields:
            if field.encode_name == name:
                return field.type
    return None


def _item(shape: Any) -> Any:
    options = shape.types if isinstance(shape, msgspec.inspect.UnionType) else (shape,)
    for part in options:
        if isinstance(part, msgspec.inspect.ListType):
            return part.item_type
        if isinstance(part, msgspec.inspect.DictType):
            return part.value_type
    return None


def _at(shape: Any, path: str) -> Any:
    here = shape
    for step in _STEP.finditer(path.removeprefix("$")):
        here = _child(here, step["name"]) if step["name"] else _item(here)
    return here


def _said_plainly(value: Any, shape: Any) -> Any:
    """YAML reads off as false and 16 as a number; where only text fits, give the text back. A float is left: 580.95 lost its end."""
    if isinstance(value, dict):
        if _structs(shape):
            return {key: _said_plainly(item, _child(shape, key)) for key, item in value.items()}
        return {key: _said_plainly(item, _item(shape)) for key, item in value.items()}
    if isinstance(value, list):
        return [_said_plainly(item, _item(shape)) for item in value]
    if _text_only(shape):
        if isinstance(value, datetime.date):
            return value.isoformat()
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, int):
            return str(value)
    return value


def _text_only(shape: Any) -> bool:
    options = shape.types if isinstance(shape, msgspec.inspect.UnionType) else (shape,)
    kinds = (msgspec.inspect.StrType, msgspec.inspect.LiteralType, msgspec.inspect.NoneType)
    has_text = any(
        isinstance(part, msgspec.inspect.StrType | msgspec.inspect.LiteralType) for part in options
    )
    structs_or_text = all(
        isinstance(part, (*kinds, msgspec.inspect.StructType)) for part in options
    )
    return has_text and structs_or_text
