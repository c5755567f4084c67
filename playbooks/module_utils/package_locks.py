"""Which packages to hold and which holds are ours, as functions of text. No Ansible in here.

The owner's holds are never lifted or moved: only what the record names is ours.
"""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase


class Refused(Exception):
    """Something that cannot be read as it should be."""


class Package:
    """One installed package: its name, its version, the line of versionlock.list that holds it, whether dpkg holds it."""

    def __init__(self, name, version, entry="", held=False):
        """`entry` for dnf, `held` for dpkg."""
        self.name, self.version, self.entry, self.held = name, version, entry, held


DPKG = [
    "dpkg-query",
    "-W",
    "-f",
    "${Package}\t${Architecture}\t${db:Status-Want}\t${db:Status-Status}\t${Version}\n",
]
RPM = ["rpm", "-qa", "--qf", "%{NAME}\t%{EPOCHNUM}\t%{VERSION}-%{RELEASE}\n"]


def parse_dpkg(text, native):
    """dpkg-query's lines -> packages. One of another architecture than the machine's is called name:architecture."""
    found = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3] in ("installed", "half-configured", "unpacked"):
            name = fields[0] if fields[1] in (native, "all") else f"{fields[0]}:{fields[1]}"
            found.append(Package(name, fields[4], held=fields[2] == "hold"))
    return found


def parse_rpm(text):
    """rpm's lines -> packages, each with the entry that dnf versionlock add writes."""
    found = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3:
            name, epoch, version = fields
            found.append(Package(name, version, entry=f"{name}-{epoch}:{version}.*"))
    return found


def chosen(packages, patterns, exceptions=()):
    """The packages that a pattern names and no exception does."""
    return [
        item
        for item in packages
        if any(fnmatchcase(item.name.partition(":")[0], one) for one in patterns)
        and not any(fnmatchcase(item.name.partition(":")[0], one) for one in exceptions)
    ]


def read_record(text):
    """The record of our holds: name -> what was written for it."""
    if not text.strip():
        return {}
    try:
        data = json.loads(text)
    except ValueError as error:
        raise Refused(f"the record of holds is damaged: {error}") from None
    if not isinstance(data, dict) or not all(isinstance(item, str) for item in data.values()):
        raise Refused("the record of holds is damaged: it is not an object of strings")
    return data


def write_record(record):
    """The record as text."""
    return json.dumps(record, indent=1, sort_keys=True) + "\n"


def hold(packages, record):
    """dpkg: (names to hold, new record). What is held already and not by us stays the owner's."""
    names = [item.name for item in packages if not item.held]
    return names, {**record, **dict.fromkeys(names, "hold")}


def release(packages, record):
    """dpkg: (names to release, new record). Only our own."""
    mine = [item.name for item in packages if item.name in record]
    names = [item.name for item in packages if item.name in record and item.held]
    return names, {name: how for name, how in record.items() if name not in mine}


def entries(text):
    """The entries of versionlock.list, without comments."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def covers(entry, item):
    """Whether an entry of versionlock.list is about a package: an exact name, a NEVRA, or a pattern over either."""
    entry = entry.lstrip("!")
    if re.match(r"\d+:", entry):
        entry = entry.partition(":")[2]
    if fnmatchcase(item.name, entry) or fnmatchcase(f"{item.name}-{item.version}", entry):
        return True
    return bool(re.match(re.escape(item.name) + r"-(?:\d+:)?\d", entry))


def lock(text, packages, record):
    """dnf: (new versionlock.list, names locked, new record). Entries of ours move to the new version; the owner's stay."""
    named, record = [], dict(record)
    for name, rows in _by_name(packages).items():
        about = {entry for entry in entries(text) if any(covers(entry, item) for item in rows)}
        wanted, mine = {item.entry for item in rows}, set(record.get(name, "").split())
        if about - mine or about == wanted:
            continue
        text = _drop(text, mine)
        text += "" if not text or text.endswith("\n") else "\n"
        text += "".join(entry + "\n" for entry in sorted(wanted))
        record[name] = " ".join(sorted(wanted))
        named.append(name)
    return text, named, record


def unlock(text, packages, record):
    """dnf: (new versionlock.list, names unlocked, new record). Only entries that we wrote."""
    named, left = [], dict(record)
    for name in _by_name(packages):
        mine = set(left.pop(name, "").split()) & set(entries(text))
        if mine:
            text = _drop(text, mine)
            named.append(name)
    return text, named, left


def _by_name(packages):
    """name -> its installed versions: several kernels may be installed side by side."""
    found = {}
    for item in packages:
        found.setdefault(item.name, []).append(item)
    return found


def _drop(text, gone):
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if line.partition("#")[0].strip() not in gone)


def others(packages, record, text=None):
    """Names that somebody else holds."""
    if text is None:
        return [item.name for item in packages if item.held and item.name not in record]
    mine = {entry for item in record.values() for entry in item.split()}
    theirs = [entry for entry in entries(text) if entry not in mine]
    return [item.name for item in packages if any(covers(entry, item) for entry in theirs)]
