"""Reports as SARIF 2.1.0, for code-scanning dashboards: one run, a rule per check, a result per violation and blind spot.

Passes and skips are counted, not listed: viewers that ignore `kind` would show them as alerts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.report.grouping import area, counts, key_of, plain_lines, seen_value
from doctor.report.model import Report
from doctor.report.plain import escape

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.INFO: "note"}


def render(reports: Sequence[Report]) -> str:
    """The log, as ASCII JSON."""
    rules = _rules(reports)
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    driver = {"name": "gpu-host-doctor", "rules": rules}
    if reports:
        driver["version"] = reports[0].doctor
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(report) for report in reports],
        "results": [
            _result(finding, report, places[finding.id])
            for report in reports
            for finding in report.findings
            if finding.outcome not in (Outcome.PASS, Outcome.SKIP)
        ],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rules(reports: Sequence[Report]) -> list[dict[str, Any]]:
    first: dict[str, Finding] = {}
    for report in reports:
        for finding in report.findings:
            first.setdefault(finding.id, finding)
    return [_rule(first[id]) for id in sorted(first)]


def _rule(finding: Finding) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": finding.id,
        "shortDescription": {"text": _message(finding.title)},
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
        "properties": {"tags": [area(finding)]},
    }
    links = [item for item in finding.sources if item.url.startswith(("https://", "http://"))]
    if links:
        rule["helpUri"] = links[0].url
        said = [f"{item.url} ({item.id}, {item.as_of})" for item in finding.sources]
        rule["help"] = {"text": _message("Sources: " + ", ".join(said))}
    return rule


def _result(finding: Finding, report: Report, place: int) -> dict[str, Any]:
    kind, level, said = _judged(finding)
    fingerprint = hashlib.sha256(f"{report.host.name}\0{finding.id}".encode("utf-8", "replace"))
    result: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": place,
        "kind": kind,
        "level": level,
        "message": {"text": _message(said + finding.message)},
        "locations": [{"logicalLocations": [_host(report)]}],
        "partialFingerprints": {"doctorHostFinding/v1": fingerprint.hexdigest()},
        "properties": _properties(finding),
    }
    if finding.waived is not None:
        waiver = {"kind": "external", "status": "accepted", "justification": escape(finding.waived)}
        result["suppressions"] = [waiver]
    return result


def _judged(finding: Finding) -> tuple[str, str, str]:
    """kind, level and what the message opens with. A kind other than fail has no level."""
    if finding.blocked_by is not None:
        kind = "open" if finding.outcome is Outcome.UNKNOWN else "informational"
        return kind, "none", f"Explained by {finding.blocked_by}: "
    if finding.outcome is Outcome.UNKNOWN:
        return "open", "none", "Not seen: "
    return "fail", _LEVELS[finding.severity], ""


def _host(report: Report) -> dict[str, Any]:
    name = escape(report.host.name)
    return {"name": name, "fullyQualifiedName": name, "kind": "resource"}


def _properties(finding: Finding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "outcome": finding.outcome.value,
        "severity": finding.severity.value,
        "group": key_of(finding),
        **({"want": escape(finding.want)} if finding.want else {}),
        **({"blockedBy": finding.blocked_by} if finding.blocked_by else {}),
        "evidence": [
            {"fact": escape(item.fact), "value": seen_value(item), "via": escape(item.via)}
            for item in finding.evidence
        ],
        **(
            {
                "fix": {
                    "class": fix.kind,
                    "say": escape(fix.say),
                    "command": "\n".join(plain_lines(fix.command)),
                    "disturbs": fix.disturbs,
                }
            }
            if fix is not None and finding.violated
            else {}
        ),
    }


def _invocation(report: Report) -> dict[str, Any]:
    return {
        "executionSuccessful": True,
        "exitCode": report.exit_code,
        "machine": escape(report.host.name),
        "toolExecutionNotifications": [
            {
                "level": "note",
                "message": {"text": _message(f"Fact not seen: {item.fact}: {item.reason}")},
            }
            for item in report.unseen
        ],
        "properties": {
            "verdict": report.verdict,
            "judgedAsOf": report.judged_as_of,
            "counts": counts(report),
        },
    }


def _message(text: str) -> str:
    """Plain text in which nothing is a link or a placeholder (SARIF 2.1.0, 3.11.5 and 3.11.6)."""
    shown = escape(text)
    if "](" in shown:
        shown = re.sub(r"([\\\[\]])", r"\\\1", shown)
    return re.sub(r"\{(\d+)\}", r"{{\1}}", shown)
