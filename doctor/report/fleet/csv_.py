"""The audit as a table for spreadsheets: a row per host, per finding that did not pass, per difference, rule and change.

No cell of a host can start a formula: whatever a spreadsheet would compute gets an apostrophe first.
"""

from __future__ import annotations

from collections.abc import Iterator

from doctor.fleet.folder import Audit
from doctor.fleet.model import HostLine
from doctor.report.csv_ import COLUMNS, row_of, table
from doctor.report.fleet.summary import broken_rules, said_change, told, way
from doctor.report.text import Look

FLEET_COLUMNS = (*COLUMNS, "state", "groups")


def write(audit: Audit, _: Look) -> Iterator[str]:
    """The columns of one host's table, then state and groups."""
    return table(FLEET_COLUMNS, _rows(audit))


def _rows(audit: Audit) -> Iterator[dict[str, str]]:
    fleet = audit.fleet
    day = {"judged_as_of": fleet.judged_as_of}
    for line, report in audit.reports():
        yield {**_host(line), **day}
        whose = {"host": line.name, "verdict": line.verdict, "state": line.state, **day}
        for finding in told(line, report):
            yield {**whose, **row_of(finding)}
    for item in fleet.outliers:
        yield {
            "host": item.host,
            "record": "outlier",
            "id": item.trait,
            "outcome": "warn",
            "severity": item.severity.value,
            "message": item.value,
            "want": item.usual,
            "groups": item.group,
            **day,
        }
    for rule in broken_rules(fleet):
        for value, hosts in rule.values.items():
            for host in hosts:
                yield {
                    "host": host,
                    "record": "across",
                    "id": rule.id,
                    "outcome": rule.outcome.value,
                    "severity": rule.severity.value,
                    "message": f"{value}: {rule.message}",
                    "sources": " ".join(source.url for source in rule.sources),
                    "groups": rule.group,
                    **day,
                }
    for change in fleet.changes:
        yield {
            "host": change.host,
            "record": f"change of {change.kind}",
            "id": change.subject,
            "outcome": way(change),
            "message": said_change(change),
            **day,
        }


def _host(line: HostLine) -> dict[str, str]:
    return {
        "host": line.name,
        "verdict": line.verdict,
        "record": "host",
        "id": line.next,
        "message": line.reason,
        "state": line.state,
        "groups": " ".join(line.groups),
    }
