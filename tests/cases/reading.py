"""A public report as a description of its host, and what a doctor must say of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from doctor.checks.evaluate import root_causes
from doctor.checks.finding import Finding, Outcome
from tests.checks.harness import findings_of, merged

HERE = Path(__file__).resolve().parent


class FixWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Classes that are right for the fix (auto is, once a role answers) and words it must hold."""

    classes: list[str] = msgspec.field(name="class")
    words: list[str] = []


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must come first, and how the same host looks without the fault."""

    root: str
    outcome: str
    fix: FixWords
    words: list[str] = []
    healthy: dict[str, Any]
    mutations: list[dict[str, Any]]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One case."""

    id: str
    description: dict[str, Any]
    expected: Expected

    def twin(self) -> dict[str, Any]:
        """The same host, fault removed."""
        found: dict[str, Any] = merged(self.description, self.expected.healthy)
        return found

    def mutated(self) -> list[dict[str, Any]]:
        """The same fault on another distribution, GPU or version."""
        return [merged(self.description, delta) for delta in self.expected.mutations]


@cache
def reports() -> dict[str, Report]:
    """Every case by id."""
    found = {}
    for folder in sorted(path for path in HERE.iterdir() if (path / "expected.yml").is_file()):
        description = yaml.safe_load((folder / "description.yml").read_text(encoding="utf-8"))
        raw = yaml.safe_load((folder / "expected.yml").read_text(encoding="utf-8"))
        expected = msgspec.convert(raw, Expected)
        found[folder.name] = Report(id=folder.name, description=description, expected=expected)
    return found


def roots(description: dict[str, Any]) -> list[Finding]:
    """Unblocked violations, the first first."""
    return root_causes(findings_of(description).values())


def errors(description: dict[str, Any]) -> list[Finding]:
    """Checks of severity error that failed, blocked or not."""
    return [item for item in findings_of(description).values() if item.outcome is Outcome.FAIL]


def first(description: dict[str, Any]) -> Finding | None:
    """What the doctor says first; info comes last and only where nothing else is wrong."""
    found = roots(description)
    return found[0] if found else None


def told(finding: Finding | None) -> str:
    """A finding in one line."""
    if finding is None:
        return "nothing"
    fix = f" | fix: {finding.fix.say} `{finding.fix.command}`" if finding.fix else ""
    return f"{finding.id} ({finding.outcome.value}): {finding.message}{fix}"
