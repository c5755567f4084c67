"""A whole smoke run: the host as it was judged, the ladder, the report, the files that stay."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor import __version__
from doctor.events import Note
from doctor.facts.model import Known
from doctor.facts.tree import Facts, decode
from doctor.redact import redact_tree
from doctor.remedy.state import default_root
from doctor.smoke import pipeline
from doctor.smoke.context import Cancel, Context, Options
from doctor.smoke.engines import base as engines
from doctor.smoke.model import CPU_ONLY, SmokeReport, exit_code_of, next_of, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from doctor.checks.knowledge import Knowledge
    from doctor.probes.source import Source
    from doctor.report.model import Report
    from doctor.smoke.processes import User

PACKAGE_OF = {"vllm": "vllm", "tensorrt_llm": "tensorrt-llm"}
"""Engines that auto may choose, in this order, and their packages."""


def run(
    *,
    source: Source,
    report: Report,
    knowledge: Knowledge,
    options: Options,
    folder: Path,
    emit: Callable[[Any], None],
    cancel: Cancel | None = None,
    engine: engines.Engine | None = None,
    user: User | None = None,
    state: Path | None = None,
) -> SmokeReport:
    """Climb up to the level asked for; the report is also kept in the run folder."""
    started = time.monotonic()
    facts = decode(report.facts)
    chosen = engine or engines.engine(choose(options, facts))
    ctx = Context(
        folder=folder,
        source=source,
        facts=facts,
        report=report,
        knowledge=knowledge,
        options=options,
        emit=emit,
        cancel=cancel,
        user=user,
        state=state or default_root(),
    )
    ctx.engine = chosen
    climb = pipeline.climb(pipeline.stages_up_to(options.level), ctx)
    verdict = verdict_of(climb.results, interrupted=climb.interrupted)
    timing = {"check": report.timing_ms.get("all", 0)}
    timing |= {f"stage.{result.name}": result.ms for result in climb.results}
    timing["all"] = timing["check"] + int((time.monotonic() - started) * 1000)
    found = SmokeReport(
        doctor=__version__,
        run=ctx.run,
        host=report.host,
        engine=chosen.name,
        level=options.level,
        note=None if chosen.gpu else CPU_ONLY,
        verdict=verdict,
        exit_code=int(exit_code_of(verdict)),
        next=next_of(climb.results),
        stages=redact_tree(climb.results),
        left_behind=climb.left_behind,
        cleaned=climb.cleaned,
        run_folder=str(folder),
        kept=[str(ctx.resources.scratch)] if options.keep and ctx.resources.scratch else [],
        timing_ms=timing,
    )
    text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    try:
        (folder / "report.json").write_bytes(text + b"\n")
    except OSError as error:  # it is also given to the caller
        emit(Note(text=f"the report is not kept in {folder}: {error.strerror}"))
    return found


def choose(options: Options, facts: Facts) -> str:
    """The engine by name; auto takes the first that the host has, else vllm, and never the CPU."""
    if options.engine != "auto":
        return options.engine
    environments = facts.python_env.environments
    if isinstance(environments, Known):
        for name, package in PACKAGE_OF.items():
            if any(package in item.packages for item in environments.value):
                return name
    return "vllm"


def new_folder(root: Path | None = None) -> Path:
    """A fresh folder for one run's logs and report, in the state folder, closed to others."""
    from doctor.remedy.host.run_id import new_id
    from doctor.remedy.state import open_state

    state = open_state(root)
    parent = state.root / "smoke"
    parent.mkdir(mode=0o700, exist_ok=True)
    folder = parent / new_id()
    folder.mkdir(mode=0o700)
    return folder
