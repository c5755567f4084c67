"""What a smoke run says: one result per rung and the report over them (doctor.smoke/1). Keys are a contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from doctor.checks.finding import Citation, Evidence, Finding, FixAdvice, Outcome, Severity
from doctor.exit_codes import ExitCode
from doctor.facts.identity import HostName
from doctor.report.model import Next

SCHEMA = "doctor.smoke/1"
LADDER = ("driver", "cuda", "nccl", "container", "engine-build", "serve", "tokens", "load")
"""Rungs in order; `--level NAME` runs up to and including NAME."""
CPU_ONLY = "CPU only: says nothing about GPUs"
"""What a report over an engine without a GPU says."""

StageOutcome = Literal["pass", "fail", "skip", "unknown"]
SmokeVerdict = Literal["passed", "failed", "unknown", "interrupted"]


class StageResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one rung found. A failed rung has a finding; a rung that passed with doubts has warnings."""

    name: str
    outcome: StageOutcome
    message: str
    """One sentence, values first."""
    evidence: list[Evidence] = []
    finding: Finding | None = None
    warnings: list[Finding] = []
    numbers: dict[str, Any] = {}
    """Measurements, with the unit in each name."""
    files: list[str] = []
    """Logs and answers kept in the run folder."""
    ms: int = 0


class SmokeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. `stages` has a result per rung that was reached, in order."""

    schema: str = SCHEMA
    doctor: str
    run: str = ""
    """What every process of the run has in its environment, and its folders in their names."""
    host: HostName
    engine: str
    level: str
    note: str | None = None
    verdict: SmokeVerdict
    exit_code: int
    next: Next | None
    stages: list[StageResult]
    left_behind: list[str] = []
    """What could not be cleaned up: processes, ports, segments, folders, GPU memory."""
    cleaned: list[Evidence] = []
    """What was looked at after the cleaning: the memory of each GPU before the run and after it."""
    run_folder: str | None = None
    kept: list[str] = []
    """What --keep left on purpose."""
    timing_ms: dict[str, int] = {}


def passed(
    name: str,
    message: str,
    *,
    evidence: Sequence[Evidence] = (),
    warnings: Sequence[Finding] = (),
    numbers: dict[str, Any] | None = None,
    files: Sequence[str] = (),
) -> StageResult:
    """The rung holds; say what was checked."""
    return StageResult(
        name=name,
        outcome="pass",
        message=message,
        evidence=list(evidence),
        warnings=list(warnings),
        numbers=numbers or {},
        files=list(files),
    )


def failed(
    finding: Finding, *, numbers: dict[str, Any] | None = None, files: Sequence[str] = ()
) -> StageResult:
    """The rung breaks, as the finding says; its id is smoke.<stage>-<fault>."""
    return StageResult(
        name=stage_of(finding.id),
        outcome="fail",
        message=finding.message,
        evidence=finding.evidence,
        finding=finding,
        numbers=numbers or {},
        files=list(files),
    )


def skipped(name: str, reason: str) -> StageResult:
    """Known not to apply to this run."""
    return StageResult(name=name, outcome="skip", message=reason)


def unseen(name: str, reason: str, *, evidence: Sequence[Evidence] = ()) -> StageResult:
    """Could not be tried: no verdict, and no rung above it is climbed."""
    return StageResult(name=name, outcome="unknown", message=reason, evidence=list(evidence))


def fault(
    stage: str,
    fault: str,
    title: str,
    message: str,
    *,
    want: str,
    say: str,
    command: str | None,
    severity: Severity = Severity.ERROR,
    kind: str = "manual",
    disturbs: str = "none",
    evidence: Sequence[Evidence] = (),
    sources: Sequence[Citation] = (),
    blocked_by: str | None = None,
) -> Finding:
    """A finding of a rung: `smoke.<stage>-<fault>`. `blocked_by` is the host's finding behind it, where one is."""
    return Finding(
        id=f"smoke.{stage}-{fault}",
        title=title,
        outcome=Outcome.FAIL if severity is Severity.ERROR else Outcome.WARN,
        severity=severity,
        message=message,
        blocked_by=blocked_by,
        evidence=list(evidence),
        want=want,
        sources=list(sources),
        fix=FixAdvice(kind=kind, say=say, command=command, disturbs=disturbs),
    )


def stage_of(id: str) -> str:
    """The rung of a smoke finding's id."""
    rest = id.removeprefix("smoke.")
    for name in LADDER:
        if rest.startswith(name + "-"):
            return name
    raise ValueError(f"{id} names no rung")


def verdict_of(stages: Sequence[StageResult], *, interrupted: bool = False) -> SmokeVerdict:
    """failed: a rung broke; unknown: a rung could not be tried, or none was; else passed."""
    if interrupted:
        return "interrupted"
    if any(stage.outcome == "fail" for stage in stages):
        return "failed"
    if not stages or any(stage.outcome == "unknown" for stage in stages):
        return "unknown"
    return "passed" if any(stage.outcome == "pass" for stage in stages) else "unknown"


def exit_code_of(verdict: SmokeVerdict) -> ExitCode:
    """passed 0, failed 6, unknown 3, interrupted 130."""
    return {
        "passed": ExitCode.HEALTHY,
        "failed": ExitCode.SMOKE_FAILED,
        "unknown": ExitCode.NO_VERDICT,
        "interrupted": ExitCode.INTERRUPTED,
    }[verdict]


def next_of(stages: Sequence[StageResult]) -> Next | None:
    """The fix of the rung that broke; for one that could not be tried, how to look."""
    for stage in stages:
        if stage.finding is not None and stage.finding.fix is not None:
            fix = stage.finding.fix
            return Next(id=stage.finding.id, say=fix.say, command=fix.command)
        if stage.outcome == "unknown":
            return Next(
                id=f"smoke.{stage.name}",
                say=f"find out what could not be tried: {stage.message}",
                command="doctor check",
            )
    return None
