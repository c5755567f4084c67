"""The report as JSON lines, for log pipelines: one verdict, then a line per finding, then one per unseen fact.

Every line is ASCII, so that no separator inside a host's text can split it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from doctor.report.model import Report


def render(report: Report) -> str:
    """Each line says its schema (doctor.verdict/1, doctor.finding/1, doctor.unseen/1) and its host."""
    return "\n".join(json.dumps(line, ensure_ascii=True) for line in _lines(report))


def _lines(report: Report) -> Iterator[dict[str, Any]]:
    whose = {"host": report.host.name, "judged_as_of": report.judged_as_of}
    yield {
        "schema": "doctor.verdict/1",
        **whose,
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "next": msgspec.to_builtins(report.next),
    }
    for finding in report.findings:
        yield {"schema": "doctor.finding/1", **whose, **msgspec.to_builtins(finding)}
    for unseen in report.unseen:
        yield {"schema": "doctor.unseen/1", **whose, **msgspec.to_builtins(unseen)}
