"""From a description to findings in a few milliseconds: simulated in memory, probed by the real probes, judged by the real checks."""

from __future__ import annotations

import copy
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from doctor.checks.base import Check, all_checks
from doctor.checks.evaluate import evaluate
from doctor.checks.finding import Finding
from doctor.checks.knowledge import Knowledge
from doctor.facts.tree import AREAS, Facts, decode
from doctor.probes import registry
from doctor.probes.source import Source
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases"

BASES: dict[str, dict[str, Any]] = {
    "h100": {
        "distro": "ubuntu-24.04",
        "gpus": ["NVIDIA H100 80GB HBM3"],
        "driver": {"version": "580.95.05", "flavor": "open"},
    },
    "rocky": {
        "distro": "rocky-9.6",
        "gpus": ["NVIDIA H100 80GB HBM3"],
        "driver": {"version": "580.95.05", "flavor": "open"},
    },
    "nvswitch": {
        "distro": "ubuntu-24.04",
        "gpus": [{"name": "NVIDIA H100 80GB HBM3", "count": 8}],
        "nvswitch": 4,
        "driver": {"version": "580.95.05", "flavor": "open"},
    },
    "wsl2": {"platform": "wsl2", "distro": "ubuntu-24.04", "gpus": ["NVIDIA GeForce RTX 4090"]},
    "container": {
        "platform": "container",
        "distro": "ubuntu-24.04",
        "gpus": ["NVIDIA H100 80GB HBM3"],
        "driver": {"version": "580.95.05", "flavor": "open"},
    },
    "docker": {
        "distro": "ubuntu-24.04",
        "gpus": ["NVIDIA H100 80GB HBM3"],
        "driver": {"version": "580.95.05", "flavor": "open"},
        "containers": {"docker": "28.5.1", "toolkit": "1.19.1", "runtimes": ["nvidia"]},
    },
    "no-gpu": {"distro": "ubuntu-24.04"},
}
"""Healthy hosts. A case changes one of them; without a name it is the first."""
DEFAULT_BASE = "h100"


def merged(base: Any, delta: Any) -> Any:
    """Mappings are merged, everything else is replaced; null takes the key away, so that it has its healthy value again."""
    if not (isinstance(base, dict) and isinstance(delta, dict)):
        return copy.deepcopy(delta)
    result = {key: copy.deepcopy(value) for key, value in base.items()}
    for key, value in delta.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def description_of(base: str | None, delta: dict[str, Any] | None) -> dict[str, Any]:
    """A base with a change."""
    if base is not None and base not in BASES:
        raise KeyError(f"no base is called {base}; there are {', '.join(BASES)}")
    found: dict[str, Any] = merged(BASES[base or DEFAULT_BASE], delta or {})
    return found


def _key(description: dict[str, Any]) -> bytes:
    return msgspec.json.encode(description, order="deterministic")


_SOURCES: dict[bytes, MemorySource] = {}
_AREAS: dict[tuple[bytes, str], Any] = {}


def source_of(description: dict[str, Any]) -> MemorySource:
    """The simulated host as a source; the same description is simulated once."""
    key = _key(description)
    if key not in _SOURCES:
        _SOURCES[key] = MemorySource(simulate(description))
    return _SOURCES[key]


def probed(source: Source, area: str) -> dict[str, Any]:
    """What one probe says, as JSON; a probe that raises fails the test instead of being Unknown."""
    return {name: fact.json() for name, fact in registry.load(area)(source).items()}


def facts_of(description: dict[str, Any], areas: frozenset[str] | None = None) -> Facts:
    """Facts of a simulated host through the real probes; only the areas that are asked for."""
    key = _key(description)
    source = source_of(description)
    present = set(registry.area_names())
    raw: dict[str, Any] = {}
    for area in areas if areas is not None else AREAS:
        if area not in present:
            continue
        if (key, area) not in _AREAS:
            _AREAS[key, area] = probed(source, area)
        raw[area] = _AREAS[key, area]
    return decode(raw)


@cache
def knowledge(as_of: str = "2026-11-30") -> Knowledge:
    """The shipped matrix as of a day."""
    return Knowledge(date.fromisoformat(as_of))


@cache
def checks() -> dict[str, Check]:
    """Every check and rule."""
    from doctor.checks.yaml_rules import rules

    return all_checks(rules())


def closure(ids: list[str]) -> dict[str, Check]:
    """The checks and all that they need."""
    every = checks()
    chosen: dict[str, Check] = {}
    pending = list(ids)
    while pending:
        id = pending.pop()
        if id in every and id not in chosen:
            chosen[id] = every[id]
            pending += every[id].needs
    return chosen


@cache
def knowledge_of(as_of: str, wants: tuple[str, ...]) -> Knowledge:
    """Knowledge of a host that is for something; {data} is the folder with engines, models and images for tests."""
    if not wants:
        return knowledge(as_of)
    from doctor.plan.want import parse_all

    data = str(HERE.parent / "plan" / "data")
    items = [item.replace("{data}", data) for item in wants]
    locks = [Path(item.removeprefix("--lock ")) for item in items if item.startswith("--lock ")]
    specs = [item for item in items if not item.startswith("--lock ")]
    parsed = parse_all(specs, locks[0] if locks else None)
    return Knowledge(date.fromisoformat(as_of), wants=parsed)


def findings_of(
    description: dict[str, Any], ids: list[str] | None = None, wants: tuple[str, ...] = ()
) -> dict[str, Finding]:
    """Findings by id: of the given checks and what they need, or of all."""
    chosen = checks() if ids is None else closure(ids)
    areas = (
        None
        if ids is None
        else frozenset(path.partition(".")[0] for item in chosen.values() for path in item.reads)
    )
    facts = facts_of(description, areas)
    as_of = str(description.get("as_of", "2026-11-30"))
    return {item.id: item for item in evaluate(chosen, facts, knowledge_of(as_of, wants))}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One pair of states of a host: the check is violated in the first and passes in the second."""

    check: str
    fails: dict[str, Any]
    passes: dict[str, Any]
    base: str | None = None
    note: str | None = None
    want: list[str] = []
    """--want of both hosts, or --lock FILE."""
    want_fails: list[str] = []
    """--want of the first host alone."""
    want_passes: list[str] = []

    def wants(self, state: str) -> tuple[str, ...]:
        """What the host of a state is for."""
        return (*self.want, *(self.want_fails if state == "fails" else self.want_passes))


def cases() -> list[tuple[str, Case]]:
    """Every case with a name for the test."""
    found: list[tuple[str, Case]] = []
    for path in sorted(CASES.glob("*.yml")):
        items = yaml.safe_load(path.read_text(encoding="utf-8")) or []
        for number, raw in enumerate(items):
            case = msgspec.convert(raw, Case)
            found.append((f"{path.stem}-{number}-{case.check}", case))
    return found
