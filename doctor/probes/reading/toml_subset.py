"""Reads the TOML of container engines on Python 3.9, which has no tomllib; with tomllib, tomllib reads it.

The subset: tables and arrays of tables, dotted and quoted keys, strings on one line, booleans, whole and decimal numbers,
arrays (over several lines too), inline tables. Anything else is a ValueError, so that the fact is unknown and not wrong.
"""

from typing import Any, Dict, List, Tuple

from doctor.probes.pattern import regex

_BARE = regex(r"[A-Za-z0-9_-]+")
_NUMBER = regex(r"[+-]?\d[\d_]*(\.\d+)?")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def parse(text: str) -> Dict[str, Any]:
    """TOML text -> nested tables; ValueError for what cannot be read."""
    try:
        import tomllib  # type: ignore[import-not-found,unused-ignore]
    except ImportError:  # Python 3.9 and 3.10
        return parse_subset(text)
    loaded: Dict[str, Any] = tomllib.loads(text)
    return loaded


def flatten(tables: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}; lists stay lists."""
    flat: Dict[str, Any] = {}
    for key, value in tables.items():
        name = prefix + key
        if isinstance(value, dict):
            flat.update(flatten(value, name + "."))
        else:
            flat[name] = value
    return flat


def parse_subset(text: str) -> Dict[str, Any]:
    """The subset alone, so that it is tested on every Python."""
    root: Dict[str, Any] = {}
    here = root
    reader = _Reader(text)
    while reader.skip_blank():
        if reader.take("[["):
            path = reader.key()
            reader.expect("]]")
            parent = _table(root, path[:-1])
            here = {}
            parent.setdefault(path[-1], []).append(here)
        elif reader.take("["):
            path = reader.key()
            reader.expect("]")
            here = _table(root, path)
        else:
            path = reader.key()
            reader.expect("=")
            table = _table(here, path[:-1])
            if path[-1] in table:
                raise ValueError("the key %s is there twice" % ".".join(path))
            table[path[-1]] = reader.value()
        reader.end_of_line()
    return root


def _table(root: Dict[str, Any], path: List[str]) -> Dict[str, Any]:
    for part in path:
        nested = root.setdefault(part, {})
        if isinstance(nested, list) and nested:
            nested = nested[-1]
        if not isinstance(nested, dict):
            raise ValueError("%s is not a table" % part)  # noqa: TRY004
        root = nested
    return root


class _Reader:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.at = 0

    def take(self, mark: str) -> bool:
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def expect(self, mark: str) -> None:
        self.skip_spaces()
        if not self.take(mark):
            raise ValueError("line %d: %s expected" % (self.line(), mark))

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def skip_spaces(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1

    def skip_blank(self) -> bool:
        """Past spaces, empty lines and comments; False at the end."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in " \t\n":
                self.at += 1
            else:
                return True
        return False

    def end_of_line(self) -> None:
        self.skip_spaces()
        if self.at < len(self.text) and self.text[self.at] not in "#\n":
            raise ValueError("line %d: cannot read this" % self.line())

    def key(self) -> List[str]:
        parts: List[str] = []
        while True:
            self.skip_spaces()
            if self.text[self.at : self.at + 1] in ('"', "'"):
                parts.append(self.string())
            else:
                match = _BARE.match(self.text, self.at)
                if not match:
                    raise ValueError("line %d: a key expected" % self.line())
                parts.append(match.group())
                self.at = match.end()
            self.skip_spaces()
            if not self.take("."):
                return parts

    def value(self) -> Any:
        self.skip_spaces()
        mark = self.text[self.at : self.at + 1]
        if mark in ('"', "'") and mark:
            return self.string()
        if self.take("["):
            return self.items("]")
        if self.take("{"):
            return dict(_pairs(self.items("}")))
        for word, meaning in (("true", True), ("false", False)):
            if self.take(word):
                return meaning
        match = _NUMBER.match(self.text, self.at)
        if not match:
            raise ValueError("line %d: cannot read this value" % self.line())
        self.at = match.end()
        digits = match.group().replace("_", "")
        return float(digits) if match.group(1) else int(digits)

    def items(self, close: str) -> List[Any]:
        found: List[Any] = []
        while True:
            if not self.skip_blank():
                raise ValueError("%s is missing" % close)
            if self.take(close):
                return found
            if close == "}":
                path = self.key()
                self.expect("=")
                found.append((path, self.value()))
            else:
                found.append(self.value())
            if not self.skip_blank():
                raise ValueError("%s is missing" % close)
            if not self.take(","):
                if self.take(close):
                    return found
                raise ValueError("line %d: %s expected" % (self.line(), close))

    def string(self) -> str:
        quote = self.text[self.at]
        if self.text.startswith(quote * 3, self.at):
            raise ValueError("line %d: strings over several lines are not read" % self.line())
        self.at += 1
        out: List[str] = []
        while True:
            letter = self.text[self.at : self.at + 1]
            if letter in ("", "\n"):
                raise ValueError("line %d: the string does not end" % self.line())
            self.at += 1
            if letter == quote:
                return "".join(out)
            if letter == "\\" and quote == '"':
                escape = self.text[self.at : self.at + 1]
                if escape not in _ESCAPES:
                    raise ValueError("line %d: this escape is not read" % self.line())
                out.append(_ESCAPES[escape])
                self.at += 1
            else:
                out.append(letter)


def _pairs(items: List[Tuple[List[str], Any]]) -> List[Tuple[str, Any]]:
    return [(".".join(path), value) for path, value in items]
