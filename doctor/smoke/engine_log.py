"""Why an engine broke, from its log: the rules of `doctor diagnose`, the numbers the log gives, and the host's finding behind it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from doctor.checks.finding import Citation, Evidence, Finding
from doctor.diagnose import LIKELY, Explanation, explain
from doctor.redact import redact
from doctor.smoke.context import StageFailed
from doctor.smoke.model import fault

if TYPE_CHECKING:
    from doctor.smoke.context import Context

GPU_AREAS = ("gpu", "driver", "cuda", "nccl", "fabric", "pci", "wsl", "toolkit")
CONTRADICTED = 25
"""What diagnose takes off where the host's own check passed."""
SHOWN_LINES = 12
"""Lines of a log that go into the evidence."""
_ERROR = re.compile(r"\b(\w*Error|\w*Exception|FATAL|CRITICAL|error:|undefined symbol|Killed)\b")
_NOISE = re.compile(
    r"Traceback|^\s*(File \"|\^+|~+|raise |except )|See (root cause|stack trace)"
    r"|failed to automatically increase"
)
_GIB = r"([\d.]+)\s*([KMGT]i?B)"
_NUMBERS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (
        re.compile(
            rf"Tried to allocate {_GIB}.*?total capacity of {_GIB} of which {_GIB} is free",
            re.DOTALL,
        ),
        ("tried to allocate", "total", "free"),
    ),
    (
        re.compile(
            r"Free memory on device \S*\s*\(([\d.]+)/([\d.]+)\s*([GM]iB)\) on startup is less than desired"
            r" GPU memory utilization \(([\d.]+), ([\d.]+)\s*[GM]iB\)"
        ),
        ("free", "total", "unit", "utilization", "desired"),
    ),
    (
        re.compile(
            rf"{_GIB} KV cache is needed, which is larger than the available KV cache memory \({_GIB}\)"
        ),
        ("KV cache needed", "KV cache available"),
    ),
    (re.compile(r"bind on address \('[^']*', (\d+)\)", re.IGNORECASE), ("port",)),
    (re.compile(r"address already in use: \('[^']*', (\d+)\)", re.IGNORECASE), ("port",)),
)
"""What a log says in numbers, and what each of them is."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says."""

    explanation: Explanation | None
    """The best one, when it is at least likely."""
    cause: Finding | None
    """The host's finding that confirms it."""
    lines: list[str]
    """The lines to show."""
    numbers: dict[str, str]


def read(ctx: Context, text: str) -> Reading:
    """Explain a log and look for the host fact behind it."""
    judged = {id: item for id, item in ctx.findings.items() if _concerns(ctx, id)}
    explanations = explain(text, ctx.knowledge, judged) if text.strip() else []
    likely = [
        item for item in explanations if _fit(item) >= LIKELY and _concerns(ctx, item.finding)
    ]
    likely.sort(key=lambda item: (item.host != "confirmed", -_fit(item)))
    best = next(iter(likely), None)
    cause = ctx.finding(best.finding) if best and best.host == "confirmed" else None
    if cause is not None and cause.blocked_by:
        cause = ctx.finding(cause.blocked_by) or cause
    return Reading(
        explanation=best, cause=cause, lines=telling_lines(text), numbers=numbers_of(text)
    )


def _fit(item: Explanation) -> int:
    """How well the words fit. The host's check was before the engine ran: what it passed may have changed, or be of another place."""
    return item.score + (CONTRADICTED if item.host == "contradicted" else 0)


def _concerns(ctx: Context, id: str) -> bool:
    """An engine on the CPU does not break for want of a GPU."""
    return ctx.uses_gpus or id.partition(".")[0] not in GPU_AREAS


