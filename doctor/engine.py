"""The straight line: probe, judge, report. No printing and no input or output of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from doctor import __version__
from doctor.checks import asked, base
from doctor.checks.evaluate import evaluate
from doctor.checks.finding import Outcome
from doctor.checks.knowledge import Knowledge
from doctor.checks.verdict import verdict
from doctor.events import (
    AnyEvent,
    CheckFinished,
    Emit,
    FactsReady,
    ProbeFinished,
    ProbeStarted,
    RunFinished,
    RunStarted,
    ignore,
)
from doctor.exit_codes import code_for
from doctor.facts.identity import host_name, unseen_facts
from doctor.facts.model import known_or
from doctor.facts.tree import AREAS, decode
from doctor.probes import registry
from doctor.probes.source import Source, ThisHost
from doctor.redact import redact_tree
from doctor.report.model import Report, next_step

if TYPE_CHECKING:
    from doctor.fleet.audit import Audited, AuditOptions
    from doctor.plan.model import Plan
    from doctor.remedy.job import FixOptions, Line
    from doctor.remedy.outcome import FixReport
    from doctor.remedy.undo import UndoReport
    from doctor.smoke.context import Options as SmokeOptions
    from doctor.smoke.model import SmokeReport

E = TypeVar("E", bound=AnyEvent)
WISH = "want"
"""The area whose checks judge what a host is wanted for, not the host."""

DRIVER_ASKED = ("cuda", "nvml", "driver")
"""Areas that a driver answers in its own time: cuInit takes a quarter of a second, and /proc/driver/nvidia waits for it."""


def never() -> bool:
    """For callers who do not stop what they started."""
    return False


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a host is judged."""

    as_of: date
    only: str | None = None
    """Glob over check ids."""
    fail_on: str = "error"
    label: str = "live"
    """live, or the path of the recording."""
    overlays: tuple[Path, ...] = ()
    wants: tuple[Any, ...] = ()
    waivers: Any = None
    names: tuple[str, ...] = ()
    """What the host is called in an inventory, and its groups there; of one host alone, its own name."""


class Clock:
    """Stamps events with run, sequence, time and host."""

    def __init__(self, emit: Emit, host: str = "", run: str = "") -> None:
        self._emit = emit
        self._host = host
        self._run = run or os.urandom(6).hex()
        self._seq = 0

    def __call__(self, event: E) -> None:
        """Emit the event with its stamps."""
        self._seq += 1
        self._emit(
            msgspec.structs.replace(
                event, run=self._run, seq=self._seq, at=time.time(), host=self._host
            )
        )


def start_probes(
    source: Source, areas: Sequence[str] | None, emit: Callable[[Any], None]
) -> registry.Looking:
    """Set the probes to work, those of this host in a process of their own; the caller may load what judges meanwhile."""

    probing: list[registry.Looking] = []

    def on_event(area: str, what: str, ms: int) -> None:
        if what == "started":
            emit(ProbeStarted(area=area))
        else:  # a probe may end before the last thread has started; FactsReady has all of them
            found = probing[0].found(area) if probing else {}
            emit(ProbeFinished(area=area, ms=ms, facts=found))

    if isinstance(source, ThisHost):
        from doctor.probes.apart import Apart

        probing.append(Apart(source.scope, areas, on_event))
    else:
        probing.append(registry.Run(source, areas, on_event))
    return probing[0]


def check(source: Source, options: Options, emit: Emit = ignore) -> Report:
    """Look at the host once and judge it."""
    tell = Clock(emit)
    tell(RunStarted(verb="check", source=options.label))
    started = time.monotonic()
    if options.only is None:
        probing = start_probes(source, None, tell)
        checks = chosen(options)
    else:
        checks = chosen(options, needs=source.may_wait)
        probing = start_probes(source, areas_of(checks), tell)
    knowledge = Knowledge(options.as_of, overlays=options.overlays, wants=options.wants)
    if checks and source.may_wait:  # a recording leaves nothing to do meanwhile
        knowledge.preload()
        _rehearse(probing, checks, knowledge)
    envelope = probing.result()
    if options.only is not None and not source.may_wait:
        checks = _with_needs(source, checks, envelope, knowledge, options, tell)
    timing = {"probes": _since(started)} | {
        f"probe.{k}": v for k, v in envelope["timing_ms"].items()
    }
    report = judge(envelope["facts"], checks, knowledge, options, tell)
    timing["all"] = _since(started)
    return msgspec.structs.replace(report, timing_ms=timing)


