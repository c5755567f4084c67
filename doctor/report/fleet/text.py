"""The audit as text: the verdict, what stops most hosts first, who was not audited, who differs, what changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from doctor.checks.finding import Outcome, Severity
from doctor.fleet.folder import Audit
from doctor.fleet.model import ByFinding, Change, FleetReport, HostLine
from doctor.report.fleet.summary import (
    FLEET_VERDICTS,
    STATES,
    broken_rules,
    by_way,
    causes,
    differences,
    lost,
    not_compared,
    said_change,
    said_counts,
    some,
)
from doctor.report.plain import escape
from doctor.report.text import Look, command_lines, mark_of, wrap

MOST = 12
"""Lines of a section; --verbose shows all."""
SAME_RULE = 3
"""Groups in which a rule is broken that are told one by one."""


def write(audit: Audit, look: Look) -> Iterator[str]:
    """Section by section."""
    for section in _sections(audit, look):
        yield "\n".join(section) + "\n"


def _sections(audit: Audit, look: Look) -> Iterator[list[str]]:
    fleet = audit.fleet
    yield _head(fleet, look)
    for title, found in causes(fleet).items():
        yield _faults(title, found, look)
    yield from _lost(audit, look)
    yield from _across(fleet, look)
    yield from _differences(fleet, look)
    yield from _changes(fleet, look)
    if look.verbose:
        yield from _hosts(audit, look)
    yield _hints(fleet, look)


def _head(fleet: FleetReport, look: Look) -> list[str]:
    color, glyph, ascii_glyph = FLEET_VERDICTS[fleet.verdict]
    mark = glyph if look.unicode else ascii_glyph
    head = look.paint(f"{mark} {fleet.verdict.upper()}", color, "bold")
    unfinished = "" if fleet.finished else ", not finished"
    about = f"audit {fleet.audit} of {fleet.inventory} (as of {fleet.judged_as_of}{unfinished})"
    if fleet.golden:
        about += f", compared with {fleet.golden}"
    said = [look.paint(line, "dim") for line in wrap(about, look, "  ")]
    return [f"{head}  {said_counts(fleet)}", *said]


def _faults(title: str, found: list[ByFinding], look: Look) -> list[str]:
    lines = ["", look.paint(title, "bold")]
    shown = found if look.verbose else found[:MOST]
    for item in shown:
        number = f"{item.roots} host{'' if item.roots == 1 else 's'}"
        number += f", not seen on {item.unseen}" if item.unseen else ""
        lines.append(f"  {mark_of(item.outcome, look)} {look.paint(item.id, 'bold')}  {number}")
        short = title in ("Notes", "Not seen") and not look.verbose
        lines += [] if short else wrap(item.message, look, "      ")
        lines += wrap(f"on {some(item.hosts[: item.roots])}", look, "      ", "        ")
        if short or item.fix is None or item.outcome is Outcome.UNKNOWN:
            continue
        disturbs = "" if item.fix.disturbs == "none" else f" (disturbs: {item.fix.disturbs})"
        lines += wrap(f"fix{disturbs}: {item.fix.say}", look, "      ", "        ")
        lines += command_lines(item.fix.command or "", look, "        ")
    return [*lines, *_more(len(found) - len(shown))]


def _more(number: int) -> list[str]:
    return [f"  and {number} more (-v)"] if number > 0 else []


def _lost(audit: Audit, look: Look) -> Iterator[list[str]]:
    found = lost(audit.lines())
    if not found:
        return
    lines = ["", look.paint("Not audited", "bold")]
    for state, hosts in found.items():
        names = [line.name for line in hosts]
        said = f"{state} ({STATES.get(state, state)}), {len(names)}: {some(names)}"
        lines += wrap(f"? {said}", look, "  ", "    ")
        shown = hosts if look.verbose else hosts[:1]
        for line in shown:
            lines += wrap(f"{line.name}: {line.reason}", look, "      ") if line.reason else []
    yield lines


def _across(fleet: FleetReport, look: Look) -> Iterator[list[str]]:
    found = broken_rules(fleet)
    if not found:
        return
    lines = ["", look.paint("Across hosts", "bold")]
    per_rule: Counter[str] = Counter()
    for item in found:
        per_rule[item.id] += 1
        if per_rule[item.id] > SAME_RULE and not look.verbose:
            continue
        head = f"{mark_of(item.outcome, look)} {look.paint(item.id, 'bold')}"
        lines += [f"  {head}  {escape(item.group)}", *wrap(item.message, look, "      ")]
        if look.verbose:
            for value, hosts in item.values.items():
                lines += wrap(f"{value}: {', '.join(hosts)}", look, "        ", "          ")
            lines += [
                f"        source: {escape(source.url)} ({source.as_of})" for source in item.sources
            ]
    rest = {id: number - SAME_RULE for id, number in per_rule.items() if number > SAME_RULE}
    if not look.verbose:
        lines += [f"  and {id} in {number} more groups (-v)" for id, number in rest.items()]
    yield lines


def _differences(fleet: FleetReport, look: Look) -> Iterator[list[str]]:
    found = differences(fleet)
    if not found:
        return
    lines = ["", look.paint("Hosts that differ from their like", "bold")]
    telling = sorted(found, key=lambda item: item.severity is Severity.INFO)
    shown = telling if look.verbose else telling[:MOST]
    for item in shown:
        usual = "golden" if item.golden else "usual"
        lines += wrap(f"{item.title}: {item.value} ({usual}: {item.usual})", look, "  ", "      ")
        names = ", ".join(item.hosts) if look.verbose else some(item.hosts)
        number = f"{len(item.hosts)} host{'' if len(item.hosts) == 1 else 's'}"
        lines += wrap(f"on {number}: {names}", look, "      ", "        ")
    lines += _more(len(telling) - len(shown))
    unseen = not_compared(fleet)
    if unseen:
        said = some([f"{title} ({number})" for title, number in unseen.items()], 6)
        lines += wrap(f"Not seen, so not called alike: {said}", look, "  ", "    ")
    yield lines


def _changes(fleet: FleetReport, look: Look) -> Iterator[list[str]]:
    if not fleet.before:
        return
    yield ["", look.paint(f"Since {escape(fleet.before)}", "bold")]
    if not fleet.changes:
        yield ["  nothing changed"]
    for title, changes in by_way(fleet.changes).items():
        yield change_lines(title, changes, look)


def change_lines(title: str, changes: list[Change], look: Look) -> list[str]:
    """Alike changes of several hosts on one line."""
    alike: dict[str, list[str]] = defaultdict(list)
    for item in changes:
        alike[said_change(item)].append(item.host)
    lines = [f"  {title} ({len(changes)})"]
    shown = list(alike.items()) if look.verbose else list(alike.items())[:MOST]
    for said, hosts in shown:
        lines += wrap(f"{said}  on {some(hosts)}", look, "    ", "      ")
    return [*lines, *_more(len(alike) - len(shown))]


def _hosts(audit: Audit, look: Look) -> Iterator[list[str]]:
    yield ["", look.paint("Hosts", "bold")]
    for line in audit.lines():
        yield [_host(line)]


def _host(line: HostLine) -> str:
    return escape(f"  {line.name}  {line.standing}" + (f"  {line.next}" if line.next else ""))


def _hints(fleet: FleetReport, look: Look) -> list[str]:
    hints = []
    if fleet.by_finding:
        hints.append(
            "one host: doctor check --from FOLDER/HOST.json (its report in the audit's folder)"
        )
    if not look.verbose:
        hints.append("doctor fleet report FOLDER -v: every host; --format html for a browser")
    return ["", *(look.paint(line, "dim") for hint in hints for line in wrap(hint, look, "  "))]
