"""What hosts that should be alike are compared by. A trait is text read from facts; one that was not seen has no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from doctor.checks.finding import Severity
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable
from doctor.facts.tree import Facts

ABSENT = "not there"
NOT_APPLICABLE = "does not apply"
LONGEST = 240
"""Characters of a trait; a host that says more says nothing that could be compared at a glance."""

GPUS = "nvml.gpus.name"
DISTRIBUTION = "host.distribution"


class Trait(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to compare."""

    path: str
    """Its fact; with a part of the fact's value after a second dot."""
    title: str
    read: Callable[[Facts], str]
    """The value as text. Raises FactUnknown when it was not seen."""
    severity: Severity = Severity.WARN
    """If a host differs from its like."""
    given: tuple[str, ...] = ()
    """Traits in which hosts must agree before this one says anything: VBIOS images of two GPU models differ by nature."""


def said(fact: Any) -> str:
    """Any fact as text; absence is an observation like any other."""
    if isinstance(fact, Absent):
        return ABSENT
    if isinstance(fact, NotApplicable):
        return NOT_APPLICABLE
    return as_text(fact.value)


def as_text(value: Any) -> str:
    """Booleans as words, lists in order, mappings sorted."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}={as_text(value[key])}" for key in sorted(value)) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(as_text(item) for item in value) or "none"
    return str(value)


def tally(values: Iterable[str]) -> str:
    """`8 x a`, or `7 x a, 1 x b`: the most frequent first."""
    found = Counter(values)
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number} x {value}" for value, number in ordered) or "none"


def distinct(values: Iterable[str]) -> str:
    """Each value once, sorted."""
    return ", ".join(sorted(set(values))) or "none"


def plain(path: str, title: str, severity: Severity = Severity.WARN, *given: str) -> Trait:
    """A fact compared as it is."""
    area, _, name = path.partition(".")

    def read(facts: Facts) -> str:
        return said(getattr(getattr(facts, area), name))

    return Trait(path=path, title=title, read=read, severity=severity, given=given)


def of_gpus(name: str, title: str, severity: Severity = Severity.WARN) -> Trait:
    """A fact of every GPU: their tally. One GPU that was not seen leaves the whole unseen."""

    def read(facts: Facts) -> str:
        gpus = facts.nvml.gpus
        if not isinstance(gpus, Known):
            return said(gpus)
        return tally(said(getattr(gpu, name)) for gpu in gpus.value.values())

    return Trait(
        path=f"nvml.gpus.{name}",
        title=title,
        read=read,
        severity=severity,
        given=() if name == "name" else (GPUS,),
    )


def read_all(facts: Facts, traits: Iterable[Trait]) -> dict[str, str]:
    """path -> text of every trait that was seen."""
    found = {}
    for trait in traits:
        try:
            text = trait.read(facts)
        except FactUnknown:
            continue
        found[trait.path] = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return found
