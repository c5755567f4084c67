"""One host's report (doctor.report/1). Keys are a contract."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor.checks.evaluate import root_causes
from doctor.checks.finding import Finding, Outcome
from doctor.checks.verdict import Verdict
from doctor.facts.identity import HostName, Unseen

SCHEMA = "doctor.report/1"


class Next(msgspec.Struct, frozen=True, kw_only=True):
    """The one thing to do."""

    id: str
    say: str
    command: str | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Findings are ordered by id; `next` comes from the first root cause."""

    schema: str = SCHEMA
    doctor: str
    host: HostName
    judged_as_of: str
    verdict: Verdict
    exit_code: int
    next: Next | None
    findings: list[Finding]
    facts: dict[str, Any]
    unseen: list[Unseen]
    timing_ms: dict[str, int]

    @property
    def roots(self) -> list[Finding]:
        """Unblocked violations, the most severe and lowest in the stack first."""
        return root_causes(self.findings)

    def explained_by(self, id: str) -> list[Finding]:
        """Violations and unseen checks that the finding `id` explains."""
        return [item for item in self.findings if item.blocked_by == id]


def next_step(findings: list[Finding]) -> Next | None:
    """The fix of the first root cause; when nothing failed but an error check could not see, how to see it."""
    for finding in root_causes(findings):
        if finding.fix is not None:
            return Next(id=finding.id, say=finding.fix.say, command=finding.fix.command)
    for finding in findings:
        if finding.outcome is Outcome.UNKNOWN and finding.counts and finding.severity == "error":
            return Next(
                id=finding.id,
                say=f"find out what could not be seen: {finding.message}",
                command=f"doctor explain {finding.id}",  # never the fix of a fault nobody has seen
            )
    return None
