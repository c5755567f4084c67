"""Findings that an owner lives with until a day. An expired or malformed waiver is an error; some rules cannot be waived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

import msgspec

from doctor.checks.finding import Finding
from doctor.errors import UsageError

NEVER = frozenset(
    {"gpu.not-on-bus", "driver.not-installed", "cuda.init-failed", "driver.library-mismatch"}
)
"""Without these nothing runs, so there is nothing to live with."""


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One decision."""

    id: str
    reason: str
    owner: str
    expires: date


class Waivers:
    """All waivers of a run."""

    def __init__(self, entries: Iterable[Waiver]) -> None:
        self._by_id = {entry.id: entry for entry in entries}

    def apply(self, findings: Sequence[Finding], as_of: date) -> list[Finding]:
        """Findings with `waived` set. UsageError for an expired waiver, an id that no check has, or a rule that stands."""
        known = {finding.id for finding in findings}
        for entry in self._by_id.values():
            if entry.expires < as_of:
                raise UsageError(
                    f"the waiver of {entry.id} by {entry.owner} expired on {entry.expires}",
                    "renew it with a reason, or remove it",
                )
            if entry.id in NEVER:
                raise UsageError(f"{entry.id} cannot be waived", "remove the waiver")
            if entry.id not in known:
                raise UsageError(f"no check is called {entry.id}", "see doctor check --list")
        return [self._one(finding) for finding in findings]

    def _one(self, finding: Finding) -> Finding:
        entry = self._by_id.get(finding.id)
        if entry is None:
            return finding
        return msgspec.structs.replace(
            finding, waived=f"{entry.reason} ({entry.owner}, until {entry.expires})"
        )


def read(file: Path) -> Waivers:
    """A YAML list of {id, reason, owner, expires}; UsageError names the file and what is wrong."""
    import yaml

    try:
        entries = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = msgspec.convert(entries or [], list[Waiver])
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a readable file") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"{file}: {first}", "a waiver has id, reason, owner and expires (a date)"
        ) from None
    for entry in found:
        if not entry.reason.strip() or not entry.owner.strip():
            raise UsageError(
                f"{file}: the waiver of {entry.id} has no reason or owner",
                "say why, and who decided",
            )
    return Waivers(found)
