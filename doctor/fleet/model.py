"""What an audit of many hosts says (doctor.fleet/1). Keys are a contract; a host's whole report stays in its own file."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal
from urllib.parse import quote

import msgspec

from doctor.checks.finding import Citation, FixAdvice, Outcome, Severity
from doctor.checks.verdict import Verdict

SCHEMA = "doctor.fleet/1"
SUMMARY = "fleet.json"
"""The audit's own file in its folder, beside one `<host>.json` per host."""
FIX_SUMMARY = "fleet-fix.json"
"""The same of a fix of many hosts."""

State = Literal["audited", "unreachable", "late", "failed", "refused", "not-reached"]
"""What became of a host. audited: a report was made; unreachable: no connection; late: no answer by its deadline; failed: the probe
did not run (no Python, no rights); refused: its answer was not what a probe says (invalid, too large, of another host);
not-reached: the audit ended before its turn."""
FleetVerdict = Literal["healthy", "degraded", "unknown", "partial", "broken"]


class Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A finding of a host that did not pass, without its evidence."""

    id: str
    outcome: Outcome
    severity: Severity
    message: str
    blocked_by: str | None = None
    waived: str | None = None

    @property
    def violated(self) -> bool:
        """As of the finding."""
        return self.outcome in (Outcome.FAIL, Outcome.WARN)

    @property
    def counts(self) -> bool:
        """As of the finding."""
        return self.blocked_by is None and self.waived is None


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What only one machine can have; how two inventory names turn out to be one host."""

    gpus: list[str] = []
    """UUIDs."""
    boot: str = ""
    """Boot id of a host that runs a kernel of its own."""
    ahead: int | None = None
    """Seconds by which its clock is ahead of the auditor's; negative when behind, None when not seen."""


class HostLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One host of an audit. `name` is its inventory name, whatever the host calls itself."""

    name: str
    state: State
    reason: str = ""
    """Why it was not audited; for an audited host what is odd about its answer."""
    verdict: Verdict = "unknown"
    exit_code: int = 3
    groups: list[str] = []
    """Its inventory groups, without all and ungrouped."""
    said_name: str = ""
    """What the host calls itself."""
    platform: str = ""
    distribution: str = ""
    findings: list[Brief] = []
    """What failed, warned or could not be seen, root causes first."""
    passed: int = 0
    skipped: int = 0
    unseen: int = 0
    """Facts that could not be looked at."""
    next: str = ""
    """Id of the finding to begin with."""
    traits: dict[str, str] = {}
    """What hosts that should be alike are compared by: fact path -> its value as text; a trait that was not seen is left out."""
    identity: Identity | None = None
    """None when it was not seen, as of a recording."""
    seconds: float = 0.0
    """From the start of its task to its answer."""
    file: str = ""
    """Its report, relative to the audit's folder."""

    @property
    def standing(self) -> str:
        """How it stands in one word: its verdict, or why it has none."""
        return self.verdict if self.state == "audited" else self.state


class ByFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault and the hosts that have it."""

    id: str
    title: str
    severity: Severity
    outcome: Outcome
    """The worst among the first of the hosts."""
    hosts: list[str]
    """First those on which nothing else explains it and no waiver lifts it; then those on which it could not be seen; then the rest."""
    roots: int
    """How many the first are."""
    unseen: int = 0
    """How many the second are."""
    message: str
    """As said of the first of the hosts."""
    fix: FixAdvice | None
    sources: list[Citation]


class Outlier(msgspec.Struct, frozen=True, kw_only=True):
    """A host that differs from those it should be like."""

    host: str
    group: str
    """Whom it was compared with: an inventory group, `alike: ...` as learned, or `golden: NAME`."""
    trait: str
    value: str
    usual: str
    share: float
    """Part of the group's hosts (of those whose trait was seen) that have the usual value."""
    severity: Severity


class Likeness(msgspec.Struct, frozen=True, kw_only=True):
    """One trait of one group: what is usual, and of how many it was not seen. Hosts that were not seen are not alike."""

    group: str
    trait: str
    title: str
    hosts: int
    """Audited hosts of the group."""
    seen: int
    usual: str
    """Empty when no value is that of most."""
    share: float
    values: dict[str, int]
    """Value -> hosts, the most frequent first; no more than eight."""
    unseen: list[str]
    """Some of the hosts of which it was not seen."""


class AcrossHosts(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that only several hosts together can break."""

    id: str
    title: str
    outcome: Outcome
    severity: Severity
    message: str
    group: str
    values: dict[str, list[str]]
    """Value -> the hosts that have it."""
    sources: list[Citation] = []


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is different from an earlier audit. `before` or `after` is empty where the host or finding was not there."""

    host: str
    kind: Literal["host", "verdict", "finding", "trait"]
    subject: str
    """Finding id, trait, or nothing."""
    before: str
    after: str
    worse: bool


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """The audit: hosts by name, faults by how many hosts they stop."""

    schema: str = SCHEMA
    audit: str
    """Its id, sortable by time."""
    doctor: str
    inventory: str
    started: str
    finished: str
    """ISO 8601, UTC; empty while the audit goes on or was interrupted."""
    judged_as_of: str
    verdict: FleetVerdict
    exit_code: int
    counts: dict[str, int]
    """Hosts by verdict and by state, those of none left out; `hosts` is all."""
    hosts: list[HostLine]
    by_finding: list[ByFinding]
    outliers: list[Outlier]
    across: list[AcrossHosts]
    likeness: list[Likeness] = []
    golden: str = ""
    """What hosts were compared with instead of their majority."""
    before: str = ""
    """The audit that `changes` are since."""
    changes: list[Change] = []


_LONGEST = 240
"""Characters of a file's name; file systems take 255."""


def file_name(host: str) -> str:
    """The report's file of a host: its inventory name percent-encoded, so that no name leaves the folder, hides in it or is a summary's."""
    quoted = quote(host, safe="")
    if quoted.startswith(".") or f"{quoted}.json" in (SUMMARY, FIX_SUMMARY):
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if len(quoted) > _LONGEST:
        quoted = f"{quoted[: _LONGEST - 17]}-{sha256(host.encode()).hexdigest()[:16]}"
    return f"{quoted}.json"


def fleet_verdict(lines: list[HostLine]) -> FleetVerdict:
    """broken as soon as one host is; else partial when a host was not audited; else the worst host's. No hosts: unknown."""
    if not lines:
        return "unknown"
    verdicts = {line.verdict for line in lines if line.state == "audited"}
    if "broken" in verdicts:
        return "broken"
    if any(line.state != "audited" for line in lines):
        return "partial"
    return next(said for said in ("unknown", "degraded", "healthy") if said in verdicts)
