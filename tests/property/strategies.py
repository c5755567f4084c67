"""Facts of every shape: of simulated and recorded hosts, of those with facts replaced, and of no host at all."""

from __future__ import annotations

import types
import typing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from doctor.facts.model import Absent, Known, NotApplicable, Record, Unknown
from doctor.facts.tree import AREAS, Facts, decode
from doctor.probes import registry
from doctor.probes.recordings.recorded import RecordedSource
from tests.cases.reading import reports
from tests.checks.harness import BASES, cases, description_of, facts_of

HOSTS = Path(__file__).resolve().parents[1] / "hosts"

WORDS = (
    "", " ", "0", "1", "ok", "none", "unknown", "580.95.05", "570", "580.95", "13.0", "12.8", "9.0", "12.0", "2.39", "6.8.0-79-generic",
    "5.14.0-570.12.1.el9_6.x86_64", "580.95.05-0ubuntu0.24.04.1", "3:580.95.05-1.el9", "1.19.1", "28.5.1", "active", "failed", "inactive",
    "nvidia", "nouveau", "docker", "podman", "bare-metal", "vm", "wsl2", "jetson", "open", "proprietary", "enforcing", "enabled", "default",
    "GPU-00000001-0000-4000-8000-000000000000", "0000:18:00.0", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/local/cuda/compat",
    "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "completed", "in-progress", "not-supported", "NVML_ERROR_DRIVER_NOT_LOADED",
    'ID=ubuntu\nVERSION_ID="24.04"\n', 'ID=rocky\nVERSION_ID="9.6"\nID_LIKE="rhel centos fedora"\n', "apt", "dnf", "x86_64", "aarch64",
    "v1", "v2", "hybrid", "x" * 300, "a b; rm -rf /", "\x1b[31m[bold]", "é\u202e", "../../etc", "-1", "1.2.3.4.5.6", "None", "2.11.0+cu130",
)  # fmt: skip
"""Values that occur, and values that break parsers."""
NUMBERS = (
    -1,
    0,
    1,
    2,
    7,
    8,
    9,
    64,
    1024,
    65536,
    8 << 20,
    64 << 20,
    1 << 30,
    80 << 30,
    1 << 62,
    1796000000,
)


def text() -> st.SearchStrategy[str]:
    return st.one_of(st.sampled_from(WORDS), st.text(max_size=12))


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a fact's type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is str:
        return text()
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.sampled_from(NUMBERS)
    if kind is float:
        return st.sampled_from((-1.0, 0.0, 0.5, 1e9))
    if kind in (Any, object):
        return st.one_of(text(), st.booleans(), st.sampled_from(NUMBERS))
    if kind is type(None):
        return st.none()
    if origin is list:
        return st.lists(of_type(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=3)
    if origin is tuple:
        return st.tuples(*(of_type(item) for item in arguments if item is not Ellipsis))
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(of_union_member(item) for item in arguments))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if isinstance(kind, type) and issubclass(kind, Record):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{name: of_type(hints[name]) for name in kind.__struct_fields__})
    raise TypeError(f"no strategy for {kind!r}")


def of_union_member(kind: Any) -> st.SearchStrategy[Any]:
    if typing.get_origin(kind) is Known:
        return st.builds(Known, of_type(typing.get_args(kind)[0]), st.just("made up"))
    if kind is Known:
        return st.builds(Known, text(), st.just("made up"))
    if kind is Absent:
        return st.just(Absent("made up"))
    if kind is Unknown:
        return st.just(Unknown("made up", "made up"))
    if kind is NotApplicable:
        return st.just(NotApplicable("made up"))
    return of_type(kind)


@cache
def fact_strategies() -> dict[str, st.SearchStrategy[Any]]:
    """A strategy for the fact at each `area.name`."""
    found = {}
    for area, kind in AREAS.items():
        hints = typing.get_type_hints(kind)
        for name in kind.__struct_fields__:
            found[f"{area}.{name}"] = of_type(hints[name])
    return found


@cache
def host_names() -> dict[str, Any]:
    """Every host that the tests describe or recorded: name -> its description, or the folder of its recording."""
    found: dict[str, Any] = {f"base-{name}": description_of(name, {}) for name in BASES}
    found |= {f"report-{id}": report.description for id, report in reports().items()}
    found |= {name: description_of(case.base, case.fails) for name, case in cases()}
    found |= {
        f"recorded-{manifest.parent.name}": manifest.parent
        for manifest in sorted(HOSTS.glob("*/manifest.json"))
    }
    return found


@cache
def known_host(name: str) -> Facts:
    """Its facts."""
    what = host_names()[name]
    if isinstance(what, Path):
        return decode(registry.run(RecordedSource(str(what)))["facts"])
    return facts_of(what)


def hosts() -> st.SearchStrategy[Facts]:
    """One of the known hosts."""
    return st.deferred(lambda: st.sampled_from(sorted(host_names()))).map(known_host)


def replaced(facts: Facts, path: str, fact: Any) -> Facts:
    """The same host with one fact replaced."""
    area, _, name = path.partition(".")
    changed = msgspec.structs.replace(getattr(facts, area), **{name: fact})
    return msgspec.structs.replace(facts, **{area: changed})


@st.composite
def mutated_hosts(draw: st.DrawFn, most: int = 6) -> Facts:
    """A known host with a few facts replaced by anything of their type, or by what was not seen."""
    facts = draw(hosts())
    strategies = fact_strategies()
    for path in draw(st.lists(st.sampled_from(sorted(strategies)), max_size=most, unique=True)):
        facts = replaced(facts, path, draw(strategies[path]))
    return facts


@st.composite
def arbitrary_facts(draw: st.DrawFn) -> Facts:
    """Facts of no host: each area whole from one draw, most of it made up."""
    areas = {}
    for area, kind in AREAS.items():
        chosen = {}
        for name in kind.__struct_fields__:
            if draw(st.integers(0, 3)):
                chosen[name] = draw(fact_strategies()[f"{area}.{name}"])
        areas[area] = kind(**chosen)
    return Facts(**areas)


def nested(facts: Facts) -> list[tuple[str, Facts]]:
    """The host with each fact inside a GPU's record unseen, one at a time."""
    found: list[tuple[str, Facts]] = []
    gpus = facts.nvml.gpus
    if not isinstance(gpus, Known):
        return found
    for uuid, gpu in gpus.value.items():
        for name in gpu.__struct_fields__:
            if isinstance(getattr(gpu, name), Known):
                dim = msgspec.structs.replace(gpu, **{name: Unknown("taken away", name)})
                value = Known({**gpus.value, uuid: dim}, gpus.via)
                found.append((f"nvml.gpus.{uuid}.{name}", replaced(facts, "nvml.gpus", value)))
    return found
