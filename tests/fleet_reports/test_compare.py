"""What changed, and whether for the worse. What can no longer be seen is never an improvement."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doctor.checks.finding import Outcome, Severity
from doctor.fleet.compare import changes
from doctor.fleet.model import Brief, Change, HostLine
from doctor.report.fleet.summary import by_way, said_change, way
from tests.fleet_reports.sample import line

LOST: dict[str, Any] = {"state": "unreachable", "verdict": "unknown", "traits": {}}


def _brief(outcome: Outcome, blocked_by: str | None = None, waived: str | None = None) -> Brief:
    return Brief(
        id="driver.skew",
        outcome=outcome,
        severity=Severity.ERROR,
        message="m",
        blocked_by=blocked_by,
        waived=waived,
    )


def _changes(old: HostLine | None, new: HostLine | None) -> list[Change]:
    return changes({"h": old} if old else {}, {"h": new} if new else {})


def test_nothing_changed() -> None:
    assert _changes(line("h"), line("h")) == []


@pytest.mark.parametrize(
    ("verdict", "worse"),
    [("healthy", False), ("degraded", True), ("unknown", True), ("broken", True)],
)
def test_a_new_host_is_as_good_as_its_verdict(verdict: str, worse: bool) -> None:
    (only,) = _changes(None, line("h", verdict=verdict))
    assert (only.kind, only.before, only.after, only.worse) == ("host", "", verdict, worse)


def test_a_host_that_vanished_is_worse_whatever_it_was() -> None:
    (only,) = _changes(line("h", verdict="broken"), None)
    assert (only.kind, only.after, only.worse) == ("host", "", True)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ("healthy", "broken", True),
        ("broken", "healthy", False),
        ("degraded", "unknown", True),
        ("unknown", "degraded", False),
        ("broken", "unknown", False),
    ],
)
def test_verdicts(before: str, after: str, worse: bool) -> None:
    (only,) = _changes(line("h", verdict=before), line("h", verdict=after))
    assert (only.kind, only.before, only.after, only.worse) == ("verdict", before, after, worse)


def test_a_host_that_no_longer_answers_is_worse_and_its_findings_are_not_gone() -> None:
    old = line("h", verdict="unknown", findings=[_brief(Outcome.UNKNOWN)])
    (only,) = _changes(old, msgspec.structs.replace(old, **LOST))
    assert (only.kind, only.after, only.worse) == ("verdict", "unreachable", True)


@pytest.mark.parametrize(
    ("before", "after", "said", "worse"),
    [
        (None, _brief(Outcome.FAIL), ("", "fail"), True),
        (_brief(Outcome.FAIL), None, ("fail", ""), False),
        (_brief(Outcome.WARN), _brief(Outcome.UNKNOWN), ("warn", "unknown"), True),
        (_brief(Outcome.FAIL), _brief(Outcome.FAIL, waived="w"), ("fail", "waived"), False),
        (_brief(Outcome.FAIL), _brief(Outcome.FAIL, blocked_by="x"), ("fail", "explained"), False),
        (_brief(Outcome.FAIL, blocked_by="x"), _brief(Outcome.FAIL), ("", "fail"), True),
    ],
)
def test_findings(before: Any, after: Any, said: tuple[str, str], worse: bool) -> None:
    old = line("h", findings=[before] if before else [])
    new = line("h", findings=[after] if after else [])
    (only,) = _changes(old, new)
    assert (only.kind, only.before, only.after, only.worse) == ("finding", *said, worse)


def test_what_a_cause_brings_with_it_is_no_change_of_its_own() -> None:
    old, new = line("h"), line("h", findings=[_brief(Outcome.FAIL, blocked_by="x")])
    assert _changes(old, new) == []


@pytest.mark.parametrize(
    ("before", "after", "named", "worse"),
    [
        ("580.82.07", "580.95.05", "different", False),
        ("580.82.07", None, "worse", True),
        (None, "580.95.05", "better", False),
    ],
)
def test_another_version_is_neither_worse_nor_better(
    before: str | None, after: str | None, named: str, worse: bool
) -> None:
    old = line("h", traits={"driver.loaded": before})
    (only,) = _changes(old, line("h", traits={"driver.loaded": after}))
    assert (only.kind, only.subject, only.worse) == ("trait", "driver.loaded", worse)
    assert way(only) == named
    assert list(by_way([only])) == [named]


def test_changes_read_well() -> None:
    (only,) = _changes(line("h"), line("h", findings=[_brief(Outcome.FAIL)]))
    assert said_change(only) == "driver.skew: fine -> fail"
