"""Edit TOML text: set and remove values, leave every other line as it is, comments included. No Ansible in here.

Refused, with a reason and without a change: text that is not TOML, a value inside an array of tables, a value under a key that
is not a table, a value that TOML does not have, and any edit whose result does not read back as exactly what was asked for.
"""

from __future__ import annotations

import re

from .toml_read import BARE, Document, Moment, NotToml

try:
    import tomllib
except ImportError:  # before Python 3.11
    tomllib = None


class Refused(Exception):
    """The text cannot be edited without losing or guessing something."""


def edit(text, wanted, remove=()):
    """The text with `wanted` set and the key paths of `remove` taken out; the same text where nothing changes."""
    document = _read(text)
    aim = _aim(document.data, wanted, remove)
    for path in remove:
        document = _without(document, tuple(str(key) for key in path))
    for path, value in leaves(wanted):
        document = _with(document, path, value)
    if not _same(document.data, aim):
        raise Refused("the edited text does not read back as what was asked for")
    return document.text


def leaves(wanted, path=()):
    """(path, value) of everything that is not an object with keys; an empty object is a value."""
    for key, value in wanted.items():
        here = (*path, str(key))
        if isinstance(value, dict) and value:
            yield from leaves(value, here)
        else:
            yield here, value


def _read(text):
    try:
        document = Document(text)
    except NotToml as error:
        raise Refused(f"it is not TOML: {error}") from None
    if tomllib is not None:
        try:
            known = tomllib.loads(text)
        except ValueError as error:
            raise Refused(f"it is not TOML: {error}") from None
        if not _same(document.data, known):
            raise Refused("two readers do not agree on what it says")
    return document


