"""Probes at work that tell on standard output, one JSON object a line, when each begins and how it ends.

{"area"}    {"area", "ms", "facts": {name: fact}}    {"area", "ms", "error"}
"""

import json
import sys
import threading
from typing import Any, Dict, Iterable, Optional

from doctor.probes.registry import Run
from doctor.probes.source import Source

F_SETPIPE_SZ, ROOM = 1031, 1 << 20
"""Facts of a large host fill a pipe of 64 KiB; probes would wait until the listener has loaded what listens."""


class Telling(Run):
    """The same as Run; each area is told by the thread that probed it."""

    def __init__(self, source: Source, areas: Optional[Iterable[str]] = None) -> None:
        self._one_at_a_time = threading.Lock()
        try:
            import fcntl

            fcntl.fcntl(sys.stdout.fileno(), F_SETPIPE_SZ, ROOM)
        except (ImportError, OSError):
            pass
        super().__init__(source, areas)

    def began(self, area: str) -> None:
        """A line that it began."""
        self._say({"area": area})

    def told(
        self, area: str, found: Optional[Dict[str, Any]], error: Optional[str], ms: int
    ) -> None:
        """A line how it ended."""
        ended = {"facts": found} if found is not None else {"error": error}
        self._say({"area": area, "ms": ms, **ended})
        super().told(area, found, error, ms)

    def _say(self, line: Dict[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":")) + "\n"
        with self._one_at_a_time:
            sys.stdout.buffer.write(text.encode("ascii"))
            sys.stdout.buffer.flush()
