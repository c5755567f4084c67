"""A fact is Known, Absent, Unknown or NotApplicable; only Known has a value, and asking the others for it raises."""

from typing import Generic, NoReturn, TypeAlias, TypeVar, Union, overload

import msgspec

T = TypeVar("T")


class FactUnknown(Exception):
    """A value was asked of a fact that has none. The evaluator turns this into an unknown finding, never a pass."""

    def __init__(self, reason: str, via: str, *, state: str = "unknown") -> None:
        super().__init__(f"{via}: {reason}" if via else reason)
        self.reason = reason
        self.via = via
        self.state = state


class Known(msgspec.Struct, Generic[T], frozen=True, tag_field="state", tag="known"):
    """Looked, found."""

    value: T
    via: str = ""


class Absent(msgspec.Struct, frozen=True, tag_field="state", tag="absent"):
    """Looked, is not there."""

    via: str = ""

    @property
    def value(self) -> NoReturn:
        """Always raises FactUnknown: the check must say what absence means."""
        raise FactUnknown("not there", self.via, state="absent")


class Unknown(msgspec.Struct, frozen=True, tag_field="state", tag="unknown"):
    """Could not look, and why."""

    reason: str
    via: str = ""

    @property
    def value(self) -> NoReturn:
        """Always raises FactUnknown."""
        raise FactUnknown(self.reason, self.via)


class NotApplicable(msgspec.Struct, frozen=True, tag_field="state", tag="not-applicable"):
    """The question does not arise on this host."""

    reason: str

    @property
    def value(self) -> NoReturn:
        """Always raises FactUnknown."""
        raise FactUnknown(self.reason, "", state="not-applicable")


Fact: TypeAlias = Union[Known[T], Absent, Unknown, NotApplicable]
NOT_PROBED = Unknown("not probed")
"""Default of every fact: what no probe reported was not seen."""


class Area(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts of one probe. Every field is a Fact and defaults to Unknown."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A plain value inside a fact, for example one PCI device. Fields that can fail on their own are Facts."""


def is_known(fact: object) -> bool:
    """Whether a value was seen."""
    return isinstance(fact, Known)


@overload
def known_or(fact: Fact[T], default: None) -> T | None: ...


@overload
def known_or(fact: Fact[T], default: T) -> T: ...


def known_or(fact: Fact[T], default: T | None) -> T | None:
    """The value, or `default` when the thing is known to be absent or not to apply; raises FactUnknown when it was not seen."""
    if isinstance(fact, Unknown):
        raise FactUnknown(fact.reason, fact.via)
    return fact.value if isinstance(fact, Known) else default
