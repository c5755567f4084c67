"""Reports as one HTML file that needs nothing else: no request leaves it, and only its own script and style may run.

Whatever a host says goes through autoescaping after its control characters were spelled out.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from doctor.report.grouping import TITLES, Group, counts, groups, plain_lines, seen_value
from doctor.report.model import Report
from doctor.report.plain import escape

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = Path(__file__).with_name("assets")
FOLDED = ("explained", "pass", "skip")
"""Groups that are there but not shown until asked for; of many hosts they are only counted, or no browser opens the page."""
_MARKS = {
    "pass": "✓ pass",
    "fail": "✗ fail",
    "warn": "! warn",
    "unknown": "? unknown",
    "skip": "– n/a",  # noqa: RUF001 - the house's glyph for n/a
}
_VERDICT_MARKS = {"healthy": "✓", "degraded": "!", "broken": "✗", "unknown": "?"}


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    place: int
    report: Report
    groups: list[Group]
    counts: dict[str, int]


def render(reports: Sequence[Report]) -> str:
    """The page: with several hosts a table of them first, then each host with its findings."""
    from markupsafe import Markup

    one = len(reports) == 1
    listed = [key for key in TITLES if one or key not in FOLDED]
    pages = [_page(place, report, listed) for place, report in enumerate(reports, 1)]
    style, script = _asset("report.css"), _asset("report.js")
    title = f"{reports[0].host.name}: {reports[0].verdict}" if one else f"{len(reports)} GPU hosts"
    template = _environment().from_string(_asset("report.html.j2"))
    return template.render(
        pages=pages,
        title=title,
        titles={key: TITLES[key] for key in listed},
        totals={key: sum(page.counts[key] for page in pages) for key in TITLES},
        folded=FOLDED,
        marks=_MARKS,
        verdict_marks=_VERDICT_MARKS,
        version=reports[0].doctor if reports else "",
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        style_hash=Markup(_digest(style)),  # noqa: S704 - base64
        script_hash=Markup(_digest(script)),  # noqa: S704 - base64
    )


def _page(place: int, report: Report, listed: Sequence[str]) -> _Page:
    return _Page(
        place=place,
        report=report,
        groups=[group for group in groups(report) if group.key in listed],
        counts=counts(report),
    )


def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined

    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters["plain"] = escape
    made.filters["command"] = lambda text: "\n".join(plain_lines(text))
    made.filters["seen_value"] = seen_value
    made.filters["is_address"] = is_address
    return made


def is_address(url: str) -> bool:
    """Whether a source's address may become a link: only the web, nothing that runs."""
    return re.fullmatch(r"https?://[!-~]+", url) is not None


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
