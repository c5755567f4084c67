"""The HTML report: one file, no request, only its own script; in a browser it filters, sorts and unfolds."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from tests.report.sample import SAID, SOURCE, render, report

PAGE = render("html", report())


def test_nothing_is_fetched() -> None:
    attributes = re.findall(r'\b(?:src|href|action|data|poster|srcset)="([^"]*)"', PAGE)
    assert {item for item in attributes if not item.startswith("#")} == {"data:,", SOURCE.url}
    assert "url(" not in PAGE
    assert "@import" not in PAGE


@pytest.mark.parametrize("tag", ["style", "script"])
def test_only_its_own_script_and_style_may_run(tag: str) -> None:
    (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    assert f"{tag}-src 'sha256-{digest}'" in PAGE
    assert "default-src 'none'" in PAGE
    assert not re.search(r"<[^>]+\s(style|on\w+)=", PAGE)


def test_light_dark_and_print() -> None:
    assert "prefers-color-scheme: dark" in PAGE
    assert "@media print" in PAGE


def test_links_within_the_page_lead_somewhere() -> None:
    named = set(re.findall(r'\bid="([^"]*)"', PAGE))
    assert set(re.findall(r'href="#([^"]*)"', PAGE)) <= named


class _Rows(HTMLParser):
    """Which findings a browser shows, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []
        self.buttons = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "tr" and found.get("class") == "finding" and "hidden" not in found:
            self.shown.append((found["id"] or "").partition("-")[2])
        self.buttons += tag == "button"


def _open(page: str, fragment: str, folder: Path) -> _Rows:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser is not None, "the e2e tier needs Chromium"
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run"
    ).split()
    ran = subprocess.run(
        [
            browser,
            *flags,
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            f"{file.as_uri()}#{fragment}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    rows = _Rows()
    rows.feed(ran.stdout)
    return rows


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("fragment", "shown"),
    [
        ("", ["driver.skew", "kernel.headers", "host.uptime", "nccl.cumem", "driver.held"]),
        ("filter=NCCL", ["nccl.cumem"]),
        ("filter=nccl%20skew", []),
        ("show=pass,skip", ["gpu.on-bus", "wsl.memory"]),
        ("filter=wsl&show=pass,skip", ["wsl.memory"]),
        (
            "f-cuda.init-failed",
            "driver.skew kernel.headers host.uptime nccl.cumem cuda.init-failed driver.held".split(),
        ),
    ],
)
def test_a_browser_filters(fragment: str, shown: list[str], tmp_path: Path) -> None:
    rows = _open(PAGE, fragment, tmp_path)
    assert rows.shown == shown
    assert rows.buttons == 5  # the sortable columns: the policy let the script run


@pytest.mark.e2e
def test_a_browser_sorts_within_a_group(tmp_path: Path) -> None:
    full = report()
    again = next(item for item in full.findings if item.id == "gpu.on-bus")
    numbered = [
        msgspec.structs.replace(again, id=f"gpu.{name}", message=f"{SAID} {number}")
        for name, number in (("a", 10), ("b", 9))
    ]
    page = render("html", msgspec.structs.replace(full, findings=numbered, next=None))
    assert _open(page, "show=pass&sort=message", tmp_path).shown == ["gpu.b", "gpu.a"]