def _with_needs(
    source: Source,
    checks: dict[str, base.Check],
    envelope: dict[str, Any],
    knowledge: Knowledge,
    options: Options,
    emit: Callable[[Any], None],
) -> dict[str, base.Check]:
    """The checks asked for and, where one of them did not pass, what they need; its areas are added to the envelope."""
    if not asked.unsettled(evaluate(checks, decode(envelope["facts"]), knowledge)):
        return checks
    checks = chosen(options)
    more = [area for area in areas_of(checks) if area not in envelope["facts"]]
    added = start_probes(source, more, emit).result()
    envelope["facts"].update(added["facts"])
    envelope["timing_ms"].update(added["timing_ms"])
    return checks


def _rehearse(
    probing: registry.Looking, checks: dict[str, base.Check], knowledge: Knowledge
) -> None:
    """Judge what is there while the driver still thinks, and forget it: so all that judging loads is loaded by then."""
    if not probing.wait(without=DRIVER_ASKED):
        evaluate(checks, decode({area: probing.found(area) for area in AREAS}), knowledge)


def judge(
    raw: dict[str, Any],
    checks: dict[str, base.Check],
    knowledge: Knowledge,
    options: Options,
    emit: Callable[[Any], None] = ignore,
) -> Report:
    """Facts in JSON -> the report. The same for a live host, a recording and a host of a fleet."""
    facts = decode(raw)
    emit(FactsReady(facts=raw))
    findings = evaluate(checks, facts, knowledge)
    waivers = _waivers(knowledge, options)
    if waivers is not None:
        names = options.names or (host_name(facts, options.label).name,)
        every = partial(every_check, options.overlays)
        findings = waivers.apply(findings, options.as_of, names, every)
    if options.only is not None:
        findings = asked.shown(findings, checks, options.only)
    for finding in findings:
        emit(CheckFinished(finding=msgspec.to_builtins(finding)))
    said = verdict(findings)
    unseen_checks = sum(1 for item in findings if item.outcome is Outcome.UNKNOWN and item.counts)
    code = code_for(said, unseen_checks, options.fail_on)
    emit(RunFinished(verdict=said, exit_code=code))
    return Report(
        doctor=__version__,
        host=host_name(facts, options.label),
        judged_as_of=options.as_of.isoformat(),
        verdict=said,
        exit_code=int(code),
        next=next_step(findings),
        findings=findings,
        facts=raw,
        unseen=unseen_facts(facts, raw),
        timing_ms={},
    )


def _waivers(knowledge: Knowledge, options: Options) -> Any:
    """Those of the file and those of the site's overlays; None where there are none."""
    of_site = knowledge.matrix.waivers if options.overlays else ()
    if not of_site:
        return options.waivers
    from doctor.checks.waivers import Waivers

    return (options.waivers or Waivers(())) + of_site


def chosen(options: Options, *, needs: bool = True) -> dict[str, base.Check]:
    """The checks to run; with `only`, these and what they need. Those of a wish are left out where nothing is wished."""
    from doctor.checks.yaml_rules import rules

    if options.only is not None:
        return base.selected_checks(options.only, rules(options.overlays), needs=needs)
    return base.all_checks(rules(options.overlays), without=() if options.wants else (WISH,))


def every_check(overlays: tuple[Path, ...] = ()) -> dict[str, base.Check]:
    """All that can be asked for by name."""
    from doctor.checks.yaml_rules import rules

    return base.all_checks(rules(overlays))


def areas_of(checks: dict[str, base.Check]) -> list[str]:
    """The probe areas whose facts these checks read, and the one that says what host it is; none for no checks."""
    read = {path.partition(".")[0] for item in checks.values() for path in item.reads}
    return sorted(read | {"host"}) if checks else []


def _since(started: float) -> int:
    return int((time.monotonic() - started) * 1000)


def check_facts(raw: dict[str, Any], options: Options, emit: Emit = ignore) -> Report:
    """Judge facts that were probed elsewhere."""
    tell = Clock(emit)
    tell(RunStarted(verb="check", source=options.label))
    knowledge = Knowledge(options.as_of, overlays=options.overlays, wants=options.wants)
    return judge(redact_tree(raw), chosen(options), knowledge, options, tell)


def plan(raw: dict[str, Any], specs: Sequence[str], options: Options) -> Plan:
    """What facts that are already there would need for what is wanted. Changes nothing and looks at nothing."""
    from doctor.plan.make import make_plan
    from doctor.plan.want import parse_all

    wants = tuple(parse_all(specs, None, options.overlays)) if specs else ()
    asked = msgspec.structs.replace(options, wants=wants)
    checks = chosen(asked)
    knowledge = Knowledge(asked.as_of, overlays=asked.overlays, wants=wants)
    report = judge(raw, checks, knowledge, asked)
    return make_plan(
        decode(raw), report.findings, wants, knowledge, host=report.host, checks=checks
    )


