"""Text of a host is shown as text: control characters and terminal escapes are spelled out."""

from __future__ import annotations


def escape(text: str) -> str:
    """The text with every control, format and surrogate character written as an escape; line ends become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_one(letter) for letter in text)


def _one(letter: str) -> str:
    if letter in "\n\t":
        return " "
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
