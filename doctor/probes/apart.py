"""Probes of this host at work in a bare process of their own; here is what they have told so far.

They and what judges them run side by side on two processors, and a probe that hangs in the kernel hangs that process.
"""

import json
import threading
from typing import Any, Dict, Optional, Sequence

from doctor.probes import bare
from doctor.probes.registry import DEADLINE, Looking, OnEvent


class Apart(Looking):
    """Reads the answers of a bare process. What it has not told when it ends, or by the deadline, was not seen."""

    def __init__(
        self,
        scope: str,
        areas: Optional[Sequence[str]] = None,
        on_event: Optional[OnEvent] = None,
        deadline: float = DEADLINE,
        process: Optional[bare.Bare] = None,
    ) -> None:
        super().__init__(areas, on_event, deadline)
        self._process = process or bare.start(scope, areas)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """One JSON object a line; daemon, for the pipe of a process that hangs in the kernel stays open."""
        problem = ""
        with open(self._process.answers, "rb") as lines:
            try:
                for line in lines:
                    self._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                problem = "it answered %s: %s" % (type(error).__name__, error)
        self._process.let_go()
        problem = problem or self._process.reap()
        for area, ended in self._ended.items():
            if not ended.is_set():
                self.told(area, None, "the process of the probes gave no answer: " + problem, 0)

    def _take(self, line: Dict[str, Any]) -> None:
        area = line["area"]
        if area not in self._ended or self._ended[area].is_set():
            raise KeyError(area)
        if "ms" not in line:
            self.began(area)
        else:
            self.told(area, line.get("facts"), line.get("error"), line["ms"])

    def result(self) -> Dict[str, Any]:
        """As for any look; the process is let go, whatever still hangs in it."""
        envelope = super().result()
        self._process.let_go()
        return envelope
