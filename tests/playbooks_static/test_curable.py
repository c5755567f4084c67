"""At least 70% of the error findings that software can cure are cured by a role; the rest says why not."""

from __future__ import annotations

from pathlib import Path

import yaml

from doctor.checks.base import all_checks, fix_class
from doctor.checks.finding import Severity
from doctor.plan.remedy import remedies

REVIEWED: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "curable.yml").read_text()
)
CHECKS = all_checks()


def test_every_error_is_reviewed_and_nothing_else() -> None:
    errors = {ident for ident, check in CHECKS.items() if check.severity is Severity.ERROR}
    assert errors == set(REVIEWED)
    assert list(REVIEWED) == sorted(REVIEWED)


def test_each_has_one_verdict_with_a_reason() -> None:
    for ident, verdict in REVIEWED.items():
        assert len(verdict) == 1 and set(verdict) <= {"role", "manual", "excluded"}, ident
        assert all(verdict.values()), ident


def test_a_role_that_is_named_answers_and_the_finding_is_auto() -> None:
    found = remedies()
    for ident, verdict in REVIEWED.items():
        if "role" in verdict:
            assert ident in found[verdict["role"]].answers, ident
            assert fix_class(CHECKS[ident]) == "auto", ident
        else:
            assert not any(ident in remedy.answers for remedy in found.values()), ident
            assert fix_class(CHECKS[ident]) != "auto", ident


def test_most_of_what_software_can_cure_is_cured() -> None:
    curable = [verdict for verdict in REVIEWED.values() if "excluded" not in verdict]
    cured = [verdict for verdict in curable if "role" in verdict]
    assert len(cured) >= 0.7 * len(curable)
    assert len(curable) >= 30, "exclusions would make it easy"
