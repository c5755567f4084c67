"""Edit JSON text: set and remove values, keep everything else, its order and its indentation. No Ansible in here."""

from __future__ import annotations

import json
import re


class Refused(Exception):
    """The text cannot be edited without losing or guessing something."""


def edit(text, wanted, remove=()):
    """The text with `wanted` merged in and the key paths of `remove` taken out; the same text where nothing changes."""
    data = _parse(text)
    changed = merged(data, wanted)
    for path in remove:
        changed = without(changed, [str(key) for key in path])
    if changed == data and _same_types(changed, data):
        return text
    return _write(changed, text)


def merged(data, wanted):
    """Objects are merged key by key; anything else takes the place of what was there."""
    if not isinstance(data, dict) or not isinstance(wanted, dict):
        return wanted
    result = dict(data)
    for key, value in wanted.items():
        result[key] = merged(data[key], value) if key in data else value
    return result


def without(data, path):
    """The object without the value at `path`; an object that this empties goes too, unless it was empty before."""
    if not path or not isinstance(data, dict) or path[0] not in data:
        return data
    result = dict(data)
    if len(path) == 1:
        del result[path[0]]
        return result
    inner = without(data[path[0]], path[1:])
    if inner == {} and data[path[0]] != {}:
        del result[path[0]]
    else:
        result[path[0]] = inner
    return result


def _same_types(one, other):
    """Whether equal values are equal as JSON: in Python true == 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _parse(text):
    if text.startswith("\ufeff"):
        raise Refused("it starts with a byte order mark, which JSON forbids")
    if not text.strip():
        return {}
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise Refused(f"it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise Refused("its top level is not an object")
    return data


def _once(pairs):
    """A key that is there twice: the reader would drop one of its values."""
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the key {twice[0]!r} is there twice")
    return dict(pairs)


def _write(data, before):
    indent = _indent(before)
    compact = bool(before.strip()) and "\n" not in before.strip()
    ends = "" if before.strip() and not before.endswith("\n") else "\n"
    if compact and len(before.strip()) > 2:
        separators = (", ", ": ") if re.search(r'"\s*:\s', before) else (",", ":")
        return json.dumps(data, ensure_ascii=False, separators=separators) + ends
    text = json.dumps(data, ensure_ascii=False, indent=indent) + ends
    return text.replace("\n", "\r\n") if "\r\n" in before else text


def _indent(text):
    found = re.search(r"\n([ \t]+)\"", text)
    if not found:
        return 2
    return "\t" if "\t" in found.group(1) else len(found.group(1))
