"""A plan as text: the answer first, then each thing with its reason, then the steps in order. Pure: Plan -> str."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from doctor.checks.finding import Citation
from doctor.plan.model import Plan, Step, Target
from doctor.report.plain import escape
from doctor.report.text import Look, wrap

_WORDS = {
    "satisfied": ("green", "✓", "ok", "nothing to change"),
    "changes": ("yellow", "!", "!", "changes"),
    "conflict": ("red", "✗", "x", "cannot be"),
    "unknown": ("cyan", "?", "?", "not everything was seen"),
}
_SOURCES = 4
"""Sources that a row of text names; JSON has all."""


def render(plan: Plan, look: Look) -> str:
    """The whole plan."""
    lines = [_head(plan, look), *_host(plan, look)]
    if plan.conflict is not None:
        lines += ["", look.paint("These cannot all hold", "bold")]
        for clash in plan.conflict:
            lines += wrap(f"- {clash.say}", look, "  ", "    ")
            lines += _cited(clash.sources, look)
    for item in plan.instead:
        lines += ["", *wrap(f"Instead: {item.say} (--want {item.want})", look, "", "  ")]
    if plan.target:
        lines += ["", look.paint("Target", "bold")]
        for row in plan.target:
            lines += _row(row, look)
    if plan.steps:
        lines += ["", look.paint("Steps", "bold")]
        for number, step in enumerate(plan.steps, 1):
            lines += _step(number, step, look)
    if plan.unseen:
        lines += ["", look.paint("Not seen, so not decided", "bold")]
        for hole in plan.unseen:
            lines += wrap(f"? {hole.fact}: {hole.reason}", look, "  ", "    ")
    return "\n".join(lines)


def to_json(plan: Plan) -> str:
    """The plan as JSON (doctor.plan/1)."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2).decode()


def _head(plan: Plan, look: Look) -> str:
    color, glyph, ascii_glyph, words = _WORDS[plan.status]
    mark = glyph if look.unicode else ascii_glyph
    wanted = ", ".join(escape(item) for item in plan.want) or "a working driver"
    return (
        look.paint(f"{mark} {plan.status.upper()}", color, "bold")
        + f"  {wanted}: {_count(plan, words)}"
    )


def _count(plan: Plan, words: str) -> str:
    many = f"{len(plan.steps)} step{'' if len(plan.steps) == 1 else 's'}"
    if plan.status == "changes":
        return many
    if plan.status == "satisfied" and plan.steps:
        return f"nothing has to change; {many} advised"
    return f"{len(plan.conflict)} reasons" if plan.conflict else words


def _host(plan: Plan, look: Look) -> list[str]:
    parts = [plan.host.name, plan.host.distribution, plan.host.platform]
    about = ", ".join(escape(part) for part in parts if part)
    return [look.paint(f"  {about + ', ' if about else ''}as of {plan.judged_as_of}", "dim")]


def _row(row: Target, look: Look) -> Iterator[str]:
    arrow = "→" if look.unicode else "->"
    value = (
        f"{row.have or 'none'} {arrow} {row.want}"
        if row.change or row.have != row.want
        else row.want
    )
    head = f"{'*' if row.change else ' '} {row.thing}"
    yield look.paint(f"  {escape(head)}", "bold") + f"  {escape(value)}"
    if row.why:
        yield from wrap(row.why, look, "      ")
    yield from _cited(row.sources, look)


def _step(number: int, step: Step, look: Look) -> Iterator[str]:
    name = step.id if step.remedy or step.findings else f"{step.id} (by hand)"
    disturbs = "disturbs nothing" if step.disturbs == "none" else f"disturbs: {step.disturbs}"
    yield f"  {number}. " + look.paint(escape(name), "bold") + f"  ({disturbs})"
    for change in step.changes:
        yield from wrap(change, look, "     ", "       ")
    if step.findings:
        yield from wrap(f"answers {', '.join(step.findings)}", look, "     ", "       ")


def _cited(sources: list[Citation], look: Look) -> Iterator[str]:
    if sources:
        named = ", ".join(item.id for item in sources[:_SOURCES])
        more = f" and {len(sources) - _SOURCES} more" if len(sources) > _SOURCES else ""
        for line in wrap(f"[{named}{more}]", look, "      ", "       "):
            yield look.paint(line, "dim")
