"""A plan as rows and as what is said of one row. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.plan.model import Plan, Step
from doctor.tui import detail
from doctor.tui.row import Part, Row, safe
from doctor.tui.state import StepView

STATUS = {
    "satisfied": ("✓", "pass", "nothing to change"),
    "changes": ("!", "warn", "changes"),
    "conflict": ("✗", "fail", "these cannot all hold"),
    "unknown": ("?", "unknown", "not everything was seen"),
}
STEP_MARKS = {
    "running": ("·", "bold"),
    "waiting": ("!", "warn"),
    "planned": ("·", "dim"),
    "not-applied": ("–", "warn"),  # noqa: RUF001 - the house's glyph for n/a
    "failed": ("✗", "fail"),
    "unverified": ("?", "unknown"),
    "verified": ("✓", "pass"),
}


def title(plan: Plan) -> list[Part]:
    """What the plan says in one line."""
    glyph, style, words = STATUS[plan.status]
    wanted = ", ".join(safe(item) for item in plan.want) or "a working driver"
    steps = f"{len(plan.steps)} step{'s' * (len(plan.steps) != 1)}" if plan.steps else words
    return [(f"{glyph} {plan.status.upper()}  ", style), (f"{wanted}: {steps}", "")]


def plan_rows(plan: Plan, approved: frozenset[str], done: Mapping[str, StepView]) -> list[Row]:
    """The conflict or the steps first, then the target they lead to."""
    rows: list[Row] = []
    for number, clash in enumerate(plan.conflict or []):
        if not number:
            rows.append(_head("These cannot all hold"))
        parts: list[Part] = [("  ✗ ", "fail"), (safe(clash.say), "")]
        rows.append(_row(f"clash:{number}", parts))
    for number, other in enumerate(plan.instead):
        parts = [
            ("  → ", "pass"),
            (safe(other.say), ""),
            (f"  --want {safe(other.want)}", "command"),
        ]
        rows.append(_row(f"instead:{number}", parts))
    if plan.steps:
        rows.append(_head("Steps"))
    for number, step in enumerate(plan.steps, 1):
        rows.append(_step_row(number, step, step.id in approved, done.get(step.id)))
    if plan.target:
        rows.append(_head("Target"))
    for target in plan.target:
        change = target.have or "none"
        said = (
            f"{safe(change)} → {safe(target.want)}"
            if target.change or target.have != target.want
            else safe(target.want)
        )
        parts = [
            ("  * " if target.change else "    ", "warn"),
            (f"{safe(target.thing)}  ", "bold"),
            (said, ""),
        ]
        rows.append(_row(f"target:{target.thing}", parts))
    if plan.unseen:
        rows.append(_head("Not seen, so not decided"))
    for hole in plan.unseen:
        parts = [("  ? ", "unknown"), (safe(hole.fact), "bold"), (f"  {safe(hole.reason)}", "dim")]
        rows.append(_row(f"unseen:{hole.fact}", parts))
    return rows


def _head(text: str) -> Row:
    return Row(f"head:{text}", ((text, "head"),), selectable=False)


def _row(key: str, parts: list[Part]) -> Row:
    return Row(key, tuple(parts), "".join(text for text, _ in parts).lower())


def _step_row(number: int, step: Step, approved: bool, done: StepView | None) -> Row:
    box = ("  [x] " if approved else "  [ ] ") if step.remedy else "  by hand "
    parts: list[Part] = [
        (box, "bold" if approved else ""),
        (f"{number} ", "dim"),
        (safe(step.id), "bold"),
    ]
    if done is not None:
        glyph, style = STEP_MARKS.get(done.status, ("?", "unknown"))
        parts.append((f"  {glyph} {done.status}", style))
    disturbs = step.disturbs != "none"
    parts.append(
        (
            f"  disturbs {step.disturbs}" if disturbs else "  disturbs nothing",
            "warn" if disturbs else "dim",
        )
    )
    if step.changes:
        parts.append((f"  {safe(step.changes[0])}", "dim"))
    return _row(f"step:{step.id}", parts)


def row_lines(plan: Plan, key: str, done: Mapping[str, StepView]) -> detail.Lines:
    """What is said of the row under the cursor."""
    kind, _, name = key.partition(":")
    if kind == "step":
        step = next((item for item in plan.steps if item.id == name), None)
        return step_lines(step, done.get(name)) if step else []
    if kind == "target":
        for target in plan.target:
            if target.thing == name:
                have = safe(target.have or "none")
                lines: detail.Lines = [
                    [(safe(target.thing), "bold")],
                    [(f"{have} → {safe(target.want)}", "")],
                    [],
                ]
                return [*lines, [(safe(target.why), "")], *detail.sources(target.sources)]
    if kind == "clash" and plan.conflict:
        clash = plan.conflict[int(name)]
        return [
            [(safe(clash.rule), "bold")],
            [],
            [(safe(clash.say), "")],
            *detail.sources(clash.sources),
        ]
    if kind == "instead":
        other = plan.instead[int(name)]
        return [[(safe(other.say), "")], [], *detail.command(f"doctor plan --want '{other.want}'")]
    for hole in plan.unseen:
        if kind == "unseen" and hole.fact == name:
            return [[(safe(hole.fact), "bold")], [], [(safe(hole.reason), "")]]
    return []


def step_lines(step: Step, done: StepView | None) -> detail.Lines:
    """One step whole."""
    who = "a role does it" if step.remedy else "by hand: no role does this"
    lines: detail.Lines = [[(safe(step.id), "bold"), (f"  {who}", "dim")], []]
    lines += [[("· ", "dim"), (safe(change), "")] for change in step.changes]
    lines += detail.command(step.command)
    disturbs = "nothing" if step.disturbs == "none" else step.disturbs
    lines += [[], [("disturbs  ", "dim"), (disturbs, "warn" if disturbs != "nothing" else "")]]
    lines.append([("undo      ", "dim"), (f"{step.reversible}: {safe(step.undo)}", "")])
    if step.needs:
        lines.append([("after     ", "dim"), (", ".join(safe(item) for item in step.needs), "")])
    if step.findings:
        lines += [[], [("Answers", "head")], *([("  " + safe(id), "")] for id in step.findings)]
    if done is not None:
        glyph, style = STEP_MARKS.get(done.status, ("?", "unknown"))
        lines += [
            [],
            [("Last run", "head")],
            [(f"{glyph} {done.status}  ", style), (safe(done.say), "")],
        ]
        lines += [[(safe(item), "fail")] for item in done.failures]
        lines += diff_lines(done.diffs)
    return lines


def diff_lines(diffs: tuple[str, ...]) -> detail.Lines:
    """Differences as text; the sign in front says what the colour says."""
    styles = {"+": "pass", "-": "fail", "@": "command"}
    lines: detail.Lines = [[], [("Difference", "head")]] if diffs else []
    for diff in diffs:
        for line in diff.splitlines():
            named = line.startswith(("--- ", "+++ "))
            lines.append([(safe(line), "bold" if named else styles.get(line[:1], "dim"))])
    return lines
