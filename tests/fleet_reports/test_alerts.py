"""Example alert rules and dashboard: every metric that they name is written, and each alert fires on what it is for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.fleet_reports.sample import audit, write

FOLDER = Path(__file__).parents[2] / "doctor" / "recipes"
RULES = FOLDER / "prometheus-alerts.yml"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))


def _written() -> dict[str, set[str]]:
    """Metric -> its labels, and those that a scrape adds."""
    found = {}
    for family in text_string_to_metric_families(write("prometheus", audit())):
        labels = {label for sample in family.samples for label in sample.labels}
        found[family.name] = labels | {"instance", "job"}
    return found


FOREIGN = {"node_textfile_mtime_seconds": {"file", "instance", "job"}}
"""Metric of node_exporter's textfile collector -> its labels."""


def _alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    variables = [
        item["query"]["query"]
        for item in DASHBOARD["templating"]["list"]
        if item["type"] == "query"
    ]
    return [*(rule["expr"] for rule in _alerts()), *panels, *variables]


@pytest.mark.parametrize("expression", _expressions())
def test_every_metric_and_label_that_is_named_is_written(expression: str) -> None:
    written = _written() | FOREIGN
    named = re.findall(r"\b((?:doctor|node)_\w+)(?:\{([^}]*)\})?", expression)
    assert named
    for metric, selector in named:
        assert metric in written, metric
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        assert labels <= written[metric], (metric, labels)


def test_labels_that_annotations_name_are_there() -> None:
    written = _written() | FOREIGN
    for rule in _alerts():
        (metric, *_) = re.findall(r"\b(?:doctor|node)_\w+", rule["expr"])
        said = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", said)) <= written[metric], rule["alert"]


def test_nothing_is_a_number_where_nothing_was_seen() -> None:
    for expression in _expressions():
        assert not re.search(r"\b(vector|absent|scalar)\(", expression), expression


def test_the_dashboard_holds_together() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)  # no panel on another
    assert max(x for x, _ in cells) < 24
    names = {item["name"] for item in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used <= names
    for panel in DASHBOARD["panels"]:
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Grafana's SDK needs Python 3.11")
def test_grafana_s_own_models_read_all_of_the_dashboard() -> None:
    """What they do not know they drop: a misspelt key, an option that a panel does not have."""
    assert _dropped(DASHBOARD) == []
    wrong = json.loads(json.dumps(DASHBOARD).replace('"fieldConfig"', '"fieldsConfig"', 1))
    wrong["panels"][1]["options"]["noSuchOption"] = 1
    assert _dropped(wrong) == [
        "panels.0.fieldsConfig",
        "panels.1.options.noSuchOption",
    ]


def _dropped(dashboard: Any) -> list[str]:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    return list(_lost(dashboard, json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))))


def _lost(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    if isinstance(given, dict) and isinstance(kept, dict):
        items = [(key, value, kept.get(key)) for key, value in given.items()]
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        items = [(str(place), *both) for place, both in enumerate(zip(given, kept, strict=True))]
    else:
        if given != kept:
            yield path
        return
    for key, value, its in items:
        yield from _lost(value, its, f"{path}.{key}".lstrip("."))


def _promtool(*arguments: str) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "the e2e tier needs promtool (Debian: prometheus)"
    ran = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.e2e
def test_promtool_reads_the_rules() -> None:
    _promtool("check", "rules", str(RULES))


@pytest.mark.e2e
def test_each_alert_fires_on_what_it_is_for(tmp_path: Path) -> None:
    cases = (Path(__file__).with_name("alerts_test.yml")).read_text(encoding="utf-8")
    fired = set(re.findall(r"alertname: (\w+)", cases))
    assert fired == {rule["alert"] for rule in _alerts()}
    file = tmp_path / "alerts_test.yml"
    file.write_text(cases.replace("RULES", str(RULES)), encoding="utf-8")
    _promtool("test", "rules", str(file))


@pytest.mark.e2e
def test_the_dashboard_s_expressions_are_promql(tmp_path: Path) -> None:
    """As recording rules, which promtool parses; a variable stands only inside quotes."""
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"x:y{place}", "expr": expression}
        for place, expression in enumerate(expressions)
    ]
    file = tmp_path / "dashboard.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}), encoding="utf-8")
    _promtool("check", "rules", str(file))
