"""The screens look as they were looked at: words always, colours with the Textual that they were drawn with."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.tui.snapshots import DRAWN_WITH, FOLDER, PICTURES, draw, words


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_picture(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORFGBG", raising=False)
    drawn, kept = draw(name), (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert words(drawn) == words(kept), "python -m tests.tui.snapshots draws them anew"
    if version("textual") == DRAWN_WITH.read_text(encoding="utf-8").strip():
        assert drawn == kept, "python -m tests.tui.snapshots draws them anew"


def test_no_colour_means_no_colour() -> None:
    import re

    colours = set(re.findall(r"#([0-9a-f]{6})", (FOLDER / "host-no-color-80x24.svg").read_text()))
    frame = {"ff5f57", "febc2e", "28c840", "c5c8c6"}  # buttons and title of the drawn window
    assert [each for each in colours - frame if len({each[:2], each[2:4], each[4:]}) > 1] == []
