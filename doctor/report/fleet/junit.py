"""The audit as JUnit XML, for CI systems: a suite per host whose first case is whether it could be audited at all.

Then a case for each finding that did not pass, as in one host's report; passes are counted in a property. A last suite has the rules
across hosts and the hosts that differ from their like.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator

from doctor.checks.finding import Outcome, Severity
from doctor.fleet.folder import Audit
from doctor.fleet.model import FleetReport, HostLine
from doctor.report.fleet.summary import differences, some, told
from doctor.report.grouping import key_of
from doctor.report.junit import TOTALS, add_case, count
from doctor.report.model import Report
from doctor.report.plain import escape
from doctor.report.text import Look


def write(audit: Audit, _: Look) -> Iterator[str]:
    """The document; its totals stand first, so the hosts' lines are counted before."""
    together = _together(audit.fleet)
    totals = Counter({total: int(together.get(total, "0")) for total in TOTALS})
    for line in audit.lines():
        totals.update(_expected(line))
    said = " ".join(f'{total}="{totals[total]}"' for total in TOTALS)
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="gpu-host-doctor" {said}>\n'
    for line, report in audit.reports():
        yield _text(_suite(line, report))
    yield _text(together)
    yield "</testsuites>\n"


def _text(suite: ET.Element) -> str:
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode") + "\n"


def _expected(line: HostLine) -> dict[str, int]:
    """What the host's suite will come to, from its line alone."""
    if line.state != "audited":
        return {"tests": 1, "errors": 1}
    keys = Counter(key_of(item) for item in line.findings)
    return {
        "tests": 1 + len(line.findings),
        "failures": keys["fail"] + keys["warn"],
        "errors": keys["unknown"],
        "skipped": keys["explained"] + keys["waived"],
    }


def _suite(line: HostLine, report: Report | None) -> ET.Element:
    name = escape(line.name)
    suite = ET.Element("testsuite", name=name, hostname=name, time=f"{line.seconds:.3f}")
    said = {
        "verdict": line.verdict,
        "state": line.state,
        "exit_code": str(line.exit_code),
        "platform": line.platform,
        "distribution": line.distribution,
        "groups": " ".join(line.groups),
        "passed": str(line.passed),
        "does_not_apply": str(line.skipped),
    }
    properties = ET.SubElement(suite, "properties")
    for key, value in said.items():
        ET.SubElement(properties, "property", name=key, value=escape(value))
    case = ET.SubElement(suite, "testcase", classname="fleet", name="fleet.audited")
    reason = escape(line.reason)
    if line.state != "audited":
        ET.SubElement(case, "error", type=line.state, message=f"{line.state}: {reason}")
    elif reason:
        ET.SubElement(case, "system-out").text = reason
    for finding in told(line, report):
        add_case(suite, finding)
    count(suite)
    return suite


def _together(fleet: FleetReport) -> ET.Element:
    suite = ET.Element("testsuite", name="all hosts")
    for rule in fleet.across:
        case = ET.SubElement(suite, "testcase", classname=escape(rule.group), name=rule.id)
        details = "\n".join(
            [
                escape(rule.title),
                *(escape(f"{value}: {', '.join(hosts)}") for value, hosts in rule.values.items()),
                *(f"source: {escape(item.url)} ({item.as_of})" for item in rule.sources),
            ]
        )
        if rule.outcome is Outcome.UNKNOWN:
            said = ET.SubElement(case, "error", type="unknown", message=escape(rule.message))
            said.text = details
        elif rule.outcome is not Outcome.PASS and rule.severity is not Severity.INFO:
            kind = rule.severity.value
            said = ET.SubElement(case, "failure", type=kind, message=escape(rule.message))
            said.text = details
        else:
            ET.SubElement(case, "system-out").text = escape(rule.message)
    for item in differences(fleet):
        case = ET.SubElement(suite, "testcase", classname="fleet.outlier", name=item.trait)
        message = escape(f"{item.value} (usual: {item.usual}) on {some(item.hosts)}")
        if item.severity is Severity.INFO:
            ET.SubElement(case, "system-out").text = message
        else:
            failure = ET.SubElement(case, "failure", type=item.severity.value, message=message)
            failure.text = "\n".join(map(escape, item.hosts))
    count(suite)
    return suite
