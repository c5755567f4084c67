"""After the fix the ladder: whether the host is to be proved now, and how far without disturbing whoever computes on it."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.events import Note
from doctor.remedy.outcome import StepOutcome
from doctor.remedy.session import Session
from doctor.smoke.model import SmokeReport
from doctor.smoke.reach import AUTO, BUSY, CPU_ENGINE, NONE


def prove(session: Session, steps: Sequence[StepOutcome]) -> tuple[SmokeReport | None, str | None]:
    """The smoke report, or why there is none. What waits for a consent or a reboot is not proved before it."""
    level = session.job.options.smoke
    if level in (None, NONE):
        return None, "it was not asked for"
    if level == AUTO and session.job.options.only:
        return None, "only some findings were asked for; --smoke LEVEL proves the host too"
    why = _unfit(session, steps)
    if why is not None:
        return None, why
    options = session.job.options
    on_gpus = not any(spec.startswith(CPU_ENGINE) for spec in options.wants)
    used = session.job.do("workload").get("gpu", []) if on_gpus else []
    if used and "gpu" not in options.allow:
        said = (
            f"the GPU is in use by {used[0]}: the proof stops at {BUSY}; --allow gpu lets it go on"
        )
        session.job.tell(Note(text=said))
        level = BUSY
    folder = session.run.folder / "smoke"
    folder.mkdir(mode=0o700, exist_ok=True)
    return session.job.line.prove(session.report, level, folder, session.job.cancel), None


def _unfit(session: Session, steps: Sequence[StepOutcome]) -> str | None:
    if session.job.cancel.canceled or session.quit:
        return "the run was ended before"
    if session.stopped:
        return f"the run stopped: {session.stopped[0].why}"
    if any(item.reboot and item.status == "unverified" for item in steps):
        return "a step takes effect with a reboot"
    return None
