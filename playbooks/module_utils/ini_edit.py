"""Edit INI text, such as yum repositories, systemd units and wsl.conf: comments, order and spacing stay. No Ansible in here.

Refused: a key that is there several times in its section and shall get one value, and any edit that does not read back.
A key is compared as it is written, upper and lower case.
"""

from __future__ import annotations

import re

SECTION = re.compile(r"\s*\[([^\]]+)\]\s*(?:[#;].*)?$")
PAIR = re.compile(r"([^\s=#;\[][^=]*?)(\s*=\s*)(.*)$")


class Refused(Exception):
    """The text cannot be edited without losing or guessing something."""


class _Line:
    def __init__(self, text, section, key=None, value=None, gap="", head=False):
        self.text, self.section, self.key, self.value = text, section, key, value
        self.gap, self.head = gap, head


def edit(text, wanted, remove=()):
    """The text with section -> key -> value set, and [section] or [section, key] of `remove` taken out.

    A list as a value stands for the key several times, in that order.
    """
    lines = _lines(text)
    for path in remove:
        lines = _without(lines, [str(item) for item in path])
    for section, pairs in wanted.items():
        for key, value in pairs.items():
            values = value if isinstance(value, list) else [value]
            lines = _with(
                lines, section, str(key), [plain(item) for item in values], isinstance(value, list)
            )
    result = _joined(lines, text)
    _check(result, wanted)
    return result


def plain(value):
    """How a value is written: true and false in lower case, one line."""
    written = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    if "\n" in written or "\r" in written:
        raise Refused(f"a value has several lines: {written!r}")
    return written


def read(text):
    """section -> key -> list of values."""
    found = {}
    for line in _lines(text):
        if line.head:
            found.setdefault(line.section, {})
        if line.key is not None:
            found.setdefault(line.section, {}).setdefault(line.key, []).append(line.value)
    return found


def _lines(text):
    """One entry for each setting, its continuation lines with it."""
    found, section = [], ""
    for raw in text.splitlines():
        before = found[-1] if found else None
        if before is not None and before.key is not None and _continues(before.text, raw):
            before.text += "\n" + raw
            before.value += "\n" + raw.strip()
            continue
        head = SECTION.match(raw)
        if head:
            section = head.group(1)
            found.append(_Line(raw, section, head=True))
            continue
        pair = PAIR.match(raw.lstrip())
        if pair and not raw.lstrip().startswith(("#", ";")):
            key, gap, value = pair.groups()
            found.append(_Line(raw, section, key, value.rstrip(), gap))
        else:
            found.append(_Line(raw, section))
    return found


def _continues(before, raw):
    """A backslash at the end goes on, as systemd has it; so does an indented line that is no comment, as yum has it."""
    if before.endswith("\\"):
        return True
    return bool(raw[:1] in " \t" and raw.strip()) and not raw.lstrip().startswith(("#", ";", "["))


def _with(lines, section, key, values, several):
    mine = [line for line in lines if line.section == section and line.key == key]
    if [line.value for line in mine] == values:
        return lines
    if len(mine) > 1 and not several:
        raise Refused(f"{key} is there {len(mine)} times in [{section}]")
    gap = mine[0].gap if mine else _gap(lines)
    written = [_Line(f"{key}{gap}{value}".rstrip(), section, key, value, gap) for value in values]
    if mine:
        at = lines.index(mine[0])
        kept = [line for line in lines if line not in mine]
        return kept[:at] + written + kept[at:]
    places = [
        at
        for at, line in enumerate(lines)
        if line.section == section and (line.head or line.key is not None)
    ]
    if places or not section:
        at = places[-1] + 1 if places else 0
        return lines[:at] + written + lines[at:]
    blank = [_Line("", lines[-1].section)] if lines and lines[-1].text.strip() else []
    return [*lines, *blank, _Line(f"[{section}]", section, head=True), *written]


def _gap(lines):
    """How the file writes its equals signs; without spaces where it has none yet."""
    gaps = [line.gap for line in lines if line.key is not None]
    return max(set(gaps), key=gaps.count) if gaps else "="


def _without(lines, path):
    if len(path) == 1:
        return [line for line in lines if line.section != path[0]]
    return [line for line in lines if (line.section, line.key) != (path[0], path[1])]


def _joined(lines, before):
    newline = "\r\n" if "\r\n" in before else "\n"
    text = "\n".join(line.text for line in lines)
    if text and (before.endswith("\n") or not before.strip()):
        text += "\n"
    return text if newline == "\n" else text.replace("\n", newline)


def _check(text, wanted):
    found = read(text)
    for section, pairs in wanted.items():
        for key, value in pairs.items():
            values = [plain(item) for item in (value if isinstance(value, list) else [value])]
            if found.get(section, {}).get(str(key), []) != values:
                raise Refused(f"[{section}] {key} does not read back as {values}")
