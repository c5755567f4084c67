"""Whatever a host says stays text in every format."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families

from doctor.report.plain import escape
from tests.report.sample import FORMATS, SOURCE, render, report

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style></title></pre></script><script>alert(1)</script>",
    "]]>&amp;<!-- &#60;b&#62; -->",
    "a\x1b[31mred\x07\x00\x9b31m",
    "one\ntwo\r\n# three\n\n- four",
    "\u202eexe\u2028x\u2066y\ufeff",
    "| cell | `code` ``` ~~~ **b** [x](javascript:alert(1)) ![i](http://evil.example/i.png)",
    "<https://evil.example> http://evil.example www.evil.example me@evil.example :rocket: #1 @all",
    "# heading",
    "1. list",
    "--- rule",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1+1)",
    "\t=1+1",
    "\uff1d1+1",
    "{{ 7*7 }}{% raw %}{0} {1}",
    "[a](1) {0}",
    'x"} 1\ndoctor_info{host="y',
    "back\\slash\\",
    "```\n$(reboot) `reboot` &&",
]

_VISIBLE_CONTROL = {"\n"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.cells.append(data.strip())


def _page(shown: str) -> _Page:
    page = _Page()
    page.feed(shown)
    return page


def _html(hostile: str, shown: str) -> None:
    page, harmless = _page(shown), _page(render("html", report()))
    assert page.tags == harmless.tags
    assert {name for name, _ in page.attributes} == {name for name, _ in harmless.attributes}
    links = {value for name, value in page.attributes if name in ("href", "src")}
    assert links == {value for name, value in harmless.attributes if name in ("href", "src")}
    assert escape(hostile).strip() in page.cells


def _junit(hostile: str, shown: str) -> None:
    suite = ET.fromstring(shown)[0]
    assert len(suite.findall("testcase")) == 8
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == escape(hostile)


def _csv(hostile: str, shown: str) -> None:
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert len(rows) == 9
    assert {row["message"].removeprefix("'") for row in rows} == {escape(hostile).removeprefix("'")}
    for cell in (cell for row in rows for cell in row.values()):
        assert not cell.lstrip().startswith(tuple("=+-@\uff1d"))


def _jsonl(hostile: str, shown: str) -> None:
    lines = [json.loads(line) for line in shown.splitlines()]
    assert [line["schema"] for line in lines] == [
        "doctor.verdict/1",
        *["doctor.finding/1"] * 8,
        "doctor.unseen/1",
    ]
    assert lines[1]["message"] == hostile


def _json(hostile: str, shown: str) -> None:
    assert json.loads(shown)["findings"][0]["message"] == hostile


def _sarif(hostile: str, shown: str) -> None:
    result = json.loads(shown)["runs"][0]["results"][2]["message"]["text"]
    undone = result.replace("{{0}}", "{0}").replace("{{1}}", "{1}")
    if "](" in hostile:
        assert "](" not in result.replace("\\]", "")
        for letter in "[]\\":
            undone = undone.replace(f"\\{letter}", letter)
    assert undone == escape(hostile)


def _prometheus(hostile: str, shown: str) -> None:
    def samples(text: str) -> list[tuple[str, tuple[str, ...]]]:
        families = text_string_to_metric_families(text)
        return [(s.name, tuple(sorted(s.labels))) for family in families for s in family.samples]

    assert samples(shown) == samples(render("prometheus", report()))
    families = {item.name: item for item in text_string_to_metric_families(shown)}
    assert families["doctor_info"].samples[0].labels["host"] == escape(hostile)


def _markdown(hostile: str, shown: str) -> None:
    reader = MarkdownIt("gfm-like", {"html": True, "linkify": True})
    blocks = reader.parse(shown)
    harmless = reader.parse(render("markdown", report()))
    assert [block.type for block in blocks] == [block.type for block in harmless]
    inline = [child for block in blocks for child in block.children or []]
    assert {child.type for child in inline} <= {
        "text",
        "strong_open",
        "strong_close",
        "link_open",
        "link_close",
        "text_special",
        "softbreak",
    }
    assert {child.attrGet("href") for child in inline if child.type == "link_open"} == {SOURCE.url}
    texts = ["".join(c.content for c in block.children or []) for block in blocks]
    assert escape(hostile).strip() in texts
    raw = [block.content for block in blocks if block.type == "html_block"]
    assert raw == [block.content for block in harmless if block.type == "html_block"]


def _text(hostile: str, shown: str) -> None:
    assert len(shown.splitlines()) >= 8


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
def test_a_hosts_text_stays_text(format_: str, hostile: str) -> None:
    shown = render(format_, report(hostile, host=hostile))
    READ_BACK[format_](hostile, shown)
    if format_ != "json":  # programs read it; it keeps what was read
        hidden = {letter for letter in shown if not letter.isprintable()} - _VISIBLE_CONTROL
        assert hidden == set()
