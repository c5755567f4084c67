"""The report as GitHub-flavoured Markdown, for issues, merge requests and chats. A host's text can start no markup, link or mention."""

from __future__ import annotations

import re

from doctor.checks.finding import Finding
from doctor.report.grouping import Group, counts, groups, plain_lines, seen_value
from doctor.report.model import Report
from doctor.report.plain import escape

MARKS = {
    "fail": "✗ fail",
    "warn": "! warn",
    "unknown": "? unknown",
    "pass": "✓ pass",
    "skip": "n/a",
}
_FOLDED = ("pass", "skip")
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$])")
_STARTS_A_BLOCK = re.compile(r"^(\s*)([-+=]|\d+[.)](?=\s|$))")
_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
"""Written as entities: HTML and mentions are recognised whatever stands before them."""
_LINKS_ITSELF = re.compile(r":(?=//|\w+:)|(?<=www)\.", re.IGNORECASE)
"""The letter that makes an address a link or a word an emoji."""


def render(report: Report) -> str:
    """The verdict, the next step, then the findings by what they mean."""
    about = [report.host.distribution, report.host.platform, f"as of {report.judged_as_of}"]
    found = counts(report)
    said = [f"{number} {key}" for key, number in found.items() if number]
    lines = [
        f"# {mark_up(report.host.name)}: {report.verdict}",
        "",
        ", ".join(mark_up(part) for part in about if part),
        "",
        f"**{report.verdict}** ({', '.join(said)})",
        "",
    ]
    if report.next is not None:
        lines += [f"**Next:** {mark_up(report.next.say)}", "", *code(report.next.command)]
    for group in groups(report):
        lines += _group(group)
    if report.unseen:
        rows = [[mark_up(item.fact), mark_up(item.reason)] for item in report.unseen]
        lines += fold(f"Facts not seen ({len(rows)})", table(["Fact", "Reason"], rows))
    return "\n".join(lines).rstrip() + "\n"


def _group(group: Group) -> list[str]:
    rows = [
        [MARKS[item.outcome.value], mark_up(item.id), mark_up(_said(item))]
        for item in group.findings
    ]
    found = table(["Outcome", "Finding", "Message"], rows)
    title = f"{group.title} ({len(rows)})"
    if group.key in _FOLDED:
        return fold(title, found)
    lines = [f"## {title}", "", *found]
    for item in group.findings:
        lines += fold(f"{mark_up(item.id)}: evidence, fix and sources", _details(item))
    return lines


def _said(finding: Finding) -> str:
    if finding.waived is not None:
        return f"{finding.message} (waived: {finding.waived})"
    if finding.blocked_by is not None:
        return f"explained by {finding.blocked_by}: {finding.message}"
    return f"{finding.message} (wanted: {finding.want})" if finding.want else finding.message


def _details(finding: Finding) -> list[str]:
    lines: list[str] = []
    if finding.fix is not None and finding.violated:
        disturbs = f" (disturbs: {finding.fix.disturbs})"
        lines += [f"Fix{disturbs}: {mark_up(finding.fix.say)}", "", *code(finding.fix.command)]
    rows = [[mark_up(i.fact), mark_up(seen_value(i)), mark_up(i.via)] for i in finding.evidence]
    if rows:
        lines += table(["Fact", "Value", "Read from"], rows)
    for item in finding.sources:
        lines.append(f"- {mark_up(item.id)} ({mark_up(item.as_of)}): {link(item.url)}")
    return [*lines, ""] if finding.sources else lines


def link(url: str) -> str:
    """A link only where the address is one; else its text."""
    is_address = re.fullmatch(r"https?://[^\s<>\"\\^`{|}]+", url) is not None and url.isascii()
    return f"<{url}>" if is_address else mark_up(url)


def fold(title: str, inside: list[str]) -> list[str]:
    """Something to unfold."""
    return [f"<details><summary>{title}</summary>", "", *inside, "</details>", ""]


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Rows of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(cell or ' ' for cell in line)} |" for line in lines), ""]


def code(command: str | None) -> list[str]:
    """A fenced block whose fence is longer than any run of backticks inside."""
    lines = plain_lines(command)
    if not lines:
        return []
    longest = max((len(run) for run in re.findall("`+", "\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", *lines, fence, ""]


def mark_up(text: str) -> str:
    """Text as Markdown that shows exactly this text."""
    shown = _STARTS_A_BLOCK.sub(_defused, _SPECIAL.sub(r"\\\1", escape(text)))
    shown = "".join(_NAMED.get(letter, letter) for letter in shown)
    return _LINKS_ITSELF.sub(lambda found: f"&#{ord(found[0])};", shown)


def _defused(start: re.Match[str]) -> str:
    return f"{start[1]}{start[2][:-1]}\\{start[2][-1]}"
