"""The page of a thousand hosts in a browser: it filters in less than a second, sorts, pages, opens a host, and asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from doctor.fleet.folder import Folder
from doctor.report.formats import of_fleet
from doctor.report.text import Look
from tests.fleet_reports import corpus
from tests.fleet_reports.sample import Small, audit, fleet, line, write
from tests.report.sample import SOURCE

SMALL = write("html", audit())


def test_nothing_is_fetched() -> None:
    attributes = re.findall(r'\b(?:src|href|action|data|poster|srcset)="([^"]*)"', SMALL)
    outside = {item for item in attributes if not item.startswith("#")} - {"data:,", SOURCE.url}
    assert {item for item in outside if not item.startswith("https://github.com/NVIDIA/")} == set()
    assert "url(" not in SMALL
    assert "@import" not in SMALL


@pytest.mark.parametrize("tag", ["style", "script"])
def test_only_its_own_script_and_style_may_run(tag: str) -> None:
    (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", SMALL, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    assert f"{tag}-src 'sha256-{digest}'" in SMALL
    assert "default-src 'none'" in SMALL
    assert not re.search(r"<[^>]+\s(style|on\w+)=", SMALL)


def test_the_script_makes_no_markup_of_text() -> None:
    (inside,) = re.findall(r"<script>(.*?)</script>", SMALL, re.DOTALL)
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in inside


def test_what_to_know_first_needs_no_script() -> None:
    markup = SMALL.partition('<script type="application/json"')[0]
    for said in ("6 broken, 1 not audited", "driver.skew", "lost", "fleet.one-host-two-names"):
        assert said in markup
    assert "<noscript>" in markup
    assert markup.count("<svg") >= 3


def test_links_within_the_page_lead_somewhere() -> None:
    named = set(re.findall(r'\bid="([^"]*)"', SMALL))
    assert set(re.findall(r'href="#([^"]*)"', SMALL)) <= named


class _Shown(HTMLParser):
    """The list of hosts as a browser shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: list[str] = []
        self.output = ""
        self.title = ""
        self.dialog: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id") == "shown":
            self.title = found.get("title") or ""
        name = found.get("id") or ("pick" if found.get("class") == "pick" else tag)
        if tag not in ("br", "input", "meta", "link", "rect"):
            self._inside.append(name)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag not in ("br", "input", "meta", "link", "rect"):
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside[-1:] == ["pick"] and "rows" in self._inside:
            self.hosts.append(data)
        if self._inside[-1:] == ["shown"]:
            self.output += data
        if "host" in self._inside:
            self.dialog.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand hosts."""
    folder = tmp_path_factory.mktemp("audit")
    corpus.store(folder / "reports", 1000, folder / "scratch")
    file = folder / "fleet.html"
    with file.open("w", encoding="utf-8") as out:
        out.writelines(of_fleet(Folder(folder / "reports"), "html", Look()))
    return file


def _open(page: Path, fragment: str) -> _Shown:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser is not None, "the e2e tier needs Chromium"
    flags = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run"
    ran = subprocess.run(
        [
            browser,
            *flags.split(),
            f"--user-data-dir={page.parent / 'profile'}",
            "--dump-dom",
            f"{page.as_uri()}#{fragment}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    shown = _Shown()
    shown.feed(ran.stdout)
    return shown


@pytest.mark.e2e
def test_a_thousand_hosts_open_and_are_paged(page: Path) -> None:
    started = time.perf_counter()
    shown = _open(page, "")
    print(f"opened in {time.perf_counter() - started:.1f} s, {page.stat().st_size >> 10} KiB")
    assert shown.output == "1000 of 1000 hosts"
    assert len(shown.hosts) == 50


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("fragment", "most"),
    [
        ("filter=a100", 60),
        ("filter=gpu-00017", 1),
        ("filter=fabric%20rack003", 10),
        ("show=unreachable,late", 30),
        ("group=rack003", 32),
        ("finding=driver.gpu-held-by-other-module", 60),
        ("filter=no%20such%20thing", 0),
    ],
)
def test_it_filters_in_less_than_a_second(page: Path, fragment: str, most: int) -> None:
    shown = _open(page, fragment)
    number = int(shown.output.split()[0])
    assert number <= most
    assert (number > 0) is (most > 0)
    assert len(shown.hosts) == min(number, 50)
    milliseconds = float(shown.title.removesuffix(" ms"))
    print(f"{fragment}: {milliseconds} ms")
    assert milliseconds < 1000


@pytest.mark.e2e
def test_it_sorts(page: Path) -> None:
    by_name = _open(page, "sort=host").hosts
    assert by_name == [f"gpu-{place:05d}.example.net" for place in range(50)]
    backwards = _open(page, "sort=-host").hosts
    assert backwards[0] == "gpu-00999.example.net"
    assert _open(page, "sort=valueOf").hosts  # a column that is none


@pytest.mark.e2e
def test_the_worst_stand_first(page: Path) -> None:
    shown = _open(page, "")
    broken = _open(page, "show=broken")
    assert shown.hosts == broken.hosts


@pytest.mark.e2e
def test_a_host_may_be_called_like_what_every_object_has(tmp_path: Path) -> None:
    file = tmp_path / "fleet.html"
    alike = fleet(line("constructor"), line("__proto__"))
    file.write_text(write("html", Small(alike, {})), encoding="utf-8")
    for name in ("constructor", "__proto__"):
        found = " ".join(_open(file, f"host={name}").dialog)
        assert name in found
        assert "580.95.05" in found


@pytest.mark.e2e
def test_a_host_opens_with_what_was_found_and_what_it_is_compared_by(page: Path) -> None:
    found = " ".join(_open(page, "host=gpu-00017.example.net").dialog)
    for said in ("gpu-00017.example.net", "broken", "fabric.manager-version", "GSP firmware"):
        assert said in found
    assert "usual in rack000: 580.95.05" in found
