"""Read TOML 1.0 text with the place of each table header and each value. No Ansible in here, and no tomllib: targets have Python 3.9.

What is read is checked against tomllib wherever that is there (see toml_edit). Dates and times are kept as text.
"""

from __future__ import annotations

import re

BARE = re.compile(r"[A-Za-z0-9_-]+")
HEX = re.compile(r"[0-9A-Fa-f]+")
NUMBER = re.compile(
    r"[+-]?(?:0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*"
    r"|(?:0|[1-9](?:_?\d)*)(?:\.\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?)(?![\w.:-])"
)
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(?:\.\d+)?"
)
WORDS = {"true": True, "false": False}
SPECIAL = re.compile(r"[+-]?(?:inf|nan)(?![\w])")
ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


class NotToml(Exception):
    """The text is not TOML as this reader understands it."""


class Moment(str):
    """A date or time, as it is written."""


class Header:
    """[path] or [[path]]: the keys, the place in the text, and the number of its element for an array of tables."""

    def __init__(self, path, start, end, array):
        """A header line from `start` to `end`, its line break included."""
        self.path, self.start, self.end, self.array = path, start, end, array


class Assignment:
    """key = value: the full path, the table it is written in, and the places of line and value."""

    def __init__(self, path, header, start, end, value_start, value_end):
        """The lines from `start` to `end` hold the value from `value_start` to `value_end`."""
        self.path, self.header, self.start, self.end = path, header, start, end
        self.value_start, self.value_end = value_start, value_end


class Document:
    """What the text says, and where."""

    def __init__(self, text):
        """Read it all; NotToml where it cannot be read."""
        self.text = text
        self.data = {}
        self.headers = []
        self.assignments = []
        _Reader(self).read()


