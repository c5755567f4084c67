"""At least 70% of the error findings that software can cure are cured by a role, each on an Ubuntu and a Rocky stand-in; the rest says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from doctor.checks.base import all_checks, fix_class
from doctor.checks.finding import Severity
from doctor.plan.remedy import remedies
from tests.playbooks import test_fix, test_roles
from tests.playbooks.cures import FAMILIES, cures

REVIEWED: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "curable.yml").read_text()
)
CHECKS = all_checks()
VERDICTS = {"role", "manual", "excluded"}


def test_every_error_is_reviewed_and_nothing_else() -> None:
    errors = {ident for ident, check in CHECKS.items() if check.severity is Severity.ERROR}
    assert errors == set(REVIEWED)
    assert list(REVIEWED) == sorted(REVIEWED)


def test_each_has_one_verdict_with_a_reason() -> None:
    for ident, verdict in REVIEWED.items():
        assert len(VERDICTS & set(verdict)) == 1, ident
        assert set(verdict) <= VERDICTS | (set(FAMILIES.values()) if "role" in verdict else set())
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


@pytest.mark.parametrize("family", sorted(set(FAMILIES.values())))
def test_what_a_role_cures_is_cured_on_a_stand_in_or_says_why_not(family: str) -> None:
    shown = cures([test_fix, test_roles])
    for ident, verdict in REVIEWED.items():
        if "role" in verdict:
            assert (family in shown.get(ident, {})) is (family not in verdict), ident
