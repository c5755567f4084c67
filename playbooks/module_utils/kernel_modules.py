"""Files about kernel modules as functions of text: what is blacklisted, what loads at boot. No Ansible in here."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9_-]{1,56}")


class Refused(Exception):
    """Something that must not be written."""


def plain(name):
    """A module's name as the kernel has it: with underscores."""
    if not NAME.fullmatch(name):
        raise Refused(f"{name!r} is no name of a module")
    return name.replace("-", "_")


def settings(text):
    """The lines of a modprobe.d file that count: joined where a backslash continues them, without comments."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (line.strip() for line in joined.splitlines())
    return [" ".join(line.split()) for line in lines if line and not line.startswith("#")]


def blacklisted(texts):
    """Modules that any of the texts keeps from loading by alias."""
    words = [line.split() for text in texts for line in settings(text)]
    return {
        plain(row[1])
        for row in words
        if len(row) == 2 and row[0] == "blacklist" and NAME.fullmatch(row[1])
    }


def options(texts):
    """module -> its options in all of the texts."""
    found = {}
    for text in texts:
        for line in settings(text):
            row = line.split()
            if row[0] == "options" and len(row) > 2 and NAME.fullmatch(row[1]):
                found.setdefault(plain(row[1]), []).extend(row[2:])
    return found


def loaded_at_boot(texts):
    """Modules that a modules-load.d file names."""
    lines = (line.strip() for text in texts for line in text.splitlines())
    return {plain(line) for line in lines if line and line[0] not in "#;" and NAME.fullmatch(line)}


def with_lines(text, lines):
    """The text with the lines that it lacks at its end."""
    have = settings(text)
    missing = [line for line in lines if line not in have]
    if not missing:
        return text
    start = text if not text or text.endswith("\n") else text + "\n"
    return start + "".join(f"{line}\n" for line in missing)


def blacklist_lines(wanted, opts, elsewhere):
    """What a file has to say: what other files say already is left out."""
    there, set_there = blacklisted(elsewhere), options(elsewhere)
    lines = [f"blacklist {plain(name)}" for name in wanted if plain(name) not in there]
    for name, text in opts.items():
        words = str(text).split()
        if "\n" in str(text) or not words:
            raise Refused(f"options of {name} should be words on one line")
        if any(word not in set_there.get(plain(name), []) for word in words):
            lines.append(f"options {plain(name)} {' '.join(words)}")
    return lines


def in_way(names, loaded):
    """Modules of `names` that are loaded."""
    return sorted({plain(name) for name in names} & set(loaded))
