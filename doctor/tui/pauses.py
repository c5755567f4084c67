"""When the app draws and when it looks for rubbish, so that a key never waits for either."""

from __future__ import annotations

import gc
import time
from types import TracebackType

FLUSH = 0.05
"""Seconds between two drawings of a state that changes all the time."""
REST = 4
"""As many times as long as a drawing took, keys have the app to themselves: ten thousand hosts must not make it deaf."""
LONGEST = 1.0


class Pace:
    """`with pace: draw()`; afterwards `pace.seconds` says when to draw again."""

    def __init__(self) -> None:
        self.seconds = FLUSH
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = min(LONGEST, max(FLUSH, REST * (time.monotonic() - self._began)))


def settle() -> None:
    """Look for rubbish now, and never again among what stays: thirty milliseconds that no key is to wait for."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
