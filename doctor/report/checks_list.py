"""The catalogue of checks, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from doctor.checks.base import Check, fix_class
from doctor.checks.knowledge import Knowledge


def render(checks: Sequence[tuple[Check, Knowledge]], format_: str) -> str:
    """{"checks": [{"id", "title", "severity", "needs", "fix", "sources"}]} as JSON, or one line a check."""
    if format_ == "json":
        entries = [
            {
                "id": item.id,
                "title": item.title,
                "severity": item.severity.value,
                "needs": list(item.needs),
                "fix": {"class": fix_class(item), "disturbs": item.fix.disturbs},
                "sources": [msgspec.to_builtins(knowledge.citation(id)) for id in item.sources],
            }
            for item, knowledge in checks
        ]
        return msgspec.json.format(msgspec.json.encode({"checks": entries}), indent=2).decode()
    widest = max((len(item.id) for item, _ in checks), default=0)
    lines = [f"{item.id:<{widest}}  {item.severity.value:<5}  {item.title}" for item, _ in checks]
    return "\n".join([*lines, f"{len(checks)} checks"])
