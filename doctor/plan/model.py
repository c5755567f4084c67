"""The plan (doctor.plan/1): the target stack, the ordered steps or the conflict. Keys are a contract."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from doctor.checks.finding import Citation, Severity
from doctor.facts.identity import HostName, Unseen

SCHEMA = "doctor.plan/1"
Status = Literal["satisfied", "changes", "conflict", "unknown"]
Disturbs = Literal["none", "service", "gpu", "reboot"]
EXIT: dict[str, int] = {"satisfied": 0, "changes": 1, "conflict": 1, "unknown": 3}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One thing of the stack: what the host has, what it should have, and why that."""

    thing: str
    have: str | None
    want: str
    why: str
    sources: list[Citation] = []
    change: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do. `remedy` names the role that does it; null where a person has to."""

    id: str
    remedy: str | None
    findings: list[str] = []
    disturbs: Disturbs
    undo: str
    changes: list[str]
    severity: Severity = Severity.ERROR
    """The gravest of what it answers. A warning's step is left out where it would need a consent."""
    needs: list[str] = []
    """Ids of steps of this plan that come first."""
    wave: int = 1
    """Steps of one wave share one reboot, at its end."""
    reversible: Literal["exact", "best-effort", "none"] = "exact"
    vars: dict[str, Any] = {}
    """What the role is told: versions and names, never from its defaults."""
    command: str | None = None
    """The exact command where a person has to."""
    kept_by_owner: bool = False
    """Somebody has decided that this stays: until they change it, it and what needs it cannot be done."""


def digest(steps: Sequence[Step]) -> str:
    """What was approved: the roles with their variables, in order."""
    shown = [[step.id, step.remedy, step.vars] for step in steps if step.remedy]
    return hashlib.sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()


class Clash(msgspec.Struct, frozen=True, kw_only=True):
    """One premise of a conflict. Without any one of them there is none."""

    rule: str
    say: str
    sources: list[Citation] = []


class Instead(msgspec.Struct, frozen=True, kw_only=True):
    """The nearest thing that would work."""

    want: str
    say: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do to a host so that it serves what is wanted."""

    schema: str = SCHEMA
    host: HostName
    judged_as_of: str
    want: list[str]
    status: Status
    exit_code: int
    target: list[Target] = []
    steps: list[Step] = []
    conflict: list[Clash] | None = None
    instead: list[Instead] = []
    unseen: list[Unseen] = []
