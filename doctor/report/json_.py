"""The report as JSON: the contract for programs."""

from __future__ import annotations

import msgspec

from doctor.report.model import Report


def render(report: Report) -> str:
    """Two-space indented JSON with a stable order of keys."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
