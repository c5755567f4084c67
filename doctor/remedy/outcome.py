"""How a fix ended (doctor.fix/1): one of five statuses for every step and finding, and the exit code. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from doctor.checks.finding import Finding, Outcome
from doctor.exit_codes import ExitCode, worst
from doctor.report.model import Report
from doctor.smoke.model import SmokeReport

SCHEMA = "doctor.fix/1"
Status = Literal["planned", "not-applied", "failed", "unverified", "verified"]
GRAVITY: tuple[Status, ...] = ("failed", "unverified", "planned", "not-applied", "verified")
"""Of several findings of a step, the first of these is the step's."""


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One step. planned: not reached; not-applied: left out; verified: a fresh probe passes its checks."""

    id: str
    remedy: str | None
    status: Status
    say: str
    findings: list[str] = []
    disturbs: str = "none"
    changed: int = 0
    ran: bool = False
    reboot: str | None = None
    failures: list[str] = []
    diffs: list[str] = []
    command: str | None = None


class FindingOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One finding that was planned for."""

    id: str
    status: Status
    say: str
    command: str | None = None


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """Why the run did not go on."""

    why: str
    allow: str | None = None
    command: str | None = None
    rebooting: bool = False


class FixReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done and how the host stands now."""

    schema: str = SCHEMA
    run: str
    dry_run: bool = False
    exit_code: int
    verdict_before: str
    verdict_after: str
    steps: list[StepOutcome]
    findings: list[FindingOutcome]
    stopped: list[Stopped] = []
    interrupted: bool = False
    smoke: SmokeReport | None = None
    """The proof on the ladder; None where it was left out."""
    no_smoke: str | None = None
    """Why it was left out."""
    report: Report


def finding_status(finding: Finding | None, waits: bool) -> tuple[Status, str]:
    """What a fresh look says of a finding whose step ran. `waits`: its step takes effect with a reboot."""
    if finding is None:
        return "unverified", "the check did not run"
    if finding.outcome is Outcome.PASS:
        return "verified", finding.message
    if waits:
        return "unverified", f"takes effect with a reboot: {finding.message}"
    if finding.violated:
        return "failed", f"still there: {finding.message}"
    said = "no longer applies" if finding.outcome is Outcome.SKIP else "could not be seen"
    return "unverified", f"{said}: {finding.message}"


def step_status(statuses: Iterable[Status]) -> Status:
    """The gravest."""
    return min(statuses, key=GRAVITY.index, default="unverified")


def exit_code(
    report_code: int,
    steps: Sequence[StepOutcome],
    stopped: Sequence[Stopped],
    *,
    dry_run: bool = False,
    interrupted: bool = False,
    smoke: SmokeReport | None = None,
) -> ExitCode:
    """4: a step ran and its finding is still there or unverified; 5: stopped. What only waits for a reboot is 5, not 4."""
    if dry_run:
        return ExitCode(report_code)
    codes = [report_code, *([smoke.exit_code] if smoke is not None else [])]
    waits = any(item.rebooting or item.allow == "reboot" for item in stopped)
    for step in steps:
        tried = step.status == "failed" or (step.ran and step.status == "unverified")
        if tried and not (waits and step.reboot and step.status == "unverified"):
            codes.append(ExitCode.NOT_FIXED)
    if stopped:
        codes.append(ExitCode.STOPPED)
    if interrupted:
        codes.append(ExitCode.INTERRUPTED)
    return worst(codes)
