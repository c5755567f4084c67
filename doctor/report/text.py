"""The report as text that a tired person reads once: verdict, the one thing to do, then findings; passes folded to a count."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator

import msgspec

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.report.model import Report
from doctor.report.plain import escape

_STYLE = {"red": "31", "yellow": "33", "green": "32", "cyan": "36", "bold": "1", "dim": "2"}
_MARKS = {
    Outcome.PASS: ("✓", "ok", "pass", "green"),
    Outcome.FAIL: ("✗", "x", "FAIL", "red"),
    Outcome.WARN: ("!", "!", "warn", "yellow"),
    Outcome.UNKNOWN: ("?", "?", "unknown", "cyan"),
    Outcome.SKIP: ("–", "-", "n/a", "dim"),  # noqa: RUF001 - the house's glyph for n/a
}
VERDICTS = {
    "healthy": ("green", "✓", "ok"),
    "degraded": ("yellow", "!", "!"),
    "broken": ("red", "✗", "x"),
    "unknown": ("cyan", "?", "?"),
}
"""Colour, glyph and, where there are no others, the ASCII."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How the output can look."""

    color: bool = False
    unicode: bool = True
    width: int = 80
    verbose: bool = False

    def paint(self, text: str, *styles: str) -> str:
        """Text in colours, where there are any."""
        if not self.color:
            return text
        return f"\x1b[{';'.join(_STYLE[style] for style in styles)}m{text}\x1b[0m"


def render(report: Report, look: Look) -> str:
    """The whole report."""
    lines = [_verdict_line(report, look), *_host_lines(report, look)]
    lines += _next_lines(report, look)
    shown: set[str] = set()
    for title, roots in _groups(report):
        if roots:
            lines += ["", look.paint(title, "bold")]
            for finding in roots:
                shown.add(finding.id)
                lines += _finding(finding, report, look)
    lines += _not_seen(report, look, shown)
    if look.verbose:
        lines += _rest(report, look)
    lines += _footer(report, look)
    return "\n".join(lines)


def _verdict_line(report: Report, look: Look) -> str:
    color, glyph, ascii_glyph = VERDICTS[report.verdict]
    counts = Counter(item.outcome for item in report.findings if item.counts)
    warned = [item for item in report.findings if item.outcome is Outcome.WARN and item.counts]
    notes = sum(1 for item in warned if item.severity is Severity.INFO)
    parts = [
        _count(counts[Outcome.FAIL], "error"),
        _count(len(warned) - notes, "warning"),
        _count(notes, "note"),
        f"{counts[Outcome.PASS]} passed",
        f"{counts[Outcome.UNKNOWN]} not seen" if counts[Outcome.UNKNOWN] else "",
        f"{sum(1 for item in report.findings if item.waived)} waived"
        if any(item.waived for item in report.findings)
        else "",
    ]
    mark = glyph if look.unicode else ascii_glyph
    head = look.paint(f"{mark} {report.verdict.upper()}", color, "bold")
    return f"{head}  {', '.join(part for part in parts if part)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else ""


def _host_lines(report: Report, look: Look) -> list[str]:
    host = report.host
    parts = [host.name, host.distribution, host.platform]
    about = ", ".join(escape(part) for part in parts if part)
    where = "" if host.source == "live" else f"recording {escape(host.source)}, "
    said = f"{about} ({where}as of {report.judged_as_of})"
    return [look.paint(line, "dim") for line in wrap(said, look, "  ")]


def _next_lines(report: Report, look: Look) -> list[str]:
    if report.next is None:
        return []
    lines = ["", *wrap(f"Next: {report.next.say}", look, "", "      ")]
    lines[1] = lines[1].replace("Next:", look.paint("Next:", "bold"), 1)
    if report.next.command:
        lines += command_lines(report.next.command, look, "  ")
    return lines


def _groups(report: Report) -> Iterator[tuple[str, list[Finding]]]:
    roots = report.roots
    yield "Errors", [item for item in roots if item.outcome is Outcome.FAIL]
    yield "Warnings", [item for item in roots if item.severity is Severity.WARN]
    yield "Notes", [item for item in roots if item.severity is Severity.INFO]


def _finding(finding: Finding, report: Report, look: Look) -> list[str]:
    lines = [f"  {_mark(finding, look)} {look.paint(finding.id, 'bold')}"]
    lines += wrap(finding.message, look, "      ")
    if finding.severity is Severity.INFO and not look.verbose:
        return lines
    if finding.want:
        lines += wrap(f"wanted: {finding.want}", look, "      ", "        ")
    if finding.fix is not None and not (report.next and report.next.id == finding.id):
        disturbs = "" if finding.fix.disturbs == "none" else f" (disturbs: {finding.fix.disturbs})"
        lines += wrap(f"fix{disturbs}: {finding.fix.say}", look, "      ", "        ")
        if finding.fix.command:
            lines += command_lines(finding.fix.command, look, "        ")
    explained = [item.id for item in report.explained_by(finding.id)]
    if explained:
        shown = explained if look.verbose else explained[:4]
        rest = len(explained) - len(shown)
        more = f" and {rest} more" if rest else ""
        lines += wrap(f"explains: {', '.join(shown)}{more}", look, "      ", "        ")
    if look.verbose:
        lines += _evidence(finding, look)
    return lines


