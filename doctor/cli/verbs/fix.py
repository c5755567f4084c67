"""`doctor fix` and `doctor --fix`: plan from a live look, do each step, prove it by looking again."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from doctor.cli import console
from doctor.errors import UsageError
from doctor.smoke.reach import AUTO, LEVELS, NONE

if TYPE_CHECKING:
    from doctor.plan.model import Step
    from doctor.remedy.job import Ask, FixOptions
    from doctor.remedy.runner import CancelToken


@click.command()
@click.option("--want", "specs", multiple=True, metavar="SPEC", help="What the host is for.")
@click.option("--only", multiple=True, metavar="ID", help="Only what this finding needs.")
@click.option("--dry-run", is_flag=True, help="Check mode with differences; changes nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before each step.")
@click.option(
    "--allow", "allowed", multiple=True, metavar="LIST", help="service,gpu,reboot,irreversible"
)
@click.option("--resume", is_flag=True, help="Go on with the run that was left half way.")
@click.option("--offline", type=click.Path(path_type=Path), metavar="DIR", help="A local mirror.")
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--from", "origin", hidden=True, metavar="REC")
@click.option(
    "--smoke",
    type=click.Choice(LEVELS),
    metavar="auto|LEVEL",
    help="Prove the host on the smoke ladder afterwards; auto as far as it is wanted for. doctor --fix does it unasked.",
)
@click.option("--no-smoke", is_flag=True, help="Leave that proof out.")
@click.option("--headless", is_flag=True, hidden=True)
@click.option("--after-reboot", hidden=True, metavar="RUN")
def fix(
    specs: tuple[str, ...],
    only: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    allowed: tuple[str, ...],
    resume: bool,
    offline: Path | None,
    overlays: tuple[Path, ...],
    format_: str,
    output: Path | None,
    origin: str | None,
    smoke: str | None,
    no_smoke: bool,
    headless: bool,
    after_reboot: str | None,
) -> int:
    """Do what would put this host right, step by step, and look again after each."""
    refuse_recording(origin)
    proof = _proof(smoke, no_smoke, headless)
    asked = options(specs, only, allowed, dry_run, offline, overlays, proof)
    from doctor.cli import fix_view
    from doctor.cli.progress import shown

    unattended = yes or headless or dry_run or after_reboot is not None
    view = shown()
    with at_work() as cancel:
        ask = None if unattended else asking(view)
        report = _run(asked, view, ask, cancel, resume, after_reboot)
    if report is None:
        return 5
    if format_ == "json":
        console.data(fix_view.to_json(report), output)
    else:
        console.data(fix_view.fix(report, console.look(output)), output)
    return int(report.exit_code)


def _proof(smoke: str | None, no_smoke: bool, headless: bool) -> str | None:
    """How far the host is proved: said, or by the way the fix was asked for."""
    if smoke is not None and no_smoke:
        raise UsageError("--smoke and --no-smoke exclude each other", "name one")
    if no_smoke:
        return NONE
    return smoke or (AUTO if headless else None)


def _run(
    asked: FixOptions,
    view: Any,
    ask: Ask | None,
    cancel: CancelToken,
    resume: bool,
    after_reboot: str | None,
) -> Any:
    """The report; None when another run is in the way."""
    from doctor import engine
    from doctor.remedy.fix import InterruptedRunError
    from doctor.remedy.lock import LockedError

    people: dict[str, Any] = {"ask": ask, "cancel": cancel}
    try:
        if after_reboot is not None:
            return engine.resume(asked, view, run_id=after_reboot, after_reboot=True, **people)
        return (engine.resume if resume else engine.fix)(asked, view, **people)
    except (LockedError, InterruptedRunError) as error:
        console.problem(error.message, error.hint)
        return None
    finally:
        view.close()


def options(
    specs: tuple[str, ...],
    only: tuple[str, ...],
    allowed: tuple[str, ...],
    dry_run: bool,
    offline: Path | None,
    overlays: tuple[Path, ...],
    smoke: str | None = None,
) -> FixOptions:
    """The options as a record, checked."""
    from doctor.plan.want import parse_all
    from doctor.remedy.consent import FLAGS
    from doctor.remedy.job import FixOptions

    flags = sorted({word.strip() for item in allowed for word in item.split(",") if word.strip()})
    wrong = [word for word in flags if word not in FLAGS]
    if wrong:
        raise UsageError(f"--allow does not know {wrong[0]!r}", f"it knows {', '.join(FLAGS)}")
    if offline is not None and not offline.is_dir():
        raise UsageError(
            f"--offline {offline} is not a folder", "name the folder of the local mirror"
        )
    if specs:
        parse_all(specs, None, overlays)
    _known(only)
    return FixOptions(
        wants=list(specs),
        only=list(only),
        allow=flags,
        dry_run=dry_run,
        offline=str(offline.resolve()) if offline is not None else None,
        overlays=[str(item.resolve()) for item in overlays],
        smoke=smoke,
    )


def _known(only: tuple[str, ...]) -> None:
    if not only:
        return
    from doctor import engine

    checks = engine.every_check()
    wrong = [id for id in only if id not in checks]
    if wrong:
        raise UsageError(f"no check is called {wrong[0]!r}", "see doctor check --list")


def refuse_recording(origin: str | None) -> None:
    """A recording is somebody's word; what changes this host is planned from this host."""
    if origin is not None:
        raise UsageError(
            "a change is planned only from a live look at this host, never from a recording",
            f"doctor plan --from {origin} shows what would be done",
        )


@contextmanager
def at_work() -> Iterator[CancelToken]:
    """Ctrl-C ends the run in good order; a second one ends it at once."""
    from doctor.remedy.runner import CancelToken

    token = CancelToken()

    def end(number: int, frame: object) -> None:
        if token.canceled:
            raise KeyboardInterrupt
        token.cancel()
        console.talk("interrupted; ending this step (again: at once)")

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield token
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def asking(view: Any) -> Ask:
    """Ask a person before each step. UsageError where there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "doctor fix asks before each step, and there is no terminal",
            "doctor fix --yes asks nothing; doctor fix --dry-run changes nothing",
        )

    def ask(step: Step, busy: str) -> Any:
        view.close()
        from doctor.report.plain import escape

        console.talk(f"\n{step.id}  (disturbs: {step.disturbs}; undo: {step.reversible})")
        for change in step.changes:
            console.talk(f"  {escape(change)}")
        if busy and step.disturbs != "none":
            console.talk(f"  now: {escape(busy)}")
        answer = click.prompt(
            "  do it? [y]es, [n]o, [q]uit", default="n", show_default=False, err=True
        )
        return {"y": "yes", "q": "quit"}.get(str(answer).strip().lower()[:1], "no")

    return ask
