"""The report as a table for spreadsheets: a row per finding and per unseen fact.

No cell of a host can start a formula: whatever a spreadsheet would compute gets an apostrophe first.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from doctor.checks.finding import Finding
from doctor.report.model import Report
from doctor.report.plain import escape

COLUMNS = (
    "host verdict record id outcome severity message want blocked_by waived "
    "fix_class fix fix_command disturbs sources judged_as_of"
).split()
_STARTS_A_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""The ASCII characters and their full-width twins (OWASP, CSV injection)."""


def render(report: Report) -> str:
    """A header and the rows, every cell quoted."""
    whose = {
        "host": report.host.name,
        "verdict": report.verdict,
        "judged_as_of": report.judged_as_of,
    }
    return "".join(table(COLUMNS, ({**whose, **row} for row in _rows(report))))


def table(columns: Sequence[str], rows: Iterable[dict[str, str]]) -> Iterator[str]:
    """The header, then each row; what a row lacks is empty."""
    line = io.StringIO()
    writer = csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([cell(row.get(column, "")) for column in columns])
        if line.tell() > 65536:
            yield line.getvalue()
            line.seek(0)
            line.truncate()
    yield line.getvalue()


def _rows(report: Report) -> Iterator[dict[str, str]]:
    for item in report.findings:
        yield row_of(item)
    for unseen in report.unseen:
        yield {
            "record": "unseen",
            "id": unseen.fact,
            "outcome": "unknown",
            "message": unseen.reason,
        }


def row_of(item: Finding) -> dict[str, str]:
    """A finding as a row."""
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
    return row


def cell(text: str) -> str:
    """The text, so that a spreadsheet computes nothing of it."""
    if not text:
        return ""
    shown = escape(text)
    return f"'{shown}" if shown.lstrip().startswith(_STARTS_A_FORMULA) else shown
