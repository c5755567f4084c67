"""Which host facts are of, and what of it was not seen."""

from __future__ import annotations

import msgspec


class HostName(msgspec.Struct, frozen=True, kw_only=True):
    """Which host."""

    name: str
    source: str = "live"
    """live, or the recording's path."""
    platform: str = ""
    distribution: str = ""


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that could not be looked at."""

    fact: str
    reason: str
