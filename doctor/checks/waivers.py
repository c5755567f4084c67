"""A site's decisions: findings that an owner lives with until a day, and warnings that are errors here.

An expired or malformed waiver is an error; some rules cannot be waived. In a fleet a decision may be for some hosts: globs over
inventory names and groups, never over what a host calls itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.errors import UsageError
from doctor.matrix.row import Waiver

NEVER = frozenset(
    {"gpu.not-on-bus", "driver.not-installed", "cuda.init-failed", "driver.library-mismatch"}
)
"""Without these nothing runs, so there is nothing to live with."""


class Raised(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Warnings that are errors at this site: a security floor, an end of life."""

    id: str
    """Glob over check ids."""
    reason: str
    owner: str
    hosts: list[str] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    waivers: list[Waiver] = []
    errors: list[Raised] = []


class Waivers:
    """All decisions of a run."""

    def __init__(self, entries: Iterable[Waiver], raised: Iterable[Raised] = ()) -> None:
        self._entries = tuple(entries)
        self._raised = tuple(raised)

    def __add__(self, others: Iterable[Waiver]) -> Waivers:
        return Waivers((*self._entries, *others), self._raised)

    def apply(
        self,
        findings: Sequence[Finding],
        as_of: date,
        names: Sequence[str] = (),
        every: Callable[[], Iterable[str]] = tuple,
    ) -> list[Finding]:
        """Findings as the site takes them. `names`: what the host is called and the groups it is in; `every`: ids of all checks,
        asked where not all were run.

        UsageError for an expired waiver, an id that no check has, or a rule that stands, whomever it is for.
        """
        self._validate(_Known({finding.id for finding in findings}, every), as_of)
        raised = [entry for entry in self._raised if _is_for(entry.hosts, names)]
        waived = {
            entry.id: entry
            for entry in sorted(self._entries, key=lambda entry: entry.expires)
            if _is_for(entry.hosts, names)
        }
        return [_waived(_raised(item, raised), waived.get(item.id)) for item in findings]

    def _validate(self, known: _Known, as_of: date) -> None:
        for entry in self._entries:
            if entry.expires < as_of:
                raise UsageError(
                    f"the waiver of {entry.id} by {entry.owner} expired on {entry.expires}",
                    "renew it with a reason, or remove it",
                )
            if entry.id in NEVER:
                raise UsageError(f"{entry.id} cannot be waived", "remove the waiver")
            if not known.has(entry.id.__eq__):
                raise UsageError(f"no check is called {entry.id}", "see doctor check --list")
        for raised in self._raised:
            if not known.has(partial(_matches, raised.id)):
                raise UsageError(f"no check is called like {raised.id}", "see doctor check --list")


class _Known:
    """Ids of checks; those that were not run are only looked up when needed."""

    def __init__(self, run: Iterable[str], every: Callable[[], Iterable[str]]) -> None:
        self._run = set(run)
        self._every = every

    def has(self, fits: Callable[[str], bool]) -> bool:
        """Whether any check's id fits."""
        return any(map(fits, self._run)) or any(map(fits, self._every()))


def _matches(glob: str, id: str) -> bool:
    return fnmatchcase(id, glob)


def _is_for(globs: Sequence[str], names: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for name in names for glob in globs)


def _raised(finding: Finding, raised: Sequence[Raised]) -> Finding:
    if finding.severity is Severity.ERROR:
        return finding
    if not any(fnmatchcase(finding.id, entry.id) for entry in raised):
        return finding
    outcome = Outcome.FAIL if finding.outcome is Outcome.WARN else finding.outcome
    return msgspec.structs.replace(finding, severity=Severity.ERROR, outcome=outcome)


def _waived(finding: Finding, entry: Waiver | None) -> Finding:
    if entry is None:
        return finding
    return msgspec.structs.replace(
        finding, waived=f"{entry.reason} ({entry.owner}, until {entry.expires})"
    )


def read(file: Path) -> Waivers:
    """A YAML list of {id, reason, owner, expires, hosts}, or {waivers: that list, errors: [{id, reason, owner, hosts}]}.

    UsageError names the file and what is wrong.
    """
    import yaml

    try:
        found = _parsed(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a readable file") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"{file}: {first}", "a waiver has id, reason, owner and expires (a date)"
        ) from None
    decisions: list[Waiver | Raised] = [*found.waivers, *found.errors]
    for decision in decisions:
        if not decision.reason.strip() or not decision.owner.strip():
            raise UsageError(
                f"{file}: the entry of {decision.id} has no reason or owner",
                "say why, and who decided",
            )
    return Waivers(found.waivers, found.errors)


def _parsed(content: Any) -> _File:
    if isinstance(content, dict):
        return msgspec.convert(content, _File)
    return _File(waivers=msgspec.convert(content or [], list[Waiver]))
