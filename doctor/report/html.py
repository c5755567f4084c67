"""The report as one HTML file that needs nothing else: no request leaves it, and only its own script and style may run.

Whatever a host says goes through autoescaping after its control characters were spelled out.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.checks.finding import Outcome
from doctor.report.grouping import TITLES, counts, groups, plain_lines, seen_value
from doctor.report.model import Report
from doctor.report.plain import escape
from doctor.report.text import VERDICTS, Look, mark_of

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = Path(__file__).with_name("assets")
FOLDED = ("explained", "pass", "skip")
"""Groups that are there but not shown until asked for."""
OUTCOME_MARKS = {outcome.value: mark_of(outcome, Look()).lower() for outcome in Outcome}
VERDICT_MARKS = {name: glyph for name, (_, glyph, _) in VERDICTS.items()}


def render(report: Report) -> str:
    """The page: verdict, next step, then the findings by what they mean."""
    return page(
        "report.html.j2",
        ("report.css",),
        "report.js",
        report=report,
        groups=groups(report),
        counts=counts(report),
        title=f"{report.host.name}: {report.verdict}",
        titles=TITLES,
        folded=FOLDED,
        marks=OUTCOME_MARKS,
        verdict_marks=VERDICT_MARKS,
        version=report.doctor,
    )


def page(template: str, styles: Sequence[str], script: str, **said: Any) -> str:
    """A template with our own style and script in it and their digests in its policy."""
    css, code = "".join(map(asset, styles)), asset(script)
    ours = {
        "style": css,
        "script": code,
        "style_hash": _digest(css),
        "script_hash": _digest(code),
    }
    return _environment().from_string(asset(template)).render(**said, **ours)


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


def asset(name: str) -> str:
    """A file of ours."""
    return (ASSETS / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
