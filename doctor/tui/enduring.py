"""A terminal that may go away. Textual's thread that writes to it ends with the first error, and then the app waits for it for ever,
also with the signal that says that the terminal is gone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Enduring:
    """A file whose writes are lost, and never fail, once there is nobody to read them."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write, or lose it."""
        try:
            return int(self._file.write(text))
        except OSError:
            return len(text)

    def flush(self) -> None:
        """Flush, or lose it."""
        try:
            self._file.flush()
        except OSError:
            return

    def __getattr__(self, name: str) -> Any:
        """All else is the file's own."""
        return getattr(self._file, name)


@contextmanager
def enduring() -> Iterator[None]:
    """While this lasts, an app draws on a terminal that may go away."""
    before = sys.__stderr__
    sys.__stderr__ = Enduring(before)  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        sys.__stderr__ = before  # type: ignore[misc]
