"""From an error message or log to ranked explanations: known symptoms, Xid and CUDA codes; then the host's own findings decide.

Nothing is guessed: a text that fits no known symptom well enough has no explanation, and that is the answer.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from doctor.checks.finding import Citation, Finding, Outcome

if TYPE_CHECKING:
    from doctor.checks.knowledge import Knowledge
    from doctor.matrix.model import KnownIssue

LIKELY, POSSIBLE = 75, 50
"""Scores from which an explanation is called likely, or is worth showing at all."""
MAX_TEXT = 2_000_000
"""Characters read of a log: its end, where the error is."""

HostSays = Literal["confirmed", "contradicted", "not seen", "not judged"]

_WORD = re.compile(r"[a-z_][a-z0-9_]*|\d+(?:\.\d+)+|\d{2,}")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_STATUS = re.compile(
    r"(?:cuda|cuinit|cudagetdevicecount|error code|error|returned|status)\D{0,24}?[ :(=]+(\d{2,3})\b",
    re.IGNORECASE,
)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One finding that would explain the text. score: 0 to 100."""

    finding: str
    score: int
    matched: str
    """The words of the text, or the symptom, that fit."""
    cause: str
    remedy: list[str]
    host: HostSays
    host_message: str
    command: str | None
    sources: list[Citation]

    @property
    def rank(self) -> str:
        """likely, possible or weak."""
        return (
            "likely" if self.score >= LIKELY else "possible" if self.score >= POSSIBLE else "weak"
        )


def explain(
    text: str, knowledge: Knowledge, findings: Mapping[str, Finding] | None = None
) -> list[Explanation]:
    """Explanations worth showing, the best first; empty when nothing fits."""
    log = _normal(_ESCAPES.sub("", text[-MAX_TEXT:]))
    by_finding: dict[str, Explanation] = {}
    for explanation in _candidates(text, log, knowledge, findings or {}):
        best = by_finding.get(explanation.finding)
        if best is None or explanation.score > best.score:
            by_finding[explanation.finding] = explanation
    shown = [item for item in by_finding.values() if item.score >= POSSIBLE]
    return sorted(shown, key=lambda item: (-item.score, item.finding))


def _candidates(
    text: str, log: str, knowledge: Knowledge, findings: Mapping[str, Finding]
) -> Iterable[Explanation]:
    from doctor.matrix.model import KnownIssue

    issues = knowledge.matrix.rows(KnownIssue)
    weights = _weights(issues)
    words = set(_WORD.findall(log))
    codes = {int(code) for code in _STATUS.findall(log)}
    for issue in issues:
        score, matched = _score(issue, log, words, codes, weights)
        if score >= POSSIBLE - 20:
            yield _explanation(issue, score, matched, knowledge, findings)
    yield from _xids(text, knowledge, findings)


def _score(
    issue: KnownIssue, log: str, words: set[str], codes: set[int], weights: Mapping[str, float]
) -> tuple[int, str]:
    best, matched = 0, ""
    for symptom in issue.symptoms:
        score = _symptom(_normal(symptom), log, words, codes, weights)
        if score > best:
            best, matched = score, symptom
    return best, matched


def _symptom(
    symptom: str, log: str, words: set[str], codes: set[int], weights: Mapping[str, float]
) -> int:
    """How well one symptom fits: whole and rare is best; otherwise the weight of its words that the text has."""
    tokens = set(_WORD.findall(symptom))
    total = sum(weights.get(token, 1.0) for token in tokens)
    if not tokens:
        return 0
    if symptom in log:
        return min(96, 55 + int(total * 5))
    numbers = {int(token) for token in tokens if token.isdigit() and len(token) == 3}
    if numbers and numbers <= codes and "error" in symptom:
        return 85
    share = sum(weights.get(token, 1.0) for token in tokens & words) / total
    if len(tokens) < 3 or share < 0.6:
        return 0
    return int(30 + 50 * (share - 0.5) * 1.8)


def _weights(issues: Iterable[KnownIssue]) -> dict[str, float]:
    """Rare words of symptoms weigh more: log of how many issues do without them."""
    counts: Counter[str] = Counter()
    number = 0
    for issue in issues:
        number += 1
        counts.update({word for text in issue.symptoms for word in _WORD.findall(_normal(text))})
    return {word: math.log(1 + number / count) for word, count in counts.items()}


def _explanation(
    issue: KnownIssue,
    score: int,
    matched: str,
    knowledge: Knowledge,
    findings: Mapping[str, Finding],
) -> Explanation:
    host, message, command = _host(findings.get(issue.finding))
    if host == "confirmed":
        score = min(100, score + 15)
    elif host == "contradicted":
        score = max(0, score - 25)
    return Explanation(
        finding=issue.finding,
        score=score,
        matched=matched,
        cause=issue.cause,
        remedy=list(issue.remedy),
        host=host,
        host_message=message,
        command=command,
        sources=knowledge.citations_of(issue),
    )


def _host(finding: Finding | None) -> tuple[HostSays, str, str | None]:
    if finding is None:
        return "not judged", "no check of this host proves or refutes it", None
    command = finding.fix.command if finding.fix else None
    if finding.violated:
        return "confirmed", finding.message, command
    if finding.outcome is Outcome.PASS:
        return "contradicted", finding.message, None
    if finding.outcome is Outcome.SKIP:
        return "contradicted", f"does not apply: {finding.message}", None
    return "not seen", finding.message, command


def _xids(
    text: str, knowledge: Knowledge, findings: Mapping[str, Finding]
) -> Iterable[Explanation]:
    from doctor.matrix import query

    for pci, code in dict.fromkeys(_XID.findall(text)):
        row = query.xid(knowledge.matrix, int(code))
        if row is None:
            continue
        id = "gpu.xid-79" if int(code) == 79 else "gpu.xid"
        host, message, command = _host(findings.get(id))
        yield Explanation(
            finding=id,
            score=99 if host == "confirmed" else 97,
            matched=f"Xid {code} on {pci}",
            cause=row.meaning or row.name or f"Xid {code}",
            remedy=[row.immediate] if row.immediate else [],
            host=host,
            host_message=message,
            command=command,
            sources=knowledge.citations_of(row),
        )


def _normal(text: str) -> str:
    return re.sub(r"\s+", " ", text.lower().replace("’", "'").replace("`", "'")).strip()  # noqa: RUF001
