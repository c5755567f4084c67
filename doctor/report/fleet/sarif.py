"""The audit as SARIF 2.1.0, for code-scanning dashboards: one run, a rule per fault, a result per host that has it.

What another finding of the host explains is left to the host's own report; waived findings are suppressed results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from doctor.checks.finding import Outcome
from doctor.fleet.folder import Audit
from doctor.fleet.model import AcrossHosts, FleetReport, HostLine
from doctor.report.fleet.summary import broken_rules, told
from doctor.report.plain import escape
from doctor.report.sarif import LEVELS, SCHEMA, location, message, result_of, rule_of
from doctor.report.text import Look


def write(audit: Audit, _: Look) -> Iterator[str]:
    """The log, as ASCII JSON; a result a line."""
    fleet = audit.fleet
    rules = _rules(fleet)
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    driver = {"name": "gpu-host-doctor", "version": fleet.doctor, "rules": rules}
    yield f'{{"$schema": {json.dumps(SCHEMA)}, "version": "2.1.0", "runs": [{{\n'
    yield f'"tool": {json.dumps({"driver": driver})},\n"columnKind": "unicodeCodePoints",\n'
    yield f'"automationDetails": {json.dumps({"id": f"doctor/{escape(fleet.audit)}"})},\n'
    yield f'"invocations": [{json.dumps(_invocation(audit))}],\n"results": ['
    opener = "\n"
    for result in _results(audit, places):
        yield f"{opener}{json.dumps(result)}"
        opener = ",\n"
    yield "\n]}]}\n"


def _rules(fleet: FleetReport) -> list[dict[str, Any]]:
    across = {item.id: item for item in broken_rules(fleet)}
    return [
        *(rule_of(item) for item in fleet.by_finding),
        *(rule_of(item) for item in across.values()),
        *([_OUTLIER] if fleet.outliers else []),
    ]


_OUTLIER = {
    "id": "fleet.outlier",
    "shortDescription": {"text": "A host is like those it should be like"},
    "defaultConfiguration": {"level": "warning"},
    "properties": {"tags": ["fleet"]},
}


def _results(audit: Audit, places: dict[str, int]) -> Iterator[dict[str, Any]]:
    for line, report in audit.reports():
        for finding in told(line, report):
            if finding.blocked_by is None:
                yield result_of(finding, line.name, places.get(finding.id))
    for rule in broken_rules(audit.fleet):
        yield _across(rule, places[rule.id])
    for item in audit.fleet.outliers:
        text = f"{item.trait} is {item.value}; usual in {item.group}: {item.usual}"
        yield {
            "ruleId": "fleet.outlier",
            "ruleIndex": places["fleet.outlier"],
            "kind": "fail",
            "level": LEVELS[item.severity],
            "message": {"text": message(text)},
            "locations": [{"logicalLocations": [location(item.host)]}],
            "properties": {"trait": item.trait, "share": item.share},
        }


def _across(rule: AcrossHosts, place: int) -> dict[str, Any]:
    seen = rule.outcome is not Outcome.UNKNOWN
    hosts = sorted({host for found in rule.values.values() for host in found})
    return {
        "ruleId": rule.id,
        "ruleIndex": place,
        "kind": "fail" if seen else "open",
        "level": LEVELS[rule.severity] if seen else "none",
        "message": {"text": message(f"{rule.group}: {rule.message}")},
        "locations": [{"logicalLocations": [location(host)]} for host in hosts],
        "properties": {"values": {escape(key): len(found) for key, found in rule.values.items()}},
    }


def _invocation(audit: Audit) -> dict[str, Any]:
    """One for the audit: hosts that could not be audited are its notifications, so that their absence shows."""
    fleet = audit.fleet
    lost = [_lost(line) for line in audit.lines() if line.state != "audited"]
    said: dict[str, Any] = {
        "executionSuccessful": bool(fleet.finished) and not lost,
        "exitCode": fleet.exit_code,
        "toolExecutionNotifications": lost,
        "properties": {
            "verdict": fleet.verdict,
            "judgedAsOf": fleet.judged_as_of,
            "counts": fleet.counts,
        },
    }
    return said


def _lost(line: HostLine) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": message(f"{line.name} was not audited: {line.state}: {line.reason}")},
        "locations": [{"logicalLocations": [location(line.name)]}],
    }
