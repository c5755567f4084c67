"""Pictures of the screens as they should be: `python -m tests.tui.snapshots` draws them anew."""

from __future__ import annotations

import os
import re
import time
from html import unescape
from pathlib import Path

from textual.pilot import Pilot

from doctor.tui.app import DoctorApp
from tests.tui.play import DAY, idle, play, shown

FOLDER = Path(__file__).parent / "__snapshots__"
DRAWN_WITH = FOLDER / "textual-version"
LARGE, SMALL = (120, 36), (80, 24)

PICTURES: dict[str, tuple[str, tuple[int, int], tuple[str, ...]]] = {
    "host-120x36": ("host", LARGE, ()),
    "host-80x24": ("host", SMALL, ()),
    "host-no-color-80x24": ("host", SMALL, ("down",)),
    "host-ascii-80x24": ("host", SMALL, ("space",)),
    "host-light-120x36": ("host", LARGE, ("t",)),
    "plan-120x36": ("fix", LARGE, ("2",)),
    "run-120x36": ("fix", LARGE, ("3",)),
    "smoke-120x36": ("h200", LARGE, ("4",)),
    "fleet-120x36": ("fleet", LARGE, ()),
    "fleet-findings-120x36": ("fleet", LARGE, ("o",)),
    "fleet-80x24": ("fleet", SMALL, ("down",)),
    "fleet-no-color-80x24": ("fleet", SMALL, ("o", "o")),
    "fleet-ascii-80x24": ("fleet", SMALL, ()),
}
"""Name -> log, size, keys."""


def draw(name: str) -> str:
    """One picture as SVG."""
    log, size, keys = PICTURES[name]
    os.environ["TZ"] = "UTC"
    time.tzset()
    if "no-color" in name:
        os.environ["NO_COLOR"] = "1"
    try:
        app = DoctorApp(shown(log), plain="ascii" in name)
        return _drawn(app, size, keys)
    finally:
        os.environ.pop("NO_COLOR", None)


def _drawn(app: DoctorApp, size: tuple[int, int], keys: tuple[str, ...]) -> str:
    found: list[str] = []

    async def then(pilot: Pilot[int]) -> None:
        for key in keys:
            await pilot.press(key)
            await idle(app, pilot)
        found.append(app.export_screenshot(title="doctor"))
        for _ in range(50):  # scroll bars follow the layout, some frames later on a busy machine
            await pilot.pause(0.15)
            found.append(app.export_screenshot(title="doctor"))
            if found[-1] == found[-2] == found[max(0, len(found) - 3)]:
                break

    play(app, then, size)
    return found[-1]


def words(svg: str) -> str:
    """The text of a picture, without its colours."""
    return "\n".join(
        unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    ).replace("\xa0", " ")


if __name__ == "__main__":
    from importlib.metadata import version

    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    for each in PICTURES:
        (FOLDER / f"{each}.svg").write_text(draw(each), encoding="utf-8")
    DRAWN_WITH.write_text(version("textual") + "\n", encoding="utf-8")
    print(f"{len(PICTURES)} pictures as of {DAY}")
