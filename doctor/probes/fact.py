"""The four answers a look can give. "Could not look" is never "not there"."""

from typing import Any, Callable, Dict, Optional

KNOWN = "known"
ABSENT = "absent"
UNKNOWN = "unknown"
NOT_APPLICABLE = "not-applicable"


class Fact:
    """One observation: a state, its value when known, else the reason, and where it was looked for."""

    __slots__ = ("reason", "state", "value", "via")

    def __init__(self, state: str, value: Any = None, reason: str = "", via: str = "") -> None:
        self.state = state
        self.value = value
        self.reason = reason
        self.via = via

    @property
    def ok(self) -> bool:
        """Whether something was looked for and found."""
        return self.state == KNOWN

    def map(self, parse: Callable[[Any], Any], via: Optional[str] = None) -> "Fact":
        """Parse a known value; a parser's ValueError, KeyError or similar becomes Unknown with the reason.

        A parser may return a Fact itself (for example Absent: the file is there, the line is not).
        """
        if self.state != KNOWN:
            return self if via is None else Fact(self.state, None, self.reason, via)
        where = self.via if via is None else via
        try:
            value = parse(self.value)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            return unknown("cannot parse: %s" % (str(error) or type(error).__name__), where)
        if isinstance(value, Fact):
            return value if value.via else Fact(value.state, value.value, value.reason, where)
        return known(value, where)

    def json(self) -> Dict[str, Any]:
        """The JSON shape of the envelope: {"state", "value", "via"} or {"state", "reason", "via"}."""
        if self.state == KNOWN:
            return {"state": KNOWN, "value": plain(self.value), "via": self.via}
        if self.state == ABSENT:
            return {"state": ABSENT, "via": self.via}
        if self.state == UNKNOWN:
            return {"state": UNKNOWN, "reason": self.reason, "via": self.via}
        return {"state": NOT_APPLICABLE, "reason": self.reason}

    def __repr__(self) -> str:
        return "Fact(%s, %r, %r)" % (self.state, self.value if self.ok else self.reason, self.via)


def known(value: Any, via: str) -> Fact:
    """Looked, found."""
    return Fact(KNOWN, value, "", via)


def absent(via: str) -> Fact:
    """Looked, is not there."""
    return Fact(ABSENT, None, "", via)


def unknown(reason: str, via: str = "") -> Fact:
    """Could not look, and why."""
    return Fact(UNKNOWN, None, reason, via)


def not_applicable(reason: str) -> Fact:
    """The question does not arise on this host."""
    return Fact(NOT_APPLICABLE, None, reason, "")


def plain(value: Any) -> Any:
    """Nested facts as JSON values."""
    if isinstance(value, Fact):
        return value.json()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value
