"""The barrier at the end of a wave: order the reboot where it was allowed and nobody loses by it, else say who has to do what."""

from __future__ import annotations

from collections.abc import Callable

from doctor.events import ApprovalNeeded, RebootRequired
from doctor.plan.model import digest
from doctor.remedy.job import outside_command
from doctor.remedy.outcome import Stopped
from doctor.remedy.session import Session

AT_MOST = 2
"""Reboots of one run."""


def barrier(session: Session) -> bool:
    """Stop the session for a reboot when steps wait for one. True: the host was rebooted from here, and the session goes on."""
    waiting = [item for item in session.waiting() if item.status != "verified"]
    put_off = [step.id for step in session.steps if step.id not in session.ended]
    if not (waiting or (put_off and session.waiting())) or session.quit or session.stopped:
        return False
    why = "; ".join(f"{item.id}: {item.reboot}" for item in session.waiting())
    stopped = _order(session, why)
    if stopped is None:
        return True
    session.stopped.append(stopped)
    if stopped.allow is not None:
        session.job.tell(ApprovalNeeded(step="reboot", why=stopped.why, allow=stopped.allow))
    session.job.tell(
        RebootRequired(why=stopped.why, scheduled=stopped.rebooting, command=stopped.command)
    )
    return False


def _order(session: Session, why: str) -> Stopped | None:
    job = session.job
    resume = f"doctor fix --resume goes on with run {session.run.id} afterwards"
    outside = outside_command(session.report)
    if outside is not None:
        return Stopped(
            why=f"{why}. {outside[0]}; restart it from outside; {resume}", command=outside[1]
        )
    by_hand = "sudo systemctl reboot"
    if "reboot" not in job.options.allow:
        return Stopped(
            why=f"{why}. It is not allowed to reboot; {resume}", allow="reboot", command=by_hand
        )
    if job.reboot is None and not (job.root and job.doctor):
        return Stopped(
            why=f"{why}. Only root's own installation goes on by itself; {resume}", command=by_hand
        )
    ordered = len(session.journal.of("reboot-ordered"))
    if ordered >= AT_MOST:
        return Stopped(
            why=f"{why}. The host was rebooted {ordered} times already, and no more",
            command=by_hand,
        )
    undone = _undone(session)
    obstacles = [f"{', '.join(undone)} could not be done"] if undone else []
    obstacles += job.do("obstacles", manager=session.manager, session=job.session)["why"]
    if obstacles:
        return Stopped(
            why=f"{why}. Not rebooted: {'; '.join(obstacles)}; {resume}", command=by_hand
        )
    boot = job.do("boot_id")["id"]
    session.journal.add(
        "reboot-ordered", boot_id=boot, digest=digest(session.steps), number=ordered + 1
    )
    if job.reboot is not None:
        return _from_here(session, why, job.reboot)
    said = job.do("schedule", run_id=session.run.id, doctor=job.doctor)
    if not said["ok"]:
        session.journal.add("reboot-not-ordered", why=said["why"])
        return Stopped(
            why=f"{why}. The reboot could not be ordered: {said['why']}", command=by_hand
        )
    return Stopped(
        why=f"{why}. The host reboots now and goes on by itself",
        rebooting=True,
        command=f"doctor runs show {session.run.id} --wait 1800",
    )


def _undone(session: Session) -> list[str]:
    """Steps that share the reboot with what waits for it, and failed: the host would come back with half of it."""
    waiting = {item.id for item in session.waiting()}
    return [
        step.id
        for step in session.steps
        if waiting & set(step.needs)
        and step.id in session.ended
        and (session.ended[step.id].status == "failed" or session.lacking(step) is not None)
    ]


def _from_here(session: Session, why: str, reboot: Callable[[], str]) -> Stopped | None:
    """Reboot a host that is not this one. None: it is up again, and it is another boot."""
    session.job.tell(RebootRequired(why=why, scheduled=True))
    failed = reboot()
    if failed:
        session.journal.add("reboot-failed", why=failed)
        return Stopped(why=f"{why}. It was told to reboot and did not come back: {failed}")
    return None
