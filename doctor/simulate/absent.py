"""What probes ask for and no simulated host has, with the reason. A test finds whatever is neither written nor listed here."""

from __future__ import annotations

from fnmatch import fnmatchcase

ABSENT: tuple[tuple[str, str], ...] = ()
"""(pattern, reason). Paths as they are, commands as their words joined by spaces, sockets as unix://SOCKET GET TARGET."""


def reason(asked: str) -> str | None:
    """Why no simulated host answers it, or None."""
    for pattern, why in ABSENT:
        if fnmatchcase(asked, pattern):
            return why
    return None
