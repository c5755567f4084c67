"""Lists say the root cause first, what it explains under it, and show a host's text as text."""

from __future__ import annotations

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.tui.fact_rows import fact_rows, value_at
from doctor.tui.finding_rows import finding_rows
from doctor.tui.header import head_lines
from doctor.tui.plot import number_lines
from doctor.tui.row import Row, keep
from doctor.tui.state import ViewState, reduce_all
from tests.tui.play import events_of, recorded


def made(id: str, outcome: str, blocked_by: str | None = None, message: str = "m") -> Finding:
    severity = Severity.WARN if outcome == "warn" else Severity.ERROR
    return Finding(
        id=id,
        title=id,
        outcome=Outcome(outcome),
        severity=severity,
        message=message,
        blocked_by=blocked_by,
    )


def keys(rows: list[Row]) -> list[str]:
    return [row.key for row in rows]


def words(row: Row) -> str:
    return "".join(text for text, _ in row.parts)


FINDINGS = {
    item.id: item
    for item in (
        made("cuda.init-failed", "fail", blocked_by="driver.not-loaded"),
        made("driver.not-loaded", "fail"),
        made("driver.old", "warn"),
        made("limits.stack", "warn"),
        made("nccl.debug", "pass"),
    )
}


def test_the_area_of_the_root_cause_comes_first_and_blocked_findings_stand_under_it() -> None:
    assert keys(finding_rows(FINDINGS, "problems")) == [
        "area:driver",
        "driver.not-loaded",
        "cuda.init-failed",
        "driver.old",
        "area:limits",
        "limits.stack",
    ]


def test_many_blocked_findings_are_folded_until_asked_for() -> None:
    many = dict(FINDINGS)
    for number in range(20):
        item = made(f"nccl.x{number}", "unknown", blocked_by="driver.not-loaded")
        many[item.id] = item
    folded = finding_rows(many, "problems")
    root = next(row for row in folded if row.key == "driver.not-loaded")
    assert root.fold is True
    assert "explains 21 more" in words(root)
    assert len(folded) == 5
    opened = finding_rows(many, "problems", frozenset({"driver.not-loaded"}))
    assert len(opened) == 26


def test_shows() -> None:
    assert "nccl.debug" in keys(finding_rows(FINDINGS, "all"))
    assert keys(finding_rows(FINDINGS, "errors")) == [
        "area:driver",
        "driver.not-loaded",
        "cuda.init-failed",
    ]
    assert finding_rows(FINDINGS, "not seen") == []


def test_a_filter_needs_every_word_and_drops_empty_headings() -> None:
    rows = finding_rows(FINDINGS, "problems")
    assert keys(keep(rows, "WARN stack")) == ["area:limits", "limits.stack"]
    assert keep(rows, "nothing like it") == []


def test_outcomes_have_a_glyph_and_a_word() -> None:
    for row in finding_rows(FINDINGS, "all"):
        if row.selectable:
            assert any(word in words(row) for word in ("FAIL", "warn", "pass"))


def test_text_of_a_host_cannot_act_as_anything_else() -> None:
    evil = made(
        "driver.not-loaded",
        "fail",
        message="\x1b[31m[bold red]x[/]\x9b2J\u202e\n[@click=app.quit]q",
    )
    row = next(row for row in finding_rows({evil.id: evil}, "all") if row.selectable)
    said = words(row)
    assert said.isprintable()
    assert "\\x1b" in said
    assert "[bold red]x[/]" in said


def test_facts_unfold_area_by_area_and_into_values() -> None:
    facts = {
        "pci": {
            "gpus": {
                "state": "known",
                "value": [{"slot": "01:00.0", "x": {"y": 1}}],
                "via": "/sys",
            },
            "acs": {"state": "unknown", "reason": "denied \x07", "via": "lspci"},
        }
    }
    assert keys(fact_rows(facts, frozenset())) == ["pci"]
    opened = fact_rows(facts, frozenset({"pci", "pci.gpus", "pci.gpus/0", "pci.gpus/0/x"}))
    assert keys(opened) == [
        "pci",
        "pci.acs",
        "pci.gpus",
        "pci.gpus/0",
        "pci.gpus/0/slot",
        "pci.gpus/0/x",
        "pci.gpus/0/x/y",
    ]
    assert "not seen" in words(opened[1])
    assert "\\x07" in words(opened[1])
    assert value_at(facts, "pci.gpus/0/x/y") == ("pci.gpus", facts["pci"]["gpus"])


def test_the_head_says_verdict_and_next_step() -> None:
    state = reduce_all(ViewState(), events_of(recorded("h200x2-stub")))
    lines = ["".join(text for text, _ in parts) for parts in head_lines(state, None, 0.0)]
    assert lines[0].startswith("✗ BROKEN  1 error, 2 warnings")
    assert lines[2] == "Next: take the stubs folder out of LD_LIBRARY_PATH and of ld.so.conf"
    assert lines[3].startswith("  $ export LD_LIBRARY_PATH=")


def test_numbers_become_bars_with_the_number_beside() -> None:
    lines = [
        "".join(text for text, _ in parts)
        for parts in number_lines({"request_ms": {"p50": 10.0, "p99": 40.0}, "tokens_per_s": 12.5})
    ]
    assert lines[0] == "whole request"
    assert lines[1].count("█") == 4
    assert lines[2].endswith("40 ms")
    assert "throughput  12.5 tokens/s" in lines
