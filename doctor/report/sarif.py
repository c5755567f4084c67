"""The report as SARIF 2.1.0, for code-scanning dashboards: one run, a rule per check, a result per violation and blind spot.

Passes and skips are counted, not listed: viewers that ignore `kind` would show them as alerts.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.fleet.model import AcrossHosts, ByFinding
from doctor.report.grouping import counts, key_of, plain_lines, seen_value
from doctor.report.model import Report
from doctor.report.plain import escape

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.INFO: "note"}


def render(report: Report) -> str:
    """The log, as ASCII JSON."""
    rules = [rule_of(finding) for finding in report.findings]
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "gpu-host-doctor", "rules": rules, "version": report.doctor}},
        "invocations": [invocation(report, report.host.name)],
        "results": [
            result_of(finding, report.host.name, places[finding.id])
            for finding in report.findings
            if finding.outcome not in (Outcome.PASS, Outcome.SKIP)
        ],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def rule_of(finding: Finding | ByFinding | AcrossHosts) -> dict[str, Any]:
    """The claim as a reportingDescriptor."""
    rule: dict[str, Any] = {
        "id": finding.id,
        "shortDescription": {"text": message(finding.title)},
        "defaultConfiguration": {"level": LEVELS[finding.severity]},
        "properties": {"tags": [finding.id.partition(".")[0]]},
    }
    links = [item for item in finding.sources if item.url.startswith(("https://", "http://"))]
    if links:
        rule["helpUri"] = links[0].url
        said = [f"{item.url} ({item.id}, {item.as_of})" for item in finding.sources]
        rule["help"] = {"text": message("Sources: " + ", ".join(said))}
    return rule


def result_of(finding: Finding, host: str, place: int | None) -> dict[str, Any]:
    """A finding of a host; `place` is its rule's, None where the log has no such rule."""
    kind, level, said = _judged(finding)
    fingerprint = hashlib.sha256(f"{host}\0{finding.id}".encode("utf-8", "replace"))
    result: dict[str, Any] = {
        "ruleId": finding.id,
        **({"ruleIndex": place} if place is not None else {}),
        "kind": kind,
        "level": level,
        "message": {"text": message(said + finding.message)},
        "locations": [{"logicalLocations": [location(host)]}],
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
    return "fail", LEVELS[finding.severity], ""


def location(host: str) -> dict[str, Any]:
    """The host as a place."""
    name = escape(host)
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


def invocation(report: Report, host: str) -> dict[str, Any]:
    """The look at one host."""
    return {
        "executionSuccessful": True,
        "exitCode": report.exit_code,
        "machine": escape(host),
        "toolExecutionNotifications": [
            {
                "level": "note",
                "message": {"text": message(f"Fact not seen: {item.fact}: {item.reason}")},
            }
            for item in report.unseen
        ],
        "properties": {
            "verdict": report.verdict,
            "judgedAsOf": report.judged_as_of,
            "counts": counts(report),
        },
    }


def message(text: str) -> str:
    """Plain text in which nothing is a link or a placeholder (SARIF 2.1.0, 3.11.5 and 3.11.6)."""
    shown = escape(text)
    if "](" in shown:
        shown = re.sub(r"([\\\[\]])", r"\\\1", shown)
    return re.sub(r"\{(\d+)\}", r"{{\1}}", shown)
