"""A check counts when it is violated on one simulated host and passes on another, both looked at by the real probes."""

from __future__ import annotations

import pytest

from doctor.checks.finding import Finding, Outcome
from tests.checks.harness import BASES, Case, cases, checks, description_of, findings_of

CASES = cases()
BY_NAME = dict(CASES)

REVIEWED_WARNINGS: dict[str, frozenset[str]] = {name: frozenset() for name in BASES}
"""Warnings that a healthy base may have, each with a reason in the base's own description."""


def judged(case: Case, state: str) -> Finding:
    assert case.check in checks(), f"no check is called {case.check}"
    delta = case.fails if state == "fails" else case.passes
    description = description_of(case.base, delta)
    return findings_of(description, [case.check], case.wants(state))[case.check]


def told(finding: Finding) -> str:
    evidence = "; ".join(
        f"{item.fact}={item.value!r}{' ' + item.reason if item.reason else ''}"
        for item in finding.evidence
    )
    return f"{finding.id} is {finding.outcome.value}: {finding.message} [{evidence}]"


@pytest.mark.parametrize("name", [name for name, _ in CASES])
def test_check_is_violated_on_the_first_host(name: str) -> None:
    finding = judged(BY_NAME[name], "fails")
    assert finding.violated, told(finding)


@pytest.mark.parametrize("name", [name for name, _ in CASES])
def test_check_passes_on_the_second_host(name: str) -> None:
    finding = judged(BY_NAME[name], "passes")
    assert finding.outcome is Outcome.PASS, told(finding)


def test_every_check_counts(capsys: pytest.CaptureFixture[str]) -> None:
    counted = {case.check for _, case in CASES}
    without = sorted(set(checks()) - counted)
    with capsys.disabled():
        print(f"\n{len(counted)} of {len(checks())} checks count")
        if without:
            print("without a pair: " + " ".join(without))
    assert len(counted) >= 120
    assert not without


@pytest.mark.parametrize("name", [name for name in BASES if name != "no-gpu"])
def test_healthy_base_has_no_error(name: str) -> None:
    findings = findings_of(BASES[name])
    errors = [told(item) for item in findings.values() if item.outcome is Outcome.FAIL]
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize("name", list(BASES))
def test_healthy_base_warns_only_as_reviewed(name: str) -> None:
    findings = findings_of(BASES[name])
    warnings = {
        id: told(item)
        for id, item in findings.items()
        if item.outcome is Outcome.WARN and item.severity.value == "warn" and item.counts
    }
    extra = set(warnings) - REVIEWED_WARNINGS[name]
    assert not extra, "\n".join(warnings[id] for id in sorted(extra))


@pytest.mark.parametrize("name", list(BASES))
def test_healthy_base_is_seen_whole(name: str) -> None:
    unseen = [
        told(item)
        for item in findings_of(BASES[name]).values()
        if item.outcome is Outcome.UNKNOWN and item.severity.value == "error" and item.counts
    ]
    assert not unseen, "\n".join(unseen)


def test_host_without_gpu_says_so_first() -> None:
    findings = findings_of(BASES["no-gpu"])
    errors = [item.id for item in findings.values() if item.outcome is Outcome.FAIL and item.counts]
    assert "gpu.not-on-bus" in errors
    assert len(errors) <= 3
