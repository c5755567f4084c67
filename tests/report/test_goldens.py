"""Each format of one small report, as it was looked at. The exit code ends the name of the golden.

`python -m tests.report.test_goldens` writes them anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.sample import FORMATS, render, report

FOLDER = Path(__file__).with_name("golden")


def _shown(format_: str) -> str:
    shown = render(format_, report())
    if format_ == "html":  # style and script have tests of their own
        shown = re.sub(r"(<(style|script)>).*?(</\2>)", r"\1\3", shown, flags=re.DOTALL)
        shown = re.sub(r"sha256-[\w+/=]+", "sha256-", shown)
    return shown.rstrip("\n") + "\n"


def _file(format_: str) -> Path:
    return FOLDER / f"small.{format_}.{report().exit_code}"


@pytest.mark.parametrize("format_", FORMATS)
def test_a_format_is_as_it_was(format_: str) -> None:
    assert _shown(format_) == _file(format_).read_text(encoding="utf-8")


def test_no_golden_is_left_over() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {_file(name).name for name in FORMATS}


if __name__ == "__main__":
    for each in FORMATS:
        _file(each).write_text(_shown(each), encoding="utf-8")
