"""Reports as a table for spreadsheets: a row per finding and per unseen fact.

No cell of a host can start a formula: whatever a spreadsheet would compute gets an apostrophe first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from doctor.report.model import Report
from doctor.report.plain import escape

COLUMNS = (
    "host verdict record id outcome severity message want blocked_by waived "
    "fix_class fix fix_command disturbs sources judged_as_of"
).split()
_STARTS_A_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""The ASCII characters and their full-width twins (OWASP, CSV injection)."""


def render(reports: Sequence[Report]) -> str:
    """A header and the rows, every cell quoted."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    for report in reports:
        whose = {
            "host": report.host.name,
            "verdict": report.verdict,
            "judged_as_of": report.judged_as_of,
        }
        for row in _rows(report):
            writer.writerow({key: _cell(value) for key, value in {**whose, **row}.items()})
    return out.getvalue()


def _rows(report: Report) -> Iterator[dict[str, str]]:
    for item in report.findings:
        row = {
            "record": "finding",
            "id": item.id,
            "outcome": item.outcome.value,
            "severity": item.severity.value,
            "message": item.message,
            "want": item.want or "",
            "blocked_by": item.blocked_by or "",
            "waived": item.waived or "",
            "sources": " ".join(source.url for source in item.sources),
        }
        if item.fix is not None and item.violated:
            row |= {
                "fix_class": item.fix.kind,
                "fix": item.fix.say,
                "fix_command": item.fix.command or "",
                "disturbs": item.fix.disturbs,
            }
        yield row
    for unseen in report.unseen:
        yield {
            "record": "unseen",
            "id": unseen.fact,
            "outcome": "unknown",
            "message": unseen.reason,
        }


def _cell(text: str) -> str:
    shown = escape(text)
    return f"'{shown}" if shown.lstrip().startswith(_STARTS_A_FORMULA) else shown
