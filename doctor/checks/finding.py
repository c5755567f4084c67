"""A finding: what one check says of one host. Keys are a contract (doctor.report/1)."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec


class Severity(str, Enum):
    """The consequence if violated: error will not run; warn fragile, slow or insecure; info worth knowing."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


class Outcome(str, Enum):
    """What is true. fail: a violated error; warn: a violated warn or info; skip: known not to apply; unknown: not seen."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    UNKNOWN = "unknown"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was read: fact path, value (null when not seen) and where it came from."""

    fact: str
    value: Any = None
    via: str = ""
    reason: str | None = msgspec.field(default=None)


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rule comes from and of which day."""

    id: str
    url: str
    as_of: str
    basis: str | None = None
    """stated, derived, measured or field (a reported cause)."""


class FixAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """What would put it right. class: auto (a role does it), needs-argument, manual, hardware."""

    kind: str = msgspec.field(name="class")
    say: str
    command: str | None
    """The exact next command, quoted for a shell."""
    disturbs: str
    """none, service, gpu or reboot."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One per check and host."""

    id: str
    title: str
    outcome: Outcome
    severity: Severity
    message: str
    blocked_by: str | None = None
    evidence: list[Evidence] = []
    want: str | None = None
    sources: list[Citation] = []
    fix: FixAdvice | None = None
    waived: str | None = None
    """Reason of the waiver that lifts it from the verdict."""

    @property
    def violated(self) -> bool:
        """Whether the claim is known not to hold."""
        return self.outcome in (Outcome.FAIL, Outcome.WARN)

    @property
    def counts(self) -> bool:
        """Whether it takes part in the verdict."""
        return self.blocked_by is None and self.waived is None