def broken(
    ctx: Context,
    stage: str,
    name: str,
    title: str,
    message: str,
    text: str,
    log: str,
    *,
    want: str,
    say: str = "",
    evidence: Sequence[Evidence] = (),
) -> StageFailed:
    """The failure of a rung whose engine left a log. The fault is named by what explains the log, else by `name`."""
    reading = read(ctx, text)
    found = reading.explanation
    shown = [
        Evidence(fact=f"log.{number}", value=line, via=log)
        for number, line in enumerate(reading.lines, 1)
    ]
    shown += [
        Evidence(fact=f"log.{key.replace(' ', '-')}", value=value, via=log)
        for key, value in reading.numbers.items()
    ]
    advice = _advice(ctx, reading, say, log)
    parts = [message, *_in_words(reading)]
    return StageFailed(
        fault(
            stage,
            _fault_name(found, name),
            title,
            "; ".join(parts),
            want=want,
            say=advice[0],
            command=advice[1],
            kind=reading.cause.fix.kind if reading.cause and reading.cause.fix else "manual",
            disturbs=reading.cause.fix.disturbs if reading.cause and reading.cause.fix else "none",
            evidence=[*evidence, *shown, *(reading.cause.evidence if reading.cause else [])],
            sources=_sources(reading),
            blocked_by=reading.cause.id if reading.cause else None,
        ),
        files=[log],
    )


def telling_lines(text: str) -> list[str]:
    """The lines that name an error, each once, the first and the last of them; without any, the last lines."""
    lines = [plain for line in text.splitlines() if (plain := _plain(line))]
    found = list(
        dict.fromkeys(line for line in lines if _ERROR.search(line) and not _NOISE.search(line))
    )
    chosen = found or lines[-SHOWN_LINES:]
    if len(chosen) > SHOWN_LINES:
        chosen = chosen[: SHOWN_LINES // 2] + chosen[-SHOWN_LINES // 2 :]
    return [redact(line)[:400] for line in chosen]


def numbers_of(text: str) -> dict[str, str]:
    """What the log says in numbers: memory asked for, there and free; a port."""
    for pattern, names in _NUMBERS:
        match = pattern.search(text)
        if match is None:
            continue
        groups = [item for item in match.groups() if item is not None]
        if len(groups) == 2 * len(names):  # each with its unit
            groups = [f"{groups[i]} {groups[i + 1]}" for i in range(0, len(groups), 2)]
        return dict(zip(names, groups, strict=False))
    return {}


def _in_words(reading: Reading) -> list[str]:
    parts = []
    if reading.numbers:
        parts.append(", ".join(f"{name} {value}" for name, value in reading.numbers.items()))
    if reading.cause is not None:
        parts.append(f"behind it is {reading.cause.id}: {reading.cause.message}")
    elif reading.explanation is not None:
        found = reading.explanation
        passed = (
            f" (its check passed: {found.host_message})" if found.host == "contradicted" else ""
        )
        parts.append(f"the log fits {found.finding}: {found.cause}{passed}")
    elif reading.lines:
        parts.append(f"its log says first: {reading.lines[0][:200]}")
    return parts


def _advice(ctx: Context, reading: Reading, say: str, log: str) -> tuple[str, str | None]:
    if reading.cause is not None and reading.cause.fix is not None:
        return reading.cause.fix.say, reading.cause.fix.command
    file = shlex.quote(str(ctx.folder / log))
    if reading.explanation is not None:
        remedy = "; or ".join(reading.explanation.remedy)
        return remedy or say or "see the source", f"doctor diagnose - < {file}"
    return say or "read the log; its last errors are in the evidence", f"tail -n 60 {file}"


def _sources(reading: Reading) -> list[Citation]:
    if reading.cause is not None:
        return reading.cause.sources
    return reading.explanation.sources if reading.explanation else []


def _fault_name(found: Explanation | None, name: str) -> str:
    return found.finding.partition(".")[2].replace(".", "-") if found else name


def _plain(line: str) -> str:
    """Without the prefix that vLLM puts before each line, and without colours."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    line = re.sub(r"^\(\w+ pid=\d+\)\s*", "", line)
    return re.sub(
        r"^(ERROR|WARNING|INFO|CRITICAL)( \d\d-\d\d [\d:]+ \[[^\]]*\])?\s+", "", line
    ).strip()
