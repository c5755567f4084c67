"""Patterns that are compiled when they are first used: most tell faults apart that a healthy host does not have."""

import re
from typing import Any, Pattern, cast


class _Pattern:
    """Becomes a compiled pattern method by method, as they are asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def regex(text: str, flags: int = 0) -> "Pattern[str]":
    """As re.compile, later."""
    return cast("Pattern[str]", _Pattern(text, flags))