def _not_seen(report: Report, look: Look, shown: set[str]) -> list[str]:
    missing = [
        item
        for item in report.findings
        if item.outcome is Outcome.UNKNOWN and item.counts and item.id not in shown
    ]
    if not missing:
        return []
    missing.sort(key=lambda item: (item.severity is not Severity.ERROR, item.id))
    alike = _alike(missing, whole=look.verbose)
    limit = len(alike) if look.verbose else 8
    lines = ["", look.paint("Not seen", "bold")]
    for ids, message in alike[:limit]:
        lines += marked(Outcome.UNKNOWN, f"{', '.join(ids)}: {message}", look)
    rest = sum(len(ids) for ids, _ in alike[limit:])
    if rest:
        lines.append(f"  and {rest} more (doctor check -v)")
    return lines


def _alike(missing: list[Finding], *, whole: bool) -> list[tuple[list[str], str]]:
    """Checks that did not see for one reason share a line, which names all that was to be read."""
    if whole:
        return [([item.id], item.message) for item in missing]
    groups: dict[str, list[Finding]] = {}
    for item in missing:
        groups.setdefault(item.message.rpartition(": ")[2], []).append(item)
    return [([item.id for item in items], _said(reason, items)) for reason, items in groups.items()]


def _said(reason: str, items: list[Finding]) -> str:
    read = dict.fromkeys(item.message.rpartition(": ")[0] for item in items)
    return ": ".join(part for part in (", ".join(filter(None, read)), reason) if part)


def _rest(report: Report, look: Look) -> list[str]:
    lines: list[str] = []
    for title, outcome in (("Passed", Outcome.PASS), ("Does not apply", Outcome.SKIP)):
        found = [item for item in report.findings if item.outcome is outcome]
        if found:
            lines += ["", look.paint(title, "bold")]
        for item in found:
            lines += marked(item.outcome, f"{item.id}: {item.message}", look)
    waived = [item for item in report.findings if item.waived]
    if waived:
        lines += ["", look.paint("Waived", "bold")]
        for item in waived:
            lines += wrap(f"{item.id}: {item.waived}", look, "  ", "      ")
    return lines


def _footer(report: Report, look: Look) -> list[str]:
    hints = []
    first = report.roots[0].id if report.roots else None
    if first:
        hints.append(f"doctor explain {first}: what was read, which rule, which source")
    if not look.verbose:
        hints.append("doctor check -v: passes and evidence")
    lines = [line for hint in hints for line in wrap(hint, look, "  ", "    ")]
    return ["", *(look.paint(line, "dim") for line in lines)] if hints else []


def _mark(finding: Finding, look: Look) -> str:
    return mark_of(finding.outcome, look)


def mark_of(outcome: Outcome, look: Look) -> str:
    """Glyph and word."""
    glyph, ascii_glyph, word, color = _MARKS[outcome]
    return look.paint(f"{glyph if look.unicode else ascii_glyph} {word}", color)


def marked(outcome: Outcome, text: str, look: Look) -> list[str]:
    """Text after an outcome's mark, which is painted last: wrapping spells out what paints."""
    plain = mark_of(outcome, msgspec.structs.replace(look, color=False))
    lines = wrap(f"{plain} {text}", look, "  ", "      ")
    lines[0] = lines[0].replace(plain, mark_of(outcome, look), 1)
    return lines


def _evidence(finding: Finding, look: Look) -> list[str]:
    lines = []
    for item in finding.evidence:
        value = item.reason if item.value is None else item.value
        via = f"  [{item.via}]" if item.via else ""
        lines += wrap(f"{item.fact} = {value}{via}", look, "        ", "          ")
    for source in finding.sources:
        lines += wrap(
            f"source: {source.id} {source.url} ({source.as_of})", look, "        ", "          "
        )
    return lines


def command_lines(command: str, look: Look, indent: str) -> list[str]:
    """Commands are never wrapped: they are there to be copied."""
    return [f"{indent}$ {look.paint(escape(line), 'cyan')}" for line in command.splitlines()]


def wrap(text: str, look: Look, indent: str, following: str | None = None) -> list[str]:
    """Lines of at most the look's width; a word that is longer stays whole."""
    return textwrap.wrap(
        escape(text),
        look.width,
        initial_indent=indent,
        subsequent_indent=indent if following is None else following,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [indent]


def explain(finding: Finding, report: Report, look: Look) -> str:
    """One finding whole: what was read, which row, which source, what would fix it."""
    lines = [f"{_mark(finding, look)} {look.paint(finding.id, 'bold')}  ({finding.severity.value})"]
    lines += wrap(finding.title, look, "  ")
    lines += ["", *wrap(finding.message, look, "  ")]
    if finding.blocked_by:
        lines += wrap(f"explained by {finding.blocked_by}: look at that first", look, "  ")
    if finding.waived:
        lines += wrap(f"waived: {finding.waived}", look, "  ")
    if finding.want:
        lines += wrap(f"wanted: {finding.want}", look, "  ", "    ")
    lines += ["", look.paint("Read", "bold")]
    for item in finding.evidence:
        value = item.reason if item.value is None else item.value
        via = f"  [{item.via}]" if item.via else ""
        lines += wrap(f"{item.fact} = {value}{via}", look, "  ", "      ")
    lines += ["", look.paint("Source", "bold")]
    for source in finding.sources:
        basis = f", {source.basis}" if source.basis else ""
        lines += wrap(f"{source.id} ({source.as_of}{basis})", look, "  ", "      ")
        lines.append(f"      {escape(source.url)}")
    if finding.fix is not None:
        lines += ["", look.paint("Fix", "bold")]
        lines += wrap(
            f"{finding.fix.say} (class {finding.fix.kind}, disturbs {finding.fix.disturbs})",
            look,
            "  ",
        )
        if finding.fix.command:
            lines += command_lines(finding.fix.command, look, "    ")
    explained = [item.id for item in report.explained_by(finding.id)]
    if explained:
        lines += ["", *wrap("Explains: " + ", ".join(explained), look, "")]
    return "\n".join(lines)
