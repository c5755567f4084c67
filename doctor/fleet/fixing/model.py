"""What a fix of many hosts says (doctor.fleet-fix/1). Keys are a contract; a host's whole report stays with its run."""

from __future__ import annotations

from typing import Literal

import msgspec

from doctor.remedy.outcome import FindingOutcome, StepOutcome, Stopped

SCHEMA = "doctor.fleet-fix/1"

State = Literal["done", "failed", "not-reached"]
"""done: the host was looked at and what could be done was tried; failed: it could not be looked at, or was lost on the way;
not-reached: the fix ended before its turn."""


class HostFix(msgspec.Struct, frozen=True, kw_only=True):
    """One host. `name` is its inventory name."""

    name: str
    wave: int
    state: State
    exit_code: int
    reason: str = ""
    """Why it failed or was not reached."""
    failed: bool = False
    """Whether it counts against the wave: not looked at, a step that did not help, or worse than before."""
    run: str = ""
    """The run of this host, by which it can be taken back; empty where nothing was begun."""
    verdict_before: str = "unknown"
    verdict_after: str = "unknown"
    changed: int = 0
    findings: list[FindingOutcome] = []
    steps: list[StepOutcome] = []
    stopped: list[Stopped] = []


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts that are changed, and may be down, at the same time."""

    number: int
    hosts: list[str]
    failed: list[str] = []
    tripped: bool = False
    """Whether too many failed: nothing more was begun."""


class FleetFix(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to whom, and whom it did not reach."""

    schema: str = SCHEMA
    fix: str
    """Its id, by which all of it can be taken back."""
    doctor: str
    inventory: str
    started: str
    finished: str
    dry_run: bool
    exit_code: int
    counts: dict[str, int]
    """Hosts by state, and findings by status."""
    waves: list[Wave]
    hosts: list[HostFix]
    stopped: str = ""
    """Why it ended before every host had its turn."""


class HostUndone(msgspec.Struct, frozen=True, kw_only=True):
    """One host of an undo."""

    name: str
    run: str
    exit_code: int
    say: str


class FleetUndo(msgspec.Struct, frozen=True, kw_only=True):
    """What of a fix was taken back (doctor.fleet-undo/1)."""

    schema: str = "doctor.fleet-undo/1"
    fix: str
    exit_code: int
    hosts: list[HostUndone]
