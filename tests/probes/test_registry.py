"""Probes run side by side; one that fails or hangs costs itself."""

from __future__ import annotations

import ast
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from doctor.facts.tree import AREAS, decode
from doctor.probes import registry
from doctor.probes.fact import Fact, absent, known, unknown
from tests.probes.test_source import Made

PACKAGE = Path(registry.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
IN_THREADS = [
    path
    for path in SOURCES
    if path.parent.name != "children" and path.name not in ("__main__.py", "registry.py")
]


def with_probes(monkeypatch: pytest.MonkeyPatch, **probes: Any) -> list[str]:
    monkeypatch.setattr(registry, "load", probes.__getitem__)
    return sorted(probes)


def test_every_area_of_facts_has_its_probe_and_the_other_way_round() -> None:
    assert set(registry.area_names()) == set(AREAS)


@pytest.mark.parametrize("area", sorted(AREAS))
def test_a_probe_returns_every_fact_of_its_area_whatever_it_is_told(area: str) -> None:
    for source in (Made(), Made({"/": {"type": "denied"}}, process={"env": {}, "error": "gone"})):
        found = registry.load(area)(source)
        assert set(found) == set(AREAS[area].__struct_fields__)
        assert all(isinstance(fact, Fact) for fact in found.values())
        envelope = {area: {name: fact.json() for name, fact in found.items()}}
        assert decode(envelope) is not None


class Denied(Made):
    """A host on which nothing may be seen."""

    def _read(self, path: str) -> dict[str, Any]:
        return {"error": "denied"}

    def _path(self, path: str, entries: bool, statvfs: bool) -> dict[str, Any]:
        return {"type": "denied", "error": "denied"}

    def _run(self, argv: Any, env: Any, timeout: float) -> dict[str, Any]:
        return {"error": "timeout"}

    def _http(self, socket_path: str, target: str) -> dict[str, Any]:
        return {"error": "no answer in time"}

    def _nvml(self) -> dict[str, Any]:
        return {"error": "no answer in time"}

    def _cuda(self, name: str) -> dict[str, Any]:
        return {"error": "no answer in time"}

    def _process(self) -> dict[str, Any]:
        return {"env": {}, "rlimits": {}, "error": "denied"}


SAYS_WHAT_IT_MISSED = {"python_env": {"environments", "unread"}}
"""python_env.unread lists the folders that could not be read; checks of its environments read both."""


@pytest.mark.parametrize("area", sorted(AREAS))
def test_what_could_not_be_seen_is_never_known_or_absent(area: str) -> None:
    found = registry.load(area)(Denied())
    wrong = {
        name: fact
        for name, fact in found.items()
        if fact.state in ("known", "absent")
        and fact.via not in ("process", "environment")
        and name not in SAYS_WHAT_IT_MISSED.get(area, set())
    }
    assert not wrong


def test_a_probe_that_fails_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(src: Any) -> dict[str, Fact]:
        raise ZeroDivisionError("oops")

    areas = with_probes(monkeypatch, good=lambda src: {"x": known(1, "v")}, bad=bad)
    done = registry.run(Made(), areas)
    assert done["facts"]["good"]["x"] == {"state": "known", "value": 1, "via": "v"}
    assert done["facts"]["bad"][""]["reason"] == "the probe failed: ZeroDivisionError: oops"
    assert set(done["errors"]) == {"bad"}


def test_a_probe_that_hangs_costs_itself_by_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(src: Any) -> dict[str, Fact]:
        threading.Event().wait(30)
        return {}

    areas = with_probes(monkeypatch, good=lambda src: {"x": absent("v")}, hang=hang)
    started = time.monotonic()
    done = registry.run(Made(), areas, deadline=0.2)
    assert time.monotonic() - started < 2
    assert done["facts"]["hang"][""]["state"] == "unknown"
    assert done["facts"]["good"]["x"]["state"] == "absent"


def test_a_probe_that_returns_no_fact_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = with_probes(
        monkeypatch, good=lambda src: {"x": absent("v")}, lying=lambda src: {"x": 5}
    )
    done = registry.run(Made(), areas)
    assert done["facts"]["lying"][""]["state"] == "unknown"
    assert set(done["errors"]) == {"lying"}
    assert done["facts"]["good"]["x"]["state"] == "absent"


def test_events_tell_when_each_probe_starts_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = with_probes(monkeypatch, a=lambda src: {"x": unknown("r")}, b=lambda src: {})
    told: list[tuple[str, str]] = []
    registry.run(Made(), areas, on_event=lambda area, what, ms: told.append((area, what)))
    assert sorted(told) == [
        ("a", "finished"),
        ("a", "started"),
        ("b", "finished"),
        ("b", "started"),
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_probes_import_only_the_standard_library(path: Path) -> None:
    standard = set(sys.stdlib_module_names) | {"tomllib"}  # from Python 3.11 on
    allowed = standard | {"doctor"} | ({"pynvml"} if "nvml" in path.name else set())
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert name.partition(".")[0] in allowed, name
            assert not name.startswith("doctor.") or name.startswith("doctor.probes"), name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_probes_are_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("path", IN_THREADS, ids=lambda path: path.name)
def test_no_probe_imports_another_while_it_runs(path: Path) -> None:
    """Python 3.9 shows half a module of a zip to a second thread; what is imported first is imported under a lock."""
    late = [
        node.lineno
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("doctor.probes")
    ]
    assert late == []


def test_many_probes_that_hang_keep_none_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    stuck = {f"a{number}": lambda src: gate.wait(30) and {} for number in range(8)}
    areas = with_probes(monkeypatch, **stuck, z=lambda src: {"seen": known(1, "z")})
    try:
        envelope = registry.run(Made(), areas, deadline=4.0)
    finally:
        gate.set()
    assert envelope["facts"]["z"] == {"seen": known(1, "z").json()}
    assert set(envelope["errors"]) == set(stuck)
