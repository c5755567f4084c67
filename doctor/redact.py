"""One function that every outgoing text passes: secrets are cut, identity stays. Recordings lose identity too, elsewhere."""

from __future__ import annotations

from typing import TypeVar

from doctor.probes.recordings import secret

T = TypeVar("T")


def redact(text: str) -> str:
    """The text without tokens, passwords, keys and the credentials of URLs. Idempotent."""
    return secret.cut(text)


def redact_arguments(arguments: list[str]) -> list[str]:
    """An argument list in which the values of secret options are hidden."""
    return secret.cut_arguments(arguments)


def redact_tree(value: T) -> T:
    """The same for nested JSON values: by name where a key says so, by shape elsewhere."""
    cut: T = secret.cut_tree(value)
    return cut
