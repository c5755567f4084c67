"""How the terminal can look: themes, and letters in place of glyphs where it cannot carry them."""

from __future__ import annotations

import os
import sys
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

DARK = Theme(
    name="doctor-dark",
    dark=True,
    primary="#7aa2c8",
    secondary="#6fb6a8",
    accent="#b39ddb",
    success="#76c893",
    warning="#e6b450",
    error="#f07178",
    foreground="#d7dce2",
    background="#14181d",
    surface="#1a1f26",
    panel="#232a33",
    variables={
        "text-muted": "#96a1af",
        "text-primary": "#8fb8df",
        "text-secondary": "#7fd0c0",
        "text-accent": "#c5b3ea",
        "text-success": "#86d7a2",
        "text-warning": "#f0c264",
        "text-error": "#ff8a8f",
        "block-cursor-background": "#2f4257",
        "block-cursor-foreground": "#ffffff",
        "border": "#7aa2c8",
        "border-blurred": "#3a4450",
    },
)
LIGHT = Theme(
    name="doctor-light",
    dark=False,
    primary="#1f5f99",
    secondary="#0b6e5f",
    accent="#6a3fb5",
    success="#1a7f37",
    warning="#8a5a00",
    error="#b3261e",
    foreground="#1b1f24",
    background="#fbfbf9",
    surface="#f2f2ee",
    panel="#e5e6e1",
    variables={
        "text-muted": "#5a636e",
        "text-primary": "#1f5f99",
        "text-secondary": "#0b6e5f",
        "text-accent": "#6a3fb5",
        "text-success": "#1a7f37",
        "text-warning": "#8a5a00",
        "text-error": "#b3261e",
        "block-cursor-background": "#cfe0f1",
        "block-cursor-foreground": "#000000",
        "border": "#1f5f99",
        "border-blurred": "#c3c7cc",
    },
)
PLAIN = {
    **dict.fromkeys("─━═╌┄▔▁▂▃", "-"),
    **dict.fromkeys("│┃║▏▎▍▌▐▕╎┆", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰┏┓┗┛╔╗╚╝", "+"),
    **dict.fromkeys("█▇▆▅▄▉▊▋▀▓▒░■", "#"),
    "✓": "+",
    "✗": "x",
    "–": "-",  # noqa: RUF001
    "›": ">",  # noqa: RUF001
    "▸": ">",
    "▾": "v",
    "…": "~",
    "·": ".",
    "→": ">",
    "●": "*",
    "○": "o",
}


class Plain(LineFilter):
    """Every glyph as an ASCII letter of the same width: the terminal can carry nothing else."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The line in ASCII."""
        return [Segment(plain(text), style, control) for text, style, control in segments]


@lru_cache(4096)
def plain(text: str) -> str:
    """The text in ASCII, as wide as before."""
    if text.isascii():
        return text
    return "".join(
        letter if letter.isascii() else PLAIN.get(letter, "?" * cell_len(letter)) for letter in text
    )


def wants_plain() -> bool:
    """Whether what the app is drawn on takes ASCII only."""
    if os.environ.get("DOCTOR_ASCII"):
        return True
    encoding = getattr(sys.__stderr__, "encoding", None) or "ascii"
    return encoding.lower().replace("-", "").replace("_", "") not in ("utf8", "utf16", "utf32")


def first_theme() -> str:
    """The person's own (TEXTUAL_THEME), else light where the terminal says that its ground is."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return os.environ.get("TEXTUAL_THEME") or (LIGHT.name if ground in ("7", "15") else DARK.name)
