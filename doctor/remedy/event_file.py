"""A run's events.jsonl: everything that was said, redacted, so that the run can be shown and replayed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from doctor.redact import redact_tree


class EventFile:
    """An emit that appends to a file of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def __call__(self, event: Any) -> None:
        """Write one event; a full disk costs the record of what was said, not the run."""
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = os.fdopen(os.open(self.path, flags, 0o600), "ab")
            said = redact_tree(msgspec.to_builtins(event))
            self._file.write(msgspec.json.encode(said) + b"\n")
            self._file.flush()
        except OSError:
            return

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            with suppress(OSError):  # what a full disk did not take is tried again
                self._file.close()
            self._file = None
