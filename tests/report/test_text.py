"""The text report: verdict first, one next step, root causes before what they explain, host text shown as text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from doctor.checks.finding import Citation, Evidence, Finding, FixAdvice, Outcome, Severity
from doctor.checks.verdict import Verdict
from doctor.facts.identity import HostName
from doctor.report.model import Report, next_step
from doctor.report.plain import escape
from doctor.report.text import Look, explain, render

SOURCE = Citation(id="guide", url="https://example.org/guide", as_of="2026-11-30")


def finding(id: str, outcome: Outcome, severity: Severity = Severity.ERROR, **more: Any) -> Finding:
    violated = outcome in (Outcome.FAIL, Outcome.WARN)
    fix = FixAdvice(kind="manual", say=f"mend {id}", command=f"mend --now {id}", disturbs="service")
    base: dict[str, Any] = {
        "id": id,
        "title": f"title of {id}",
        "outcome": outcome,
        "severity": severity,
        "message": f"message of {id}",
        "evidence": [Evidence(fact="host.name", value="h", via="/etc/hostname")],
        "want": "better" if violated else None,
        "sources": [SOURCE],
        "fix": fix if violated else None,
    }
    return Finding(**{**base, **more})


def report(*findings: Finding, verdict: Verdict = "broken") -> Report:
    return Report(
        doctor="0",
        host=HostName(name="h", platform="vm", distribution="Ubuntu 24.04"),
        judged_as_of="2026-11-30",
        verdict=verdict,
        exit_code=1,
        next=next_step(list(findings)),
        findings=list(findings),
        facts={},
        unseen=[],
        timing_ms={},
    )


FULL = report(
    finding("cuda.a", Outcome.FAIL, blocked_by="driver.b"),
    finding("driver.b", Outcome.FAIL),
    finding("kernel.c", Outcome.WARN, Severity.WARN),
    finding("gpu.d", Outcome.PASS),
    finding("nccl.e", Outcome.UNKNOWN),
    finding("host.f", Outcome.WARN, Severity.INFO),
    finding("pci.g", Outcome.SKIP),
)


def test_whole_text() -> None:
    assert render(FULL, Look()).splitlines() == [
        "✗ BROKEN  1 error, 1 warning, 1 note, 1 passed, 1 not seen",
        "  h, Ubuntu 24.04, vm (as of 2026-11-30)",
        "",
        "Next: mend driver.b",
        "  $ mend --now driver.b",
        "",
        "Errors",
        "  ✗ FAIL driver.b",
        "      message of driver.b",
        "      wanted: better",
        "      explains: cuda.a",
        "",
        "Warnings",
        "  ! warn kernel.c",
        "      message of kernel.c",
        "      wanted: better",
        "      fix (disturbs: service): mend kernel.c",
        "        $ mend --now kernel.c",
        "",
        "Notes",
        "  ! warn host.f",
        "      message of host.f",
        "",
        "Not seen",
        "  ? unknown nccl.e: message of nccl.e",
        "",
        "  doctor explain driver.b: what was read, which rule, which source",
        "  doctor check -v: passes and evidence",
    ]


def test_a_blocked_finding_is_never_a_peer() -> None:
    text = render(FULL, Look())
    assert "FAIL cuda.a" not in text


def test_verbose_shows_passes_skips_and_sources() -> None:
    text = render(FULL, Look(verbose=True))
    for part in (
        "gpu.d: message of gpu.d",
        "pci.g: message of pci.g",
        "https://example.org/guide (2026-11-30)",
    ):
        assert part in text


def test_healthy_says_so_with_what_was_not_seen() -> None:
    quiet = report(
        finding("gpu.d", Outcome.PASS),
        finding("kernel.c", Outcome.UNKNOWN, Severity.WARN),
        verdict="healthy",
    )
    assert render(quiet, Look()).splitlines()[0] == "✓ HEALTHY  1 passed, 1 not seen"


def test_checks_that_one_reason_kept_from_seeing_share_a_line() -> None:
    under_sudo = [
        finding(id, Outcome.UNKNOWN, Severity.WARN, message=f"{what}: sudo resets it")
        for id, what in (("a.a", "$A"), ("b.b", "$B"), ("c.c", "$A"))
    ]
    alone = finding("d.d", Outcome.UNKNOWN, Severity.WARN, message="/etc/d: permission denied")
    text = render(report(*under_sudo, alone, verdict="healthy"), Look())
    assert "? unknown a.a, b.b, c.c: $A, $B: sudo resets it\n" in text
    assert "? unknown d.d: /etc/d: permission denied\n" in text
    whole = render(report(*under_sudo, alone, verdict="healthy"), Look(verbose=True))
    assert "? unknown b.b: $B: sudo resets it\n" in whole


def test_colour_is_never_alone() -> None:
    colored = render(FULL, Look(color=True))
    assert "\x1b[31m✗ FAIL\x1b[0m" in colored


@pytest.mark.parametrize("verbose", [False, True])
def test_without_its_colours_it_is_the_plain_text(verbose: bool) -> None:
    colored = render(FULL, Look(color=True, verbose=verbose))
    plain = render(FULL, Look(verbose=verbose))
    assert "? unknown" in plain
    assert re.sub(r"\x1b\[[\d;]+m", "", colored) == plain


@pytest.mark.parametrize(
    "hostile", ["a\x1b[31mred", "b\x07", "c\u202egnp.exe", "d\x9b31m", "e\u2028f"]
)
def test_text_of_a_host_is_shown_as_text(hostile: str) -> None:
    shown = render(report(finding("driver.b", Outcome.FAIL, message=hostile)), Look())
    assert not set(hostile) & set(shown) - set("abcdefgnpx.red[31m ")
    assert escape(escape(hostile)) == escape(hostile)


def test_explain_names_source_and_class() -> None:
    text = explain(FULL.findings[1], FULL, Look())
    for part in (
        "driver.b  (error)",
        "host.name = h  [/etc/hostname]",
        "guide (2026-11-30)",
        "class manual",
    ):
        assert part in text
