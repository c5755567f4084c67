"""What the app can set to work beside the look: a plan, a fix, a smoke run. Each is a Start; none knows Textual."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.events import Emit, PlanReady
from doctor.tui.bridge import Cancel, Start
from doctor.tui.origin import Origin

if TYPE_CHECKING:
    from doctor.plan.model import Step

REFUSED = (
    "a change is made only from a live look at this host, never from a recording, a log or a demo"
)
READ_ONLY = (
    "this page only shows; make changes on the host itself, over ssh, with doctor or doctor fix"
)
AskPerson = Callable[[str, str], bool]
"""A step and what runs on the host now; asked from the engine's thread."""


def planning(origin: Origin, facts: dict[str, Any], specs: tuple[str, ...]) -> Start:
    """Plan for the facts that are shown; looks at nothing and changes nothing."""

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor import engine

        options = engine.Options(as_of=origin.as_of, label=origin.label, overlays=origin.overlays)
        made = engine.plan(facts, specs, options)
        emit(PlanReady(plan=msgspec.to_builtins(made)))
        return made

    return start


def fixing(
    origin: Origin,
    approved: frozenset[str],
    specs: tuple[str, ...],
    ask: AskPerson,
    *,
    dry_run: bool = False,
) -> Start:
    """Do the approved steps and no others. What a step would disturb at that moment is asked once more."""
    require_live(origin)

    def answer(step: Step, busy: str) -> str:
        if step.id not in approved:
            return "no"
        if step.disturbs == "none" or not busy:
            return "yes"
        said = f"{step.id} disturbs {step.disturbs}. Now: {busy}"
        return "yes" if ask(step.id, said) else "no"

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor import engine
        from doctor.remedy.job import FixOptions

        asked = FixOptions(
            wants=list(specs),
            overlays=[str(path.resolve()) for path in origin.overlays],
            dry_run=dry_run,
        )
        return engine.fix(asked, emit, ask=None if dry_run else answer, cancel=cancel)

    return start


def smoking(origin: Origin, level: str) -> Start:
    """Climb the ladder on this host."""
    require_live(origin)

    def start(emit: Emit, cancel: Cancel) -> object:
        from doctor import engine
        from doctor.probes.live import LiveSource
        from doctor.remedy.event_file import EventFile
        from doctor.smoke import run
        from doctor.smoke.context import Options

        folder = run.new_folder()
        kept = EventFile(folder / "events.jsonl")

        def both(event: Any) -> None:
            kept(event)
            emit(event)

        try:
            options = engine.Options(as_of=origin.as_of, overlays=origin.overlays)
            asked = Options(level=level)
            return engine.smoke(
                LiveSource(origin.scope), options, asked, folder, both, cancel=cancel
            )
        finally:
            kept.close()

    return start


def require_live(origin: Origin) -> None:
    """A recording is somebody's word; what changes this host is planned from this host."""
    from doctor.errors import UsageError

    if not origin.is_live:
        raise UsageError(REFUSED, f"doctor plan{origin.again} shows what would be done")