def listed(only: str | None, overlays: tuple[Path, ...]) -> list[tuple[base.Check, Knowledge]]:
    """Every check, with what is needed to cite its sources."""
    from fnmatch import fnmatchcase

    knowledge = Knowledge(date.min, overlays=overlays)
    return [
        (item, knowledge)
        for id, item in sorted(every_check(overlays).items())
        if only is None or fnmatchcase(id, only)
    ]


def fix(asked: FixOptions, emit: Emit = ignore, **people: Any) -> FixReport:
    """Look at this host, plan, do the steps, look again, prove it. A change is planned only from a live look in this run."""
    from doctor.remedy import start

    return start.fix(asked, line_of, emit, **people)


def resume(asked: FixOptions, emit: Emit = ignore, **people: Any) -> FixReport:
    """Go on with the newest run that was left half way."""
    from doctor.remedy import start

    return start.resume(asked, line_of, emit, **people)


def undo(run: str, asked: FixOptions, emit: Emit = ignore, **people: Any) -> UndoReport:
    """Take a run of this host back."""
    from doctor.remedy import start

    return start.undo(run, asked, line_of, emit, **people)


def line_of(
    asked: FixOptions,
    emit: Callable[[Any], None],
) -> Line:
    """How this host is looked at, afresh each time, how a plan is made of what was seen, and how the host is proved."""
    from datetime import datetime, timezone

    from doctor.plan.folder import read_folder
    from doctor.plan.make import make_plan
    from doctor.plan.want import parse_all
    from doctor.probes.live import LiveSource
    from doctor.remedy.job import Line
    from doctor.remedy.pip_settings import told

    overlays = tuple(Path(item) for item in asked.overlays)
    wants = tuple(parse_all(asked.wants, None, overlays)) if asked.wants else ()
    options = Options(as_of=datetime.now(timezone.utc).date(), overlays=overlays, wants=wants)
    checks = chosen(options)
    knowledge = Knowledge(options.as_of, overlays=overlays, wants=wants)
    folder = read_folder(Path(asked.offline)) if asked.offline else None

    def plan(report: Report) -> Plan:
        return make_plan(
            decode(report.facts),
            report.findings,
            wants,
            knowledge,
            host=report.host,
            checks=checks,
            only=asked.only,
            folder=folder,
        )

    def prove(report: Report, level: str, folder: Path, cancel: Any) -> SmokeReport:
        from doctor.smoke import run
        from doctor.smoke.context import Options as SmokeOptions
        from doctor.smoke.reach import reach

        names = known_or(decode(report.facts).container.image_names, [])
        goal = reach(wants, names, level)
        return run.run(
            source=LiveSource(),
            report=report,
            knowledge=knowledge,
            options=SmokeOptions(engine=goal.engine, level=goal.level, image=goal.image),
            folder=folder,
            emit=emit,
            cancel=cancel,
        )

    return Line(
        look=lambda: check(LiveSource(), options, _within(emit)),
        plan=plan,
        prove=prove,
        offline={"doctor_offline_dir": folder.path, "doctor_offline_base": folder.base}
        if folder
        else {},
        own={} if folder else {"engine_env": told(asked.pip)},
    )


def _within(emit: Callable[[Any], None]) -> Emit:
    """A stage inside a run: the run says itself when it begins and ends."""

    def tell(event: AnyEvent) -> None:
        if not isinstance(event, (RunStarted, RunFinished)):
            emit(event)

    return tell


def smoke(
    source: Source,
    options: Options,
    asked: SmokeOptions,
    folder: Path,
    emit: Emit = ignore,
    **people: Any,
) -> SmokeReport:
    """Look at the host, then climb the smoke ladder on it. The run folder keeps logs and report."""
    from doctor.smoke import run

    tell = Clock(emit)
    tell(RunStarted(verb="smoke", source=options.label))

    report = check(source, options, _within(tell))
    knowledge = Knowledge(options.as_of, overlays=options.overlays, wants=options.wants)
    found = run.run(
        source=source,
        report=report,
        knowledge=knowledge,
        options=asked,
        folder=folder,
        emit=tell,
        **people,
    )
    tell(RunFinished(verdict=found.verdict, exit_code=found.exit_code))
    return found


def audit(asked: AuditOptions, emit: Emit = ignore, stop: Callable[[], bool] = never) -> Audited:
    """Look at every host of an inventory and judge them one by one and together. `stop` is asked again and again."""
    from doctor.fleet import audit as fleet

    tell = Clock(emit)
    tell(RunStarted(verb="fleet audit", source=",".join(asked.inventory)))
    ended = fleet.audit(asked, tell, stop)
    tell(RunFinished(verdict=ended.fleet.verdict, exit_code=ended.fleet.exit_code))
    return ended
