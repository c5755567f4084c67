"""`doctor smoke`: prove the host rung by rung, up to a small engine that serves and computes right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from doctor.cli import console
from doctor.smoke.model import LADDER

if TYPE_CHECKING:
    from doctor.smoke.context import Options
    from doctor.smoke.model import SmokeReport


@click.command()
@click.option(
    "--engine",
    "engine_",
    type=click.Choice(["auto", "vllm", "vllm-cpu", "tensorrt_llm"]),
    default="auto",
    show_default=True,
    help="auto never takes the CPU.",
)
@click.option(
    "--level",
    type=click.Choice(LADDER),
    default=LADDER[-1],
    metavar="NAME",
    help=f"The last rung to climb: {', '.join(LADDER)}.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="The interpreter that has the engine.",
)
@click.option("--image", metavar="REF", help="The image that has the engine.")
@click.option("--provision", is_flag=True, help="Make the engine's environment.")
@click.option(
    "--model-class",
    type=click.Choice(["llama", "qwen3", "llama-embedding"]),
    default="llama",
    show_default=True,
)
@click.option(
    "--duration",
    type=click.FloatRange(1, 3600),
    default=20.0,
    show_default=True,
    metavar="S",
    help="Seconds of load.",
)
@click.option("--learn", is_flag=True, help="Keep the load as this host's baseline.")
@click.option("--keep", is_flag=True, help="Leave the model and the engine's folder.")
@click.option("--scope", default="shell", show_default=True, metavar="shell|service:NAME|pid:N")
@click.option("--matrix", "overlays", multiple=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("-v", "--verbose", is_flag=True, help="Show evidence too.")
def smoke(
    engine_: str,
    level: str,
    python: Path | None,
    image: str | None,
    provision: bool,
    model_class: str,
    duration: float,
    learn: bool,
    keep: bool,
    scope: str,
    overlays: tuple[Path, ...],
    format_: str,
    output: Path | None,
    verbose: bool,
) -> int:
    """Climb the ladder: driver, cuda, nccl, container, engine-build, serve, tokens, load."""
    from doctor.smoke.context import Options

    _agree(engine_, python, image, provision)
    asked = Options(
        engine=engine_,
        level=level,
        python=python.absolute() if python else None,
        image=image,
        provision=provision,
        duration=duration,
        learn=learn,
        keep=keep,
        model_class=model_class,
    )
    report = _run(asked, scope, overlays)
    from doctor.report import smoke_text

    if format_ == "json":
        console.data(smoke_text.to_json(report), output)
    else:
        console.data(smoke_text.render(report, console.look(output, verbose=verbose)), output)
    return report.exit_code


def _run(asked: Options, scope: str, overlays: tuple[Path, ...]) -> SmokeReport:
    from datetime import datetime, timezone

    from doctor import engine
    from doctor.cli import smoke_progress
    from doctor.events import AnyEvent
    from doctor.probes.live import LiveSource
    from doctor.remedy.event_file import EventFile
    from doctor.smoke import run

    folder = run.new_folder()
    kept = EventFile(folder / "events.jsonl")
    view = smoke_progress.shown()

    def emit(event: AnyEvent) -> None:
        kept(event)
        view(event)

    try:
        return engine.smoke(
            LiveSource(scope),
            engine.Options(as_of=datetime.now(timezone.utc).date(), overlays=overlays),
            asked,
            folder,
            emit,
        )
    finally:
        view.close()
        kept.close()


def _agree(engine_: str, python: Path | None, image: str | None, provision: bool) -> None:
    """Options that contradict each other are the user's fault, said at once."""
    from doctor.errors import UsageError

    given = [
        name
        for name, value in (("--python", python), ("--image", image), ("--provision", provision))
        if value
    ]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} both say where the engine is", "name one")
    if engine_ == "vllm-cpu" and image is not None:
        raise UsageError(
            "vllm-cpu runs from an interpreter",
            "name it with --python, or let it be made with --provision",
        )
    if python is not None and not python.exists():
        raise UsageError(f"--python {python} is not there", "name the bin/python of an environment")
