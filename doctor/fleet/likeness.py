"""Which hosts should be alike, and which are not.

A host is compared within each of its inventory groups that is large enough, the smallest first, and is told once where it differs:
so a host unlike its rack shows, and a rack unlike its cluster. A host of no such group is compared with those of the same GPUs and
distribution. Within a group a trait has a usual value if enough of those of whom it was seen agree.
What was not seen is neither alike nor different: it is listed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from doctor.fleet.model import HostLine, Likeness, Outlier
from doctor.fleet.trait_list import TRAITS
from doctor.fleet.traits import DISTRIBUTION, GPUS, Trait

if TYPE_CHECKING:
    from doctor.fleet.golden import Golden

SMALLEST = 4
"""Hosts of whom a trait must have been seen: of three, one that differs says as much as the two that do not."""
MOST = 2 / 3
"""Part of the seen hosts that must exceed this to be usual."""
SHOWN = 8
"""Values and unseen hosts that a line of likeness names."""


def groups_of(lines: list[HostLine]) -> dict[str, list[HostLine]]:
    """Group -> its audited hosts, the smallest first. Groups of the same hosts are one; a host may be in several."""
    audited = [line for line in lines if line.state == "audited"]
    found: dict[str, list[HostLine]] = defaultdict(list)
    for line in audited:
        for group in line.groups:
            found[group].append(line)
    named = {group: members for group, members in found.items() if len(members) >= SMALLEST}
    placed = {line.name for members in named.values() for line in members}
    for line in audited:
        if line.name not in placed:
            named.setdefault(learned(line), []).append(line)
    ordered = sorted(named.items(), key=lambda item: (len(item[1]), item[0]))
    seen: dict[frozenset[str], str] = {}
    for group, members in ordered:
        seen.setdefault(frozenset(line.name for line in members), group)
    return {group: named[group] for group in seen.values()}


def partition(lines: list[HostLine]) -> dict[str, list[HostLine]]:
    """Every audited host in exactly one group: the smallest of those it is in."""
    found: dict[str, list[HostLine]] = {}
    placed: set[str] = set()
    for group, members in groups_of(lines).items():
        rest = [line for line in members if line.name not in placed]
        if rest:
            found[group] = rest
            placed |= {line.name for line in rest}
    return dict(sorted(found.items()))


def learned(line: HostLine) -> str:
    """The group that a host's hardware and distribution make."""
    seen = [line.traits.get(path) for path in (GPUS, DISTRIBUTION)]
    return "alike: " + ", ".join(text or "not seen" for text in seen)


def compare(
    lines: list[HostLine], golden: Golden | None = None
) -> tuple[list[Outlier], list[Likeness]]:
    """Outliers, by trait from the bottom of the stack; and the traits of a group in which its hosts are not seen to be all alike."""
    outliers: dict[tuple[str, str], Outlier] = {}
    alike: list[Likeness] = []
    for found, row in _rows(lines, golden):
        for item in found:
            outliers.setdefault((item.trait, item.host), item)
        if len(row.values) > 1 or row.seen < row.hosts:
            alike.append(row)
    order = {trait.path: place for place, trait in enumerate(TRAITS)}
    told = sorted(outliers.values(), key=lambda item: (order[item.trait], item.host))
    return told, alike


def usual(lines: list[HostLine]) -> dict[str, str]:
    """What most of them have, whatever their groups."""
    found: dict[str, Likeness] = {}
    for trait in TRAITS:
        for _, row in _majority(trait, "", lines):
            if row.usual and (row.trait not in found or row.seen > found[row.trait].seen):
                found[row.trait] = row
    return {path: row.usual for path, row in found.items()}


def _rows(lines: list[HostLine], golden: Golden | None) -> Iterator[tuple[list[Outlier], Likeness]]:
    groups = partition(lines) if golden is not None else groups_of(lines)
    for group, members in groups.items():
        for trait in TRAITS:
            if golden is not None:
                yield from _golden(trait, group, members, golden)
            elif len(members) >= SMALLEST:
                yield from _majority(trait, group, members)


def _majority(
    trait: Trait, group: str, members: list[HostLine]
) -> Iterator[tuple[list[Outlier], Likeness]]:
    for condition, comparable in _comparable(trait, members):
        row = _likeness(trait, f"{group}{condition}", comparable)
        usual = row.usual
        others = [
            line for line in comparable if usual and line.traits.get(trait.path, usual) != usual
        ]
        yield [_outlier(trait, row.group, line, usual, row.share) for line in others], row


def _comparable(trait: Trait, members: list[HostLine]) -> Iterator[tuple[str, list[HostLine]]]:
    """Parts of a group that agree in what the trait depends on, and how they are called. Hosts of whom that was not seen are a
    part of their own, which is too small for a verdict on anybody else."""
    parts: dict[tuple[str, ...], list[HostLine]] = defaultdict(list)
    for line in members:
        parts[tuple(line.traits.get(path, "") for path in trait.given)].append(line)
    for key, found in sorted(parts.items()):
        condition = "" if len(parts) == 1 else f" ({', '.join(text or 'not seen' for text in key)})"
        yield condition, found


def _likeness(trait: Trait, group: str, members: list[HostLine]) -> Likeness:
    values = Counter(line.traits[trait.path] for line in members if trait.path in line.traits)
    seen = values.total()
    ordered = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    usual, most = ordered[0] if ordered else ("", 0)
    enough = seen >= SMALLEST and most / seen > MOST and seen * 2 > len(members)
    return Likeness(
        group=group,
        trait=trait.path,
        title=trait.title,
        hosts=len(members),
        seen=seen,
        usual=usual if enough else "",
        share=round(most / seen, 4) if seen else 0.0,
        values=dict(ordered[:SHOWN]),
        unseen=[line.name for line in members if trait.path not in line.traits][:SHOWN],
    )


def _golden(
    trait: Trait, group: str, members: list[HostLine], golden: Golden
) -> Iterator[tuple[list[Outlier], Likeness]]:
    """Against the profile; a trait whose condition the golden host does not share says nothing."""
    profile = golden.profile(group, members[0].groups)
    if profile is None or trait.path not in profile:
        return
    wanted = profile[trait.path]
    comparable = [
        line
        for line in members
        if line.name != golden.host
        and all(line.traits.get(path) == profile.get(path) for path in trait.given)
    ]
    if not comparable:
        return
    label = f"golden: {golden.name}"
    row = _likeness(trait, f"{group} ({label})", comparable)
    others = [line for line in comparable if line.traits.get(trait.path, wanted) != wanted]
    share = round((row.seen - len(others)) / row.seen, 4) if row.seen else 0.0
    row = msgspec.structs.replace(row, usual=wanted, share=share)
    yield [_outlier(trait, label, line, wanted, share) for line in others], row


def _outlier(trait: Trait, group: str, line: HostLine, usual: str, share: float) -> Outlier:
    return Outlier(
        host=line.name,
        group=group,
        trait=trait.path,
        value=line.traits[trait.path],
        usual=usual,
        share=share,
        severity=trait.severity,
    )
