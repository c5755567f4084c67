"""The report as JUnit XML, for CI systems: a suite, a case per check.

A violated error or warning is a failure, a blind spot is an error; what another finding explains or a waiver lifts is
skipped with its reason, so that nothing that was not seen looks like a pass. Notes pass and say so in their output.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from doctor.checks.finding import Finding
from doctor.report.grouping import area, key_of, plain_lines, seen_value
from doctor.report.model import Report
from doctor.report.plain import escape

TOTALS = ("tests", "failures", "errors", "skipped")


def render(report: Report) -> str:
    """The document with its XML declaration."""
    root = ET.Element("testsuites", name="gpu-host-doctor")
    suite = _suite(root, report)
    for total in TOTALS:
        root.set(total, suite.get(total, "0"))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _suite(root: ET.Element, report: Report) -> ET.Element:
    name = escape(report.host.name)
    suite = ET.SubElement(root, "testsuite", name=name, hostname=name)
    properties = ET.SubElement(suite, "properties")
    said = {
        "verdict": report.verdict,
        "exit_code": str(report.exit_code),
        "judged_as_of": report.judged_as_of,
        "doctor": report.doctor,
        "platform": report.host.platform,
        "distribution": report.host.distribution,
    }
    if report.next is not None:
        said["next"] = report.next.say
    for key, value in said.items():
        ET.SubElement(properties, "property", name=key, value=escape(value))
    for finding in report.findings:
        add_case(suite, finding)
    count(suite)
    if report.unseen:
        lines = [f"{escape(item.fact)}: {escape(item.reason)}" for item in report.unseen]
        ET.SubElement(suite, "system-out").text = "\n".join(["Facts not seen:", *lines])
    return suite


def count(suite: ET.Element) -> None:
    """Say of a suite how many cases it has and what they came to."""
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for total, tag in zip(TOTALS[1:], ("failure", "error", "skipped"), strict=True):
        suite.set(total, str(sum(case.find(tag) is not None for case in cases)))


def add_case(suite: ET.Element, finding: Finding) -> None:
    """A finding as a case."""
    case = ET.SubElement(suite, "testcase", classname=area(finding), name=finding.id)
    message = escape(finding.message)
    key = key_of(finding)
    if key in ("fail", "warn"):
        said = ET.SubElement(case, "failure", type=finding.severity.value, message=message)
        said.text = _details(finding)
    elif key == "unknown":
        said = ET.SubElement(case, "error", type="unknown", message=f"not seen: {message}")
        said.text = _details(finding)
    elif key == "note":
        ET.SubElement(case, "system-out").text = f"note: {message}\n{_details(finding)}"
    elif key != "pass":
        why = {
            "explained": f"explained by {finding.blocked_by}: ",
            "waived": f"waived ({escape(finding.waived or '')}): ",
        }.get(key, "")
        ET.SubElement(case, "skipped", message=why + message)


def _details(finding: Finding) -> str:
    lines = [escape(finding.title)]
    if finding.want:
        lines.append(f"wanted: {escape(finding.want)}")
    if finding.fix is not None and finding.violated:
        lines.append(f"fix (disturbs: {finding.fix.disturbs}): {escape(finding.fix.say)}")
        lines += [f"  $ {line}" for line in plain_lines(finding.fix.command)]
    for item in finding.evidence:
        via = f"  [{escape(item.via)}]" if item.via else ""
        lines.append(f"read: {escape(item.fact)} = {seen_value(item)}{via}")
    lines += [f"source: {escape(item.url)} ({item.as_of})" for item in finding.sources]
    return "\n".join(lines)
