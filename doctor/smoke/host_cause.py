"""The host's finding behind a rung that broke: the ladder says which rung, the check says why and what cures it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from doctor.checks.evaluate import root_causes
from doctor.checks.finding import Citation, Evidence, Finding, Outcome
from doctor.smoke.context import StageFailed
from doctor.smoke.model import fault

if TYPE_CHECKING:
    from doctor.smoke.context import Context


def cause_of(ctx: Context, ids: Sequence[str], areas: Sequence[str] = ()) -> Finding | None:
    """The root of the first of these checks that failed; else the lowest error in these areas; else nothing."""
    for id in ids:
        found = ctx.finding(id)
        if found is not None and found.violated:
            return (ctx.finding(found.blocked_by) if found.blocked_by else None) or found
    errors = [item for item in ctx.findings.values() if item.outcome is Outcome.FAIL]
    return next(
        (item for item in root_causes(errors) if item.id.partition(".")[0] in areas),
        None,
    )


def broken(
    stage: str,
    name: str,
    title: str,
    message: str,
    *,
    want: str,
    cause: Finding | None,
    say: str = "look the error up; the answer is checked against this host",
    command: str | None = None,
    evidence: Sequence[Evidence] = (),
    sources: Sequence[Citation] = (),
    files: Sequence[str] = (),
) -> StageFailed:
    """A rung's failure that points at the host's finding, whose fix becomes its own; without one, where to look."""
    if cause is None:
        return StageFailed(
            fault(
                stage,
                name,
                title,
                message,
                want=want,
                say=say,
                command=command or f"doctor diagnose {shlex.quote(message)}",
                evidence=evidence,
                sources=sources,
            ),
            files=files,
        )
    fix = cause.fix
    said = {item.fact for item in evidence}
    return StageFailed(
        fault(
            stage,
            name,
            title,
            f"{message}; behind it is {cause.id}: {cause.message}",
            want=want,
            say=fix.say if fix else say,
            command=fix.command if fix else f"doctor explain {cause.id}",
            kind=fix.kind if fix else "manual",
            disturbs=fix.disturbs if fix else "none",
            evidence=[*evidence, *(item for item in cause.evidence if item.fact not in said)],
            sources=[*sources, *cause.sources],
            blocked_by=cause.id,
        ),
        files=files,
    )