def _same(one, other):
    """Whether two values are equal as TOML; a date compares by its presence only."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Moment) or hasattr(other, "isoformat"):
        return isinstance(one, Moment) and (hasattr(other, "isoformat") or one == other)
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _aim(data, wanted, remove):
    """What the result has to say."""
    for path in remove:
        data = _cut(data, [str(key) for key in path])
    for path, value in leaves(wanted):
        data = _put(data, path, value)
    return data


def _cut(data, path):
    if not isinstance(data, dict) or path[0] not in data:
        return data
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    return {**data, path[0]: _cut(data[path[0]], path[1:])}


def _put(data, path, value):
    if isinstance(data, list):
        raise Refused(f"{path[0]} is inside an array")
    if not isinstance(data, dict):
        raise Refused(f"{path[0]} would be under a value that is not a table")
    if len(path) > 1:
        return {**data, path[0]: _put(data.get(path[0], {}), path[1:], value)}
    if value == {} and isinstance(data.get(path[0]), dict):
        return data
    return {**data, path[0]: value}


def _look(data, path):
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return None
        data = data[key]
    return data


def _with(document, path, value):
    """One value set."""
    text = document.text
    for length in range(1, len(path)):
        if isinstance(_look(document.data, path[:length]), list):
            raise Refused(f"{'.'.join(path[:length])} is an array")
    present = _look(document.data, path)
    if present is not None and _same(present, value):
        return document
    if value == {} and isinstance(present, dict):
        return document
    if isinstance(present, dict):
        raise Refused(f"{'.'.join(path)} is a table, and would become a value")
    for item in document.assignments:
        if item.path == path[: len(item.path)] and not _in_array(document, item):
            inner = (
                _put(_look(document.data, item.path), path[len(item.path) :], value)
                if item.path != path
                else value
            )
            return _read(text[: item.value_start] + render(inner) + text[item.value_end :])
    return _read(_inserted(document, path, value))


def _in_array(document, item):
    """Whether an assignment is in an element of an array of tables: its path alone does not name it."""
    arrays = [header.path for header in document.headers if header.array]
    return any(item.path[: len(path)] == path for path in arrays)


def _inserted(document, path, value):
    """A new line: in the table that is there, beside dotted keys of the same table, or in a new table at the end."""
    text = document.text
    newline = "\r\n" if "\r\n" in text else "\n"
    for length in range(len(path) - 1, 0, -1):
        head, rest = path[:length], path[length:]
        if length == len(path) - 1:
            header = next(
                (item for item in document.headers if item.path == head and not item.array), None
            )
            if header is not None:
                return _after(document, header, _line(rest, value), newline)
        dotted = [
            item
            for item in document.assignments
            if item.path[:length] == head
            and len(item.path) > length
            and len(item.header.path if item.header else ()) < length
        ]
        if dotted:
            own = path[len(dotted[-1].header.path if dotted[-1].header else ()) :]
            return _put_line(
                text, dotted[-1].end, _line(own, value), newline, _indent(text, dotted[-1])
            )
    if len(path) == 1:
        return _after(document, None, _line(path, value), newline)
    end = text if not text or text.endswith("\n") else text + newline
    gap = newline if end.strip() else ""
    return f"{end}{gap}[{keys(path[:-1])}]{newline}{_line(path[-1:], value)}{newline}"


def _after(document, header, line, newline):
    """Behind the last line of a table, or behind its header, or before the first header for the root."""
    own = [item for item in document.assignments if item.header is header]
    if own:
        return _put_line(document.text, own[-1].end, line, newline, _indent(document.text, own[-1]))
    if header is not None:
        space = re.match(r"[ \t]*", document.text[header.start :]).group()
        return _put_line(document.text, header.end, line, newline, space + ("  " if space else ""))
    first = document.headers[0].start if document.headers else len(document.text)
    extra = newline if document.headers else ""
    return _put_line(document.text, first, line + extra, newline, "")


def _put_line(text, at, line, newline, indent):
    before = text[:at]
    if before and not before.endswith("\n"):
        before += newline
    return f"{before}{indent}{line}{newline}{text[at:]}"


def _indent(text, item):
    return re.match(r"[ \t]*", text[item.start :]).group()


def _line(path, value):
    return f"{keys(path)} = {render(value)}"


def _without(document, path):
    """One value, or a table with all below it, taken out."""
    if _look(document.data, path) is None:
        return document
    arrays = [header.path for header in document.headers if header.array]
    if any(path[: len(array)] == array and path != array for array in arrays):
        raise Refused(f"{'.'.join(path)} is inside an array of tables")
    text = document.text
    for item in document.assignments:
        if len(item.path) < len(path) and item.path == path[: len(item.path)]:
            inner = _cut(_look(document.data, item.path), list(path[len(item.path) :]))
            return _read(text[: item.value_start] + render(inner) + text[item.value_end :])
    spans = [
        (item.start, item.end) for item in document.assignments if item.path[: len(path)] == path
    ]
    spans += [(item.start, item.end) for item in document.headers if item.path[: len(path)] == path]
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    return _read(_keep_empty(document, text, path))


def _keep_empty(document, text, path):
    """A table that was made by dotted keys or by headers below it vanishes with its last key: write its header."""
    parent = path[:-1]
    if (
        not parent
        or _look(Document(text).data, parent) is not None
        or _look(document.data, parent) is None
    ):
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    end = text if not text or text.endswith("\n") else text + newline
    return f"{end}[{keys(parent)}]{newline}"


def keys(path):
    """A dotted key; quoted where a bare one would not do."""
    return ".".join(name if BARE.fullmatch(name) else string(name) for name in path)


def string(text):
    """A basic string."""
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char in "\t\n\r\b\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f"}[char])
        elif char < " " or char == "\x7f":
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def render(value):
    """A value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Moment):
        return str(value)
    if isinstance(value, str):
        return string(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(render(item) for item in value) + "]"
    if isinstance(value, dict):
        inner = ", ".join(f"{keys([str(key)])} = {render(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise Refused(f"TOML has no value for {value!r}")
