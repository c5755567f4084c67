"""Exit codes mean an action. One enum, one precedence, one pure function."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """Documented in the README from these lines."""

    HEALTHY = 0
    """healthy, or fixed and verified"""
    FINDINGS = 1
    """findings at or above --fail-on"""
    USAGE = 2
    """usage, bad matrix, bad input file"""
    NO_VERDICT = 3
    """no verdict: what decides could not be seen"""
    NOT_FIXED = 4
    """a step ran and its finding is still there or unverified"""
    STOPPED = 5
    """stopped at a consent or a reboot; run again"""
    SMOKE_FAILED = 6
    """smoke failed"""
    CRASH = 70
    """a defect of the doctor"""
    INTERRUPTED = 130
    """interrupted"""


MEANING = {
    ExitCode.HEALTHY: "healthy, or fixed and verified",
    ExitCode.FINDINGS: "findings at or above `--fail-on`",
    ExitCode.USAGE: "usage, bad matrix, bad input file",
    ExitCode.NO_VERDICT: "no verdict: what decides could not be seen",
    ExitCode.NOT_FIXED: "a step ran and its finding is still there or unverified",
    ExitCode.STOPPED: "stopped at a consent or a reboot; run again",
    ExitCode.SMOKE_FAILED: "smoke failed",
    ExitCode.CRASH: "crash: a defect of the doctor",
    ExitCode.INTERRUPTED: "interrupted",
}

PRECEDENCE = (70, 130, 2, 4, 6, 5, 1, 3, 0)
"""Which code wins when several things happened."""


def worst(codes: Iterable[int]) -> ExitCode:
    """The code that wins; HEALTHY when nothing happened."""
    return ExitCode(min(codes, key=PRECEDENCE.index, default=0))


def code_for(verdict: str, unseen: int = 0, fail_on: str = "error") -> ExitCode:
    """broken 1, unknown 3, degraded 0 or 1, healthy 0.

    `fail_on` error: only errors count; warn: a degraded host is 1 as well; unknown: so is a host on which any check
    (`unseen` of them, of whatever severity) could not see.
    """
    if verdict == "broken":
        return ExitCode.FINDINGS
    if fail_on == "unknown" and (unseen or verdict == "unknown"):
        return ExitCode.FINDINGS
    if verdict == "unknown":
        return ExitCode.NO_VERDICT
    if verdict == "degraded" and fail_on in ("warn", "unknown"):
        return ExitCode.FINDINGS
    return ExitCode.HEALTHY
