"""YAML rules: strict to load, closed operators, and the same four states as Python checks."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from doctor.checks.base import judge
from doctor.checks.finding import Outcome
from doctor.checks.knowledge import Knowledge
from doctor.checks.yaml_rules import _check, read_rules
from doctor.errors import MatrixError
from doctor.facts.tree import decode

KNOWLEDGE = Knowledge(date(2026, 11, 30))
RULE = """- id: host.few-cpus
  title: Enough processors
  severity: warn
  applies:
    - {fact: host.machine, op: eq, value: x86_64}
  claim: {fact: host.cpus, op: ge, value: 8}
  pass: "{fact} processors"
  fail: "{fact} processors, wanted {want}"
  want: "at least {want}"
  fix: {say: more, command: more}
  sources: [cuda-environment-variables]
"""


def known(value: object) -> dict[str, object]:
    return {"state": "known", "value": value, "via": "v"}


def outcome(tmp_path: Path, text: str, **host: object) -> Outcome:
    file = tmp_path / "r.yml"
    file.write_text(text)
    (rule,) = read_rules(file)
    return judge(_check(rule), decode({"host": host}), KNOWLEDGE).outcome


def test_the_four_states(tmp_path: Path) -> None:
    machine = known("x86_64")
    assert outcome(tmp_path, RULE, machine=machine, cpus=known(16)) is Outcome.PASS
    assert outcome(tmp_path, RULE, machine=machine, cpus=known(4)) is Outcome.WARN
    assert outcome(tmp_path, RULE, machine=machine) is Outcome.UNKNOWN
    assert outcome(tmp_path, RULE, machine=known("aarch64"), cpus=known(4)) is Outcome.SKIP
    assert outcome(tmp_path, RULE, cpus=known(4)) is Outcome.UNKNOWN
    assert (
        outcome(tmp_path, RULE, machine=machine, cpus={"state": "absent", "via": "v"})
        is Outcome.SKIP
    )
    absent = RULE.replace("value: 8}", "value: 8, if_absent: fail}")
    assert (
        outcome(tmp_path, absent, machine=machine, cpus={"state": "absent", "via": "v"})
        is Outcome.WARN
    )


GPUS = """- id: gpu.small
  title: Memory
  severity: error
  claim: {fact: nvml.gpus, field: memory_total, op: ge, value: 100}
  pass: "{fact}"
  fail: "{fact}"
  want: "{want}"
  fix: {say: more, command: more}
  sources: [cuda-environment-variables]
"""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([known(200), known(150)], Outcome.PASS),
        ([known(200), known(50)], Outcome.FAIL),
        ([known(200), {"state": "unknown", "reason": "r", "via": "v"}], Outcome.UNKNOWN),
        ([known(50), {"state": "unknown", "reason": "r", "via": "v"}], Outcome.FAIL),
        ([{"state": "not-applicable", "reason": "r"}], Outcome.SKIP),
    ],
)
def test_each_record(tmp_path: Path, fields: list[object], expected: Outcome) -> None:
    file = tmp_path / "r.yml"
    file.write_text(GPUS)
    gpus = {
        f"GPU-{index}": {"index": index, "memory_total": field}
        for index, field in enumerate(fields)
    }
    (rule,) = read_rules(file)
    finding = judge(_check(rule), decode({"nvml": {"gpus": known(gpus)}}), KNOWLEDGE)
    assert finding.outcome is expected
    if expected is Outcome.FAIL:
        assert any(item.fact.startswith("nvml.gpus.GPU-") for item in finding.evidence)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("op: ge", "op: atleast", "no operator is called atleast"),
        ("fact: host.cpus", "fact: host.cpu", "no fact is called host.cpu"),
        ("severity: warn", "severity: fatal", "fatal"),
        ("  want:", "  wants:", "unknown field"),
        ("command: more", "disturbs: none", "fix.command"),
        ("value: 8}", "value: 8, as: drivers}", "no type is called drivers"),
        (
            "- {fact: host.machine, op: eq, value: x86_64}",
            "- {fact: host.machine}",
            "present, absent or op",
        ),
        ("id: host.few-cpus", "id: [", "not YAML"),
    ],
)
def test_a_wrong_rule_is_an_error_with_file_and_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    file = tmp_path / "wrong.yml"
    file.write_text("# first line\n" + RULE.replace(old, new))
    with pytest.raises(MatrixError) as caught:
        read_rules(file)
    assert says in str(caught.value)
    assert caught.value.file == "wrong.yml"
    assert caught.value.line >= 2


def test_versions_are_compared_as_versions(tmp_path: Path) -> None:
    rule = RULE.replace(
        "host.cpus, op: ge, value: 8", "host.glibc, op: ge, value: '2.9', as: glibc"
    )
    assert outcome(tmp_path, rule, machine=known("x86_64"), glibc=known("2.39")) is Outcome.PASS
    assert outcome(tmp_path, rule, machine=known("x86_64"), glibc=known("2.5")) is Outcome.WARN
    assert outcome(tmp_path, rule, machine=known("x86_64"), glibc=known("two")) is Outcome.UNKNOWN
