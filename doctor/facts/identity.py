"""Which host facts are of, and what of it was not seen."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.facts.distribution import parse
from doctor.facts.model import Known, Unknown
from doctor.facts.tree import AREAS, Facts


class HostName(msgspec.Struct, frozen=True, kw_only=True):
    """Which host."""

    name: str
    source: str = "live"
    """live, or the recording's path."""
    platform: str = ""
    distribution: str = ""


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that could not be looked at."""

    fact: str
    reason: str


def unseen_facts(facts: Facts, raw: dict[str, Any]) -> list[Unseen]:
    """Every fact of the areas that were looked at and could not be seen."""
    found = []
    for area, kind in AREAS.items():
        if area not in raw:
            continue
        for name in kind.__struct_fields__:
            fact = getattr(getattr(facts, area), name)
            if isinstance(fact, Unknown):
                found.append(Unseen(fact=f"{area}.{name}", reason=fact.reason))
    return found


def host_name(facts: Facts, label: str) -> HostName:
    """What the host is called, by its own facts."""

    def text(fact: Any) -> str:
        return str(fact.value) if isinstance(fact, Known) else ""

    platform = text(facts.host.hardware)
    inside = text(facts.host.container)
    if inside and inside != "none":
        platform = f"{platform or 'unknown hardware'}, in {inside}"
    try:
        pretty = parse(text(facts.host.os_release)).pretty
    except ValueError:
        pretty = ""
    return HostName(
        name=text(facts.host.name), source=label, platform=platform, distribution=pretty
    )
