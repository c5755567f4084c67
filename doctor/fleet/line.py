"""One host's report as its line in an audit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.checks.finding import Finding, Outcome
from doctor.facts.model import FactUnknown, Known
from doctor.facts.tree import Facts, decode
from doctor.fleet.model import Brief, HostLine, Identity, file_name
from doctor.fleet.trait_list import TRAITS
from doctor.fleet.traits import read_all
from doctor.report.model import Report

_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Of a real GPU; a recording has pseudonyms, which are the same in every recording."""
MESSAGE = 400
"""Characters of a finding's message in a line; the host's report has it whole."""
REASON = 1000


def line_of(
    report: Report,
    name: str,
    groups: Sequence[str] = (),
    seconds: float = 0.0,
    *,
    answered: float | None = None,
    reason: str = "",
) -> HostLine:
    """The line of an audited host. `answered`: when its answer came, in seconds since the epoch of our clock."""
    facts = decode(report.facts)
    found = [_brief(item) for item in _telling(report)]
    return HostLine(
        name=name,
        state="audited",
        reason=reason[:REASON],
        verdict=report.verdict,
        exit_code=report.exit_code,
        groups=list(groups),
        said_name=report.host.name,
        platform=report.host.platform,
        distribution=report.host.distribution,
        findings=found,
        passed=sum(1 for item in report.findings if item.outcome is Outcome.PASS),
        skipped=sum(1 for item in report.findings if item.outcome is Outcome.SKIP),
        unseen=len(report.unseen),
        next=report.next.id if report.next else "",
        traits=read_all(facts, TRAITS),
        identity=_identity(facts, report.host.source, seconds, answered),
        seconds=round(seconds, 3),
        file=file_name(name),
    )


def _telling(report: Report) -> list[Finding]:
    rank = {item.id: place for place, item in enumerate(report.roots)}
    found = [item for item in report.findings if item.outcome not in (Outcome.PASS, Outcome.SKIP)]
    return sorted(found, key=lambda item: (rank.get(item.id, len(rank)), item.id))


def _brief(finding: Finding) -> Brief:
    message = finding.message
    return Brief(
        id=finding.id,
        outcome=finding.outcome,
        severity=finding.severity,
        message=message if len(message) <= MESSAGE else message[: MESSAGE - 1] + "…",
        blocked_by=finding.blocked_by,
        waived=finding.waived,
    )


def _identity(facts: Facts, source: str, seconds: float, answered: float | None) -> Identity | None:
    """None for a recording: it tells nothing of which machine it was."""
    if source != "live":
        return None
    gpus = facts.nvml.gpus
    uuids = list(gpus.value) if isinstance(gpus, Known) else []
    own_kernel = isinstance(facts.host.container, Known) and facts.host.container.value == "none"
    boot = facts.host.boot_id
    return Identity(
        gpus=[uuid for uuid in uuids if _UUID.fullmatch(uuid)],
        boot=boot.value if own_kernel and isinstance(boot, Known) else "",
        ahead=_ahead(facts, seconds, answered),
    )


def _ahead(facts: Facts, seconds: float, answered: float | None) -> int | None:
    """Seconds by which its clock is ahead of ours (behind: negative), beyond what the time of asking leaves open."""
    try:
        now = facts.host.time.value
    except FactUnknown:
        return None
    if not answered:
        return None
    if now > answered + 1:
        return round(now - answered)
    return min(0, round(now + 1 - (answered - seconds)))
