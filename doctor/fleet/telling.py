"""What of a host's report an audit's report tells: findings that did not pass, without facts. A tenth of the work of reading it whole."""

from __future__ import annotations

import re

import msgspec

from doctor.checks.finding import Finding
from doctor.checks.verdict import Verdict
from doctor.facts.identity import HostName
from doctor.report.model import Next, Report


class _Told(msgspec.Struct):
    schema: str
    doctor: str
    host: HostName
    judged_as_of: str
    verdict: Verdict
    exit_code: int
    next: Next | None
    findings: list[msgspec.Raw]


_TOLD = msgspec.json.Decoder(_Told)
_FINDING = msgspec.json.Decoder(Finding)
_QUIET = re.compile(rb'\{"id":"[^"\\]*","title":"[^"\\]*","outcome":"(?:pass|skip)"[,}]')
"""A finding, as we write it, that passed or does not apply. From its start, so that nothing a host says can look like it."""


def telling(content: bytes) -> Report:
    """The report in JSON, without facts and without most of what passed or does not apply. msgspec.DecodeError when it is none."""
    read = _TOLD.decode(content)
    return Report(
        schema=read.schema,
        doctor=read.doctor,
        host=read.host,
        judged_as_of=read.judged_as_of,
        verdict=read.verdict,
        exit_code=read.exit_code,
        next=read.next,
        findings=[_FINDING.decode(raw) for raw in read.findings if not _QUIET.match(raw)],
        facts={},
        unseen=[],
        timing_ms={},
    )
