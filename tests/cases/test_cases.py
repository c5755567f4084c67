"""Forty public reports: the root cause is named first, the healthy twin raises no error, mutations keep the verdict."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import doctor
from tests.cases.reading import Report, errors, first, reports, roots, told

IDS = list(reports())


def words_of(report: Report, description: dict[str, Any]) -> str:
    finding = first(description)
    assert finding is not None
    shown = [finding.message, finding.want or "", finding.title]
    shown += [f"{item.fact} {item.value}" for item in finding.evidence]
    return " ".join(shown)


@pytest.mark.parametrize("id", IDS)
def test_root_cause_is_named_first(id: str) -> None:
    report = reports()[id]
    finding = first(report.description)
    assert finding is not None, "nothing is wrong"
    listed = "\n".join(told(item) for item in roots(report.description)[:8])
    assert finding.id == report.expected.root, listed
    assert finding.outcome.value == report.expected.outcome, listed
    shown = words_of(report, report.description)
    missing = [word for word in report.expected.words if word not in shown]
    assert not missing, f"{missing} not in: {shown}"


@pytest.mark.parametrize("id", IDS)
def test_fix_is_of_its_class_and_says_how(id: str) -> None:
    report = reports()[id]
    finding = first(report.description)
    assert finding is not None
    assert finding.id == report.expected.root
    assert finding.fix is not None
    assert finding.fix.command
    assert finding.fix.kind in (*report.expected.fix.classes, "auto")
    fix = f"{finding.fix.say} {finding.fix.command}"
    missing = [word for word in report.expected.fix.words if word not in fix]
    assert not missing, f"{missing} not in: {fix}"


@pytest.mark.parametrize("id", IDS)
def test_healthy_twin_raises_no_error(id: str) -> None:
    found = errors(reports()[id].twin())
    assert not found, "\n".join(told(item) for item in found)


@pytest.mark.parametrize(("id", "number"), [(id, number) for id in IDS for number in (0, 1)])
def test_mutation_keeps_the_verdict(id: str, number: int) -> None:
    report = reports()[id]
    description = report.mutated()[number]
    finding = first(description)
    listed = "\n".join(told(item) for item in roots(description)[:8])
    assert finding is not None, "nothing is wrong"
    assert (finding.id, finding.outcome.value) == (
        report.expected.root,
        report.expected.outcome,
    ), listed


def test_there_are_forty_reports_with_two_mutations_each() -> None:
    assert len(IDS) == 40
    assert all(len(report.expected.mutations) == 2 for report in reports().values())


def test_says_never_holds_the_finding() -> None:
    for report in reports().values():
        said = str(report.description.get("says", {}))
        assert report.expected.root not in said
        assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", said), said


def test_no_code_reads_the_cases() -> None:
    package = Path(doctor.__file__).resolve().parent
    readers = [
        path
        for path in package.rglob("*.py")
        if re.search(r"tests[/.]cases", path.read_text(encoding="utf-8"))
    ]
    assert not readers


def test_score(capsys: pytest.CaptureFixture[str]) -> None:
    named = 0
    alarms = 0
    lines = []
    for id, report in reports().items():
        finding = first(report.description)
        right = finding is not None and finding.id == report.expected.root
        twin = errors(report.twin())
        kept = sum(
            1
            for description in report.mutated()
            if (found := first(description)) is not None and found.id == report.expected.root
        )
        named += right
        alarms += len(twin)
        says = finding.id if finding else "nothing"
        lines.append(
            f"{'ok' if right else '--'}  {id:52} {says:34} twin {len(twin)}  mutations {kept}/2"
        )
    with capsys.disabled():
        print("\n" + "\n".join(lines))
        print(f"{named} of {len(IDS)} named first, {alarms} false alarms on healthy twins")
    assert named == len(IDS)
    assert alarms == 0


def constants(path: Path) -> str:
    """Every text in a rule that is not documentation."""
    if path.suffix == ".yml":
        return path.read_text(encoding="utf-8")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documented
    ]
    return "\n".join(texts)


def test_no_rule_holds_the_versions_of_one_report() -> None:
    """Thresholds come from the matrix; a version that only a report names must not stand in a rule."""
    versions: set[str] = set()
    for report in reports().values():
        for description in (report.description, report.twin(), *report.mutated()):
            versions |= set(re.findall(r"\d+\.\d+\.\d+(?:[-.\w]*\w)?", str(description)))
    versions.remove("0.7.0")  # the CDI format after which the matrix names a column
    package = Path(doctor.__file__).resolve().parent
    rules = [*(package / "checks").glob("*.py"), *(package.parent / "matrices/rules").glob("*.yml")]
    held = {
        f"{path.name}: {found}"
        for path in rules
        for found in re.findall(r"(?<![\w.])\d+\.\d+\.\d+(?:[-.\w]*\w)?", constants(path))
        if found in versions
    }
    assert not held
