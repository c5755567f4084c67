"""A small report with one finding of each kind, and the same with any text in every place that a host can write to."""

from __future__ import annotations

from doctor.checks.finding import Citation, Evidence, Finding, FixAdvice, Outcome, Severity
from doctor.facts.identity import HostName, Unseen
from doctor.report.formats import FORMATS, of_host
from doctor.report.model import Next, Report
from doctor.report.text import Look

SOURCE = Citation(id="guide", url="https://example.org/guide", as_of="2026-11-30", basis="stated")
SAID = "550.90.07 is loaded"


def report(said: str = SAID, host: str = "gpu-1") -> Report:
    """broken, exit code 1."""
    findings = [
        _finding("cuda.init-failed", Outcome.FAIL, Severity.ERROR, said, blocked_by="driver.skew"),
        _finding("driver.held", Outcome.WARN, Severity.WARN, said, waived=said),
        _finding("driver.skew", Outcome.FAIL, Severity.ERROR, said),
        _finding("gpu.on-bus", Outcome.PASS, Severity.ERROR, said),
        _finding("host.uptime", Outcome.WARN, Severity.INFO, said),
        _finding("kernel.headers", Outcome.WARN, Severity.WARN, said),
        _finding("nccl.cumem", Outcome.UNKNOWN, Severity.ERROR, said),
        _finding("wsl.memory", Outcome.SKIP, Severity.WARN, said),
    ]
    return Report(
        doctor="0",
        host=HostName(name=host, platform="vm", distribution=said if said != SAID else "Ubuntu"),
        judged_as_of="2026-11-30",
        verdict="broken",
        exit_code=1,
        next=Next(id="driver.skew", say=f"mend: {said}", command=f"mend --now\nsay '{said}'"),
        findings=findings,
        facts={},
        unseen=[Unseen(fact="nvml.init", reason=said)],
        timing_ms={"probes": 120},
    )


def _finding(
    id: str,
    outcome: Outcome,
    severity: Severity,
    said: str,
    blocked_by: str | None = None,
    waived: str | None = None,
) -> Finding:
    fix = FixAdvice(kind="manual", say=f"mend {said}", command=f"mend '{said}'", disturbs="gpu")
    return Finding(
        id=id,
        title=f"{id} is as it should be",
        outcome=outcome,
        severity=severity,
        message=said,
        blocked_by=blocked_by,
        evidence=[
            Evidence(fact="driver.loaded", value=said, via=said),
            Evidence(fact="nvml.init", value=None, reason=said),
        ],
        want=f"wanted {said}",
        sources=[SOURCE],
        fix=None if outcome in (Outcome.PASS, Outcome.SKIP) else fix,
        waived=waived,
    )


def render(format_: str, shown: Report) -> str:
    """Any format."""
    return of_host(shown, format_, Look(verbose=True))


__all__ = ["FORMATS", "SAID", "SOURCE", "render", "report"]
