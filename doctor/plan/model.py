"""The plan (doctor.plan/1): the target stack, the ordered steps or the conflict. Keys are a contract."""

from __future__ import annotations

from typing import Literal

import msgspec

from doctor.checks.finding import Citation
from doctor.report.model import HostName, Unseen

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
