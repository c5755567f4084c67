"""`doctor runs`: what was done to this host, and how a run ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from doctor.cli import console
from doctor.errors import UsageError

if TYPE_CHECKING:
    from doctor.remedy.state import Run, State

ENDED = ("done", "stopped", "undone")


@click.group()
def runs() -> None:
    """What was done to this host."""


@runs.command("list")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
def list_(format_: str) -> int:
    """Every run, the newest last."""
    from doctor.remedy.state import open_state

    state = open_state(create=False)
    rows = [_row(run, state) for run in state.runs()]
    if format_ == "json":
        import msgspec

        console.data(msgspec.json.format(msgspec.json.encode({"runs": rows}), indent=2).decode())
        return 0
    lines = [
        f"{row['run']}  {row['state']:<11}  exit {row['exit_code']}  {row['steps']}" for row in rows
    ]
    console.data("\n".join(lines) or f"no runs in {state.root}")
    return 0


def _row(run: Run, state: State) -> dict[str, object]:
    from doctor.remedy.journal import Journal
    from doctor.remedy.lock import is_held
    from doctor.remedy.resume import standing_of

    records = Journal(run.journal).records()
    found = standing_of(records)
    if found == "interrupted" and is_held(state.lock):
        holder = state.lock.read_text(encoding="utf-8", errors="replace")
        found = "at work" if holder.startswith(run.id) else found
    codes = [item["code"] for item in records if item["what"] == "finished"]
    begun = dict.fromkeys(item["step"] for item in records if item["what"] == "step-begun")
    return {
        "run": run.id,
        "state": found,
        "exit_code": codes[-1] if codes else None,
        "steps": ", ".join(begun),
    }


@runs.command()
@click.argument("run")
@click.option("--wait", type=float, metavar="S", help="Wait until it has ended, at most S seconds.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
def show(run: str, wait: float | None, format_: str, output: Path | None) -> int:
    """How a run ended, with its exit code."""
    import msgspec

    from doctor.cli import fix_view
    from doctor.remedy.outcome import FixReport
    from doctor.remedy.state import open_state

    found = open_state(create=False).run(run)
    ended = _wait(found, wait)
    try:
        report = msgspec.json.decode(found.report.read_bytes(), type=FixReport)
    except (OSError, msgspec.DecodeError):
        if ended:
            raise UsageError(f"run {run} has no report", "see doctor runs list") from None
        console.problem(
            f"run {run} has not ended", f"doctor runs show {run} --wait 600 waits for it"
        )
        return 5
    if not ended:
        console.talk(f"run {run} has not ended; this is how it stood last")
    text = (
        fix_view.to_json(report)
        if format_ == "json"
        else fix_view.fix(report, console.look(output))
    )
    console.data(text, output)
    return report.exit_code if ended else 5


def _wait(run: Run, seconds: float | None) -> bool:
    """Whether it has ended."""
    from doctor.remedy.resume import standing

    until = time.monotonic() + (seconds or 0)
    while standing(run) not in ENDED:
        if time.monotonic() >= until:
            return False
        time.sleep(0.5)
    return True