class _Reader:
    def __init__(self, document):
        self.document, self.text, self.at = document, document.text, 0
        self.header = None
        self.table = document.data
        self.closed = set()
        self.defined = set()
        self.arrays = set()
        self.inline = set()

    def fail(self, what):
        line = self.text.count("\n", 0, self.at) + 1
        raise NotToml(f"line {line}: {what}")

    def read(self):
        while self.at < len(self.text):
            start = self.at
            self.blank()
            if self.at >= len(self.text):
                return
            if self.peek() in "\r\n":
                self.newline()
            elif self.peek() == "#":
                self.end_of_line()
            elif self.peek() == "[":
                self.read_header(start)
            else:
                self.read_assignment(start)

    def peek(self):
        return self.text[self.at : self.at + 1]

    def blank(self):
        while self.peek() in (" ", "\t"):
            self.at += 1

    def newline(self):
        if self.text.startswith("\r\n", self.at):
            self.at += 2
        elif self.peek() == "\n":
            self.at += 1
        else:
            self.fail("a bare carriage return")

    def end_of_line(self):
        self.blank()
        if self.peek() == "#":
            while self.at < len(self.text) and self.peek() not in ("\n", "\r"):
                if self.peek() < " " and self.peek() != "\t":
                    self.fail("a control character in a comment")
                self.at += 1
        if self.at < len(self.text):
            if self.peek() not in ("\n", "\r"):
                self.fail(f"{self.peek()!r} where the line should end")
            self.newline()

    def key(self):
        path = []
        while True:
            self.blank()
            if self.peek() == '"':
                path.append(self.basic())
            elif self.peek() == "'":
                path.append(self.literal())
            else:
                found = BARE.match(self.text, self.at)
                if not found:
                    self.fail("a key should be here")
                path.append(found.group())
                self.at = found.end()
            self.blank()
            if self.peek() != ".":
                return tuple(path)
            self.at += 1

    def read_header(self, start):
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        path = self.key()
        close = "]]" if array else "]"
        if not self.text.startswith(close, self.at):
            self.fail(f"{close} is missing")
        self.at += len(close)
        self.end_of_line()
        self.table = self.open_table(path, array)
        self.header = Header(path, start, self.at, array)
        self.document.headers.append(self.header)

    def open_table(self, path, array):
        if any(path[:length] in self.inline for length in range(1, len(path) + 1)):
            self.fail(f"{'.'.join(path)} is already an inline table or array")
        place = self.document.data
        for length, name in enumerate(path[:-1], 1):
            place = place.setdefault(name, {})
            if isinstance(place, list) and path[:length] in self.arrays:
                place = place[-1]
            if not isinstance(place, dict):
                self.fail(f"{name} is not a table")
        last = path[-1]
        if array:
            rows = place.setdefault(last, [])
            if not isinstance(rows, list) or (path not in self.arrays and rows):
                self.fail(f"{last} is not an array of tables")
            self.arrays.add(path)
            self.forget_below(path)
            rows.append({})
            return rows[-1]
        if path in self.closed or path in self.defined or path in self.arrays:
            self.fail(f"the table {'.'.join(path)} is there twice")
        self.closed.add(path)
        table = place.setdefault(last, {})
        if not isinstance(table, dict):
            self.fail(f"{last} is not a table")
        return table

    def forget_below(self, path):
        """Each element of an array of tables starts anew."""
        for known in (self.closed, self.defined, self.inline, self.arrays):
            known -= {item for item in known if item[: len(path)] == path and item != path}

    def read_assignment(self, start):
        own = self.key()
        if self.peek() != "=":
            self.fail("= is missing")
        self.at += 1
        self.blank()
        value_start = self.at
        value = self.value()
        value_end = self.at
        self.end_of_line()
        prefix = self.header.path if self.header else ()
        self.store(self.table, own, value, prefix)
        self.document.assignments.append(
            Assignment(prefix + own, self.header, start, self.at, value_start, value_end)
        )

    def store(self, table, own, value, prefix):
        for length, name in enumerate(own[:-1], 1):
            path = prefix + own[:length]
            if path in self.closed or path in self.inline:
                self.fail(f"{name} is defined elsewhere")
            self.defined.add(path)
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                self.fail(f"{name} is not a table")
        if own[-1] in table:
            self.fail(f"the key {'.'.join(own)} is there twice")
        table[own[-1]] = value
        if isinstance(value, (dict, list)):
            self.inline.add(prefix + own)

    def value(self):
        first = self.peek()
        if first == '"':
            return self.multi('"') if self.text.startswith('"""', self.at) else self.basic()
        if first == "'":
            return self.multi("'") if self.text.startswith("'''", self.at) else self.literal()
        if first == "[":
            return self.array()
        if first == "{":
            return self.inline_table()
        return self.scalar()

    def scalar(self):
        for word, value in WORDS.items():
            if re.compile(word + r"(?![\w-])").match(self.text, self.at):
                self.at += len(word)
                return value
        for pattern, make in ((MOMENT, Moment), (NUMBER, _number), (SPECIAL, float)):
            found = pattern.match(self.text, self.at)
            if found:
                self.at = found.end()
                return make(found.group())
        return self.fail("a value should be here")

    def basic(self):
        self.at += 1
        out = []
        while True:
            char = self.peek()
            if char in ("", "\n", "\r"):
                self.fail("a string is not closed")
            if char == '"':
                self.at += 1
                return "".join(out)
            out.append(self.escape() if char == "\\" else self.plain())

    def plain(self):
        char = self.peek()
        if (char < " " and char != "\t") or char == "\x7f":
            self.fail("a control character in a string")
        self.at += 1
        return char

    def escape(self):
        code = self.text[self.at + 1 : self.at + 2]
        if code in ESCAPES:
            self.at += 2
            return ESCAPES[code]
        length = {"u": 4, "U": 8}.get(code)
        digits = self.text[self.at + 2 : self.at + 2 + (length or 0)]
        if not length or len(digits) != length or not HEX.fullmatch(digits):
            self.fail(f"\\{code} is no escape")
        number = int(digits, 16)
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            self.fail("no such character")
        self.at += 2 + length
        return chr(number)

    def literal(self):
        self.at += 1
        out = []
        while self.peek() != "'":
            if self.peek() in ("", "\n", "\r"):
                self.fail("a string is not closed")
            out.append(self.plain())
        self.at += 1
        return "".join(out)

    def multi(self, quote):
        self.at += 3
        if self.peek() in ("\n", "\r"):
            self.newline()
        out = []
        while True:
            if self.at >= len(self.text):
                self.fail("a string is not closed")
            if self.text.startswith(quote * 3, self.at):
                more = 0
                while more < 2 and self.text.startswith(quote * 4, self.at):
                    self.at, more = self.at + 1, more + 1
                self.at += 3
                return "".join(out) + quote * more
            if self.peek() == "\\" and quote == '"':
                out.append("" if self.line_end() else self.escape())
            elif self.peek() in ("\n", "\r"):
                before = self.at
                self.newline()
                out.append(self.text[before : self.at])
            else:
                out.append(self.plain())

    def line_end(self):
        """A backslash at the end of a line takes the white space up to the next character away."""
        found = re.compile(r"\\[ \t]*\r?\n[ \t\r\n]*").match(self.text, self.at)
        if found:
            self.at = found.end()
        return found is not None

    def gap(self):
        """White space, line breaks and comments inside an array."""
        while True:
            self.blank()
            if self.peek() == "#":
                self.end_of_line()
            elif self.peek() in ("\n", "\r") and self.peek():
                self.newline()
            else:
                return

    def array(self):
        self.at += 1
        items = []
        while True:
            self.gap()
            if self.peek() == "]":
                break
            items.append(self.value())
            self.gap()
            if self.peek() == ",":
                self.at += 1
            elif self.peek() != "]":
                self.fail("an array is not closed")
        self.at += 1
        return items

    def inline_table(self):
        self.at += 1
        table = {}
        inner = _Inline(self)
        self.blank()
        while self.peek() != "}":
            own = self.key()
            if self.peek() != "=":
                self.fail("= is missing")
            self.at += 1
            self.blank()
            inner.store(table, own, self.value())
            self.blank()
            if self.peek() == ",":
                self.at += 1
                self.blank()
                if self.peek() == "}":
                    self.fail("a comma before }")
            elif self.peek() != "}":
                self.fail("an inline table is not closed")
        self.at += 1
        return table


class _Inline:
    """Keys of one inline table: what a value closed cannot be extended."""

    def __init__(self, reader):
        self.reader, self.whole = reader, set()

    def store(self, table, own, value):
        for length, name in enumerate(own[:-1], 1):
            if own[:length] in self.whole:
                self.reader.fail(f"{name} is there twice")
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                self.reader.fail(f"{name} is not a table")
        if own[-1] in table:
            self.reader.fail(f"the key {own[-1]} is there twice")
        table[own[-1]] = value
        self.whole.add(own)


def _number(text):
    plain = text.replace("_", "")
    if plain.lstrip("+-")[:2] in ("0x", "0o", "0b"):
        return int(plain, 0)
    return float(plain) if re.search(r"[.eE]", plain) else int(plain)
