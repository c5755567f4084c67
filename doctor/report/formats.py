"""The formats, and the one place that knows which module writes which: each is imported when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doctor.fleet.folder import Audit
    from doctor.report.model import Report
    from doctor.report.text import Look

FORMATS = "text json jsonl junit sarif prometheus html markdown csv".split()
SUFFIXES = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "jsonl",
    ".xml": "junit",
    ".sarif": "sarif",
    ".prom": "prometheus",
    ".html": "html",
    ".md": "markdown",
    ".csv": "csv",
}
"""What a file's name says of its format."""
_LIKE_A_LIBRARY = ("json", "csv")
"""Their modules end in _."""


def of_host(report: Report, format_: str, look: Look) -> str:
    """One host's report; `look` is for text."""
    if format_ == "text":
        from doctor.report import text

        return text.render(report, look)
    name = f"{format_}_" if format_ in _LIKE_A_LIBRARY else format_
    render: Callable[[Report], str] = import_module(f"doctor.report.{name}").render
    return render(report)


def of_fleet(audit: Audit, format_: str, look: Look) -> Iterator[str]:
    """An audit's report in pieces, so that no more than a host of it is in memory."""
    name = f"{format_}_" if format_ in _LIKE_A_LIBRARY else format_
    write: Callable[[Audit, Look], Iterator[str]] = import_module(
        f"doctor.report.fleet.{name}"
    ).write
    return write(audit, look)
