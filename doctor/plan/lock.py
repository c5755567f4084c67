"""A solved stack as a file, and what of a host has drifted from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from doctor.errors import UsageError

if TYPE_CHECKING:
    from doctor.plan.model import Plan

SCHEMA = "doctor.lock/1"
MAX_BYTES = 1024 * 1024


class StackLock(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan chose: thing -> version, with the wants it was chosen for."""

    schema: str = SCHEMA
    judged_as_of: str
    want: list[str] = []
    stack: dict[str, str]
    gpus: list[str] = []

    def summary(self) -> str:
        """What it holds, in a line."""
        return ", ".join(f"{thing} {version}" for thing, version in self.stack.items())


def lock_of(plan: Plan) -> StackLock:
    """The stack of a plan that has one. UsageError for a conflict or a plan that did not see enough."""
    if plan.status in ("conflict", "unknown"):
        why = (
            "these wants cannot all hold"
            if plan.status == "conflict"
            else "not everything was seen"
        )
        raise UsageError(
            f"--lock: there is no solved stack: {why}", "read the plan without --lock first"
        )
    things = {
        row.thing: row.want
        for row in plan.target
        if row.thing not in ("model", "engine", "launch", "lock")
    }
    return StackLock(judged_as_of=plan.judged_as_of, want=plan.want, stack=things)


def write_lock(path: Path, plan: Plan) -> None:
    """Write it by an atomic rename."""
    content = msgspec.json.format(msgspec.json.encode(lock_of(plan)), indent=2) + b"\n"
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a writable file") from None


def read_lock(path: Path) -> StackLock:
    """A lock file, or UsageError with one sentence."""
    hint = f"make it with: doctor plan --lock {path}"
    try:
        if path.stat().st_size > MAX_BYTES or not path.is_file():
            raise UsageError(f"{path}: not a lock file", hint)
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint) from None
    try:
        lock = msgspec.json.decode(content, type=StackLock)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not a lock file ({error})", hint) from None
    if lock.schema != SCHEMA:
        raise UsageError(f"{path}: schema {lock.schema!r} is not one this doctor reads", hint)
    return lock
