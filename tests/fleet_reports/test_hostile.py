"""Whatever a host, an inventory or an answer says stays text in every format of an audit."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from doctor.report.formats import FORMATS
from doctor.report.plain import escape
from tests.fleet_reports.sample import audit, write
from tests.report.test_hostile import HOSTILE

HARMLESS = "harmless"


class _Page(HTMLParser):
    """Tags, attributes and the text of data blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: set[str | None] = set()
        self.inside = ""
        self.blocks: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.attributes |= set(found)
        self.links |= {found[name] for name in ("href", "src") if name in found}
        self.inside = (found.get("id") or "") if tag == "script" else ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.blocks[self.inside] = self.blocks.get(self.inside, "") + data


def _page(shown: str) -> _Page:
    page = _Page()
    page.feed(shown)
    return page


def _html(hostile: str, shown: str) -> None:
    page, harmless = _page(shown), _page(write("html", audit(HARMLESS)))
    assert page.tags == harmless.tags
    assert page.attributes == harmless.attributes
    assert page.links == harmless.links
    assert set(page.blocks) == {"hosts", "tables"}
    assert escape(hostile) in json.loads(page.blocks["tables"])["texts"]
    assert len(json.loads(page.blocks["hosts"])) == 7


def _junit(hostile: str, shown: str) -> None:
    root = ET.fromstring(shown)
    assert len(root) == 8
    assert escape(hostile) in {suite.get("name") for suite in root}
    assert {element.tag for element in root.iter()} == {
        element.tag for element in ET.fromstring(write("junit", audit(HARMLESS))).iter()
    }


def _csv(hostile: str, shown: str) -> None:
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert len(rows) == len(list(csv.DictReader(io.StringIO(write("csv", audit(HARMLESS))))))
    assert escape(hostile).removeprefix("'") in {row["host"].removeprefix("'") for row in rows}
    for cell in (cell for row in rows for cell in row.values()):
        assert not cell.lstrip().startswith(tuple("=+-@\uff1d"))


def _jsonl(hostile: str, shown: str) -> None:
    lines = [json.loads(line) for line in shown.splitlines()]
    assert len(lines) == len(write("jsonl", audit(HARMLESS)).splitlines())
    assert hostile in {line.get("message") for line in lines}


def _json(hostile: str, shown: str) -> None:
    assert hostile in {host["name"] for host in json.loads(shown)["hosts"]}


def _sarif(hostile: str, shown: str) -> None:
    run = json.loads(shown)["runs"][0]
    names = {
        place["name"]
        for result in run["results"]
        for location in result["locations"]
        for place in location["logicalLocations"]
    }
    assert escape(hostile) in names
    for result in run["results"]:
        assert not re.search(r"(?<!\\)\]\(", result["message"]["text"])


def _prometheus(hostile: str, shown: str) -> None:
    def samples(text: str) -> list[tuple[str, tuple[str, ...]]]:
        families = text_string_to_metric_families(text)
        return [(s.name, tuple(sorted(s.labels))) for family in families for s in family.samples]

    assert sorted(samples(shown)) == sorted(samples(write("prometheus", audit(HARMLESS))))
    families = {item.name: item for item in text_string_to_metric_families(shown)}
    assert escape(hostile) in {item.labels["host"] for item in families["doctor_verdict"].samples}
    assert escape(hostile) in {
        item.labels["group"] for item in families["doctor_host_group"].samples
    }


def _markdown(hostile: str, shown: str) -> None:
    reader = MarkdownIt("gfm-like", {"html": True, "linkify": True})
    blocks = reader.parse(shown)
    harmless = reader.parse(write("markdown", audit(HARMLESS)))
    assert [block.type for block in blocks] == [block.type for block in harmless]
    inline = [child for block in blocks for child in block.children or []]
    calm = [child for block in harmless for child in block.children or []]
    assert {child.type for child in inline} <= {child.type for child in calm} | {"text_special"}
    assert {child.attrGet("href") for child in inline if child.type == "link_open"} == {
        child.attrGet("href") for child in calm if child.type == "link_open"
    }
    raw = [block.content for block in blocks if block.type == "html_block"]
    assert raw == [block.content for block in harmless if block.type == "html_block"]


def _text(hostile: str, shown: str) -> None:
    squeezed = "".join(shown.split())
    assert "".join(escape(hostile).split()) in squeezed


READ_BACK: dict[str, Callable[[str, str], None]] = {
    "html": _html,
    "junit": _junit,
    "csv": _csv,
    "jsonl": _jsonl,
    "json": _json,
    "sarif": _sarif,
    "prometheus": _prometheus,
    "markdown": _markdown,
    "text": _text,
}


def test_every_format_is_read_back() -> None:
    assert set(READ_BACK) == set(FORMATS)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("format_", FORMATS)
def test_a_host_s_text_stays_text(format_: str, hostile: str) -> None:
    shown = write(format_, audit(hostile, host=hostile, group=hostile))
    READ_BACK[format_](hostile, shown)
    if format_ != "json":  # programs read it; it keeps what was read
        hidden = {letter for letter in shown if not letter.isprintable()} - {"\n"}
        assert hidden == set()
