"""The audit as JSON lines, for log pipelines: the audit, then each host and what did not pass there, then what several hosts show.

Every line is ASCII, so that no separator inside a host's text can split it. Passes are counted in the host's line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from doctor.fleet.folder import Audit
from doctor.report.fleet.summary import told
from doctor.report.text import Look

_KEPT = ("hosts", "by_finding", "outliers", "across", "likeness", "changes")


def write(audit: Audit, _: Look) -> Iterator[str]:
    """Each line says its schema: doctor.audit/1, doctor.host/1, doctor.finding/1, doctor.outlier/1, doctor.across/1, doctor.change/1."""
    fleet = audit.fleet
    names = [name for name in fleet.__struct_fields__ if name not in (*_KEPT, "schema")]
    yield line_of("doctor.audit/1", {name: getattr(fleet, name) for name in names})
    for line, report in audit.reports():
        yield line_of("doctor.host/1", {"host": line.name}, line)
        for finding in told(line, report):
            yield line_of("doctor.finding/1", {"host": line.name}, finding)
    for outlier in fleet.outliers:
        yield line_of("doctor.outlier/1", {}, outlier)
    for across in fleet.across:
        yield line_of("doctor.across/1", {}, across)
    for change in fleet.changes:
        yield line_of("doctor.change/1", {}, change)


def line_of(schema: str, first: dict[str, Any], rest: msgspec.Struct | None = None) -> str:
    """One line of ASCII; after what comes first, the keys of `rest`."""
    head = msgspec.json.encode({"schema": schema, **first})
    if rest is not None:
        head = head[:-1] + b"," + msgspec.json.encode(rest)[1:]
    if not head.isascii():
        return json.dumps(json.loads(head), ensure_ascii=True) + "\n"
    return head.decode("ascii") + "\n"
