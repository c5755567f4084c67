"""A host's answer is a stranger's data: bounded, checked in full, and refused as a whole when it is not what our probe says."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import Any, Literal

import msgspec

from doctor import __version__
from doctor.facts.tree import AREAS, SCHEMA
from doctor.probes.answer import LARGEST, LARGEST_LINE, MARK
from doctor.redact import redact
from doctor.report.plain import escape

DEEPEST = 32
"""Objects and lists inside each other; a probe's answer has ten."""
MOST = 400_000
"""Values in an answer; forty times those of a host with two GPUs."""
SAID = 300
"""Characters of a host's own words in a reason."""


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """What Ansible says of one host's task, as the callback plugin wrote it."""

    host: str
    kind: Literal["inventory", "begun", "ok", "failed", "unreachable"]
    at: float
    """When, by our clock."""
    rc: int | None = None
    stdout: str = ""
    """Empty where it was too large."""
    stderr: str = ""
    """Its end."""
    msg: str = ""
    timed_out: bool = False
    size: int = 0
    """Characters of the whole output."""
    hosts: dict[str, tuple[list[str], dict[str, str]]] = {}
    """Of the inventory: name -> groups, and the variables that an audit must know of."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that can be judged."""

    facts: dict[str, Any]
    source: str = "live"
    """live, or the recording that the probe was sent to look at."""
    recorded_at: str = ""


class NotAudited(msgspec.Struct, frozen=True, kw_only=True):
    """Why there are none."""

    state: Literal["unreachable", "late", "failed", "refused"]
    reason: str


class Refused(Exception):
    """What is wrong with an answer."""


def read(raw: Raw, word: str, deadline: int, recording: bool = False) -> Answered | NotAudited:
    """What a host said when it was asked with `word`; `recording`: whether its inventory tells the probe to look at one."""
    if raw.kind == "unreachable":
        return NotAudited(state="unreachable", reason=own_words(raw.msg) or "no connection")
    if raw.timed_out:
        return NotAudited(state="late", reason=f"no answer within {deadline} s")
    if raw.size > LARGEST_LINE and not raw.stdout:
        return NotAudited(
            state="refused", reason=f"it wrote {raw.size} characters; a probe never does"
        )
    try:
        packed = marked(raw.stdout, word)
        if packed is None:
            return _silent(raw)
        return answered(unpack(packed), recording)
    except Refused as error:
        return NotAudited(state="refused", reason=str(error))


def _silent(raw: Raw) -> NotAudited:
    """No line of ours: the probe did not run, or something else ran in its place."""
    words = own_words(raw.stderr) or own_words(raw.stdout) or own_words(raw.msg)
    if raw.kind == "failed":
        code = "" if raw.rc is None else f" (exit status {raw.rc})"
        return NotAudited(state="failed", reason=f"the probe did not run{code}: {words or '-'}")
    return NotAudited(
        state="refused", reason=f"no answer of the probe in what it wrote: {words or 'nothing'}"
    )


def own_words(text: str) -> str:
    """The end of what a host or Ansible said, on one line, without secrets and control characters."""
    end = " ".join(redact(text[-8 * SAID :]).split())
    return escape(end if len(end) <= SAID else "…" + end[-SAID:])


def marked(text: str, word: str) -> str | None:
    """The packed envelope of the one line that is ours; None when there is no such line."""
    wanted = f"{MARK} {word} "
    found = [line for line in text.splitlines() if line.startswith(wanted)]
    if len(found) > 1:
        raise Refused(f"it answered {len(found)} times")
    if not found:
        return None
    packed = found[0][len(wanted) :].strip()
    if len(packed) > LARGEST_LINE:
        raise Refused(f"its answer has {len(packed)} characters")
    return packed


def unpack(packed: str) -> Any:
    """base64 -> zlib -> JSON, none of them larger or deeper than a probe's."""
    try:
        data = base64.b64decode(packed.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise Refused("its answer is not base64") from None
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, LARGEST)
    except zlib.error:
        raise Refused("its answer cannot be unpacked") from None
    if unpacking.unconsumed_tail:
        raise Refused(f"its answer unpacks to more than {LARGEST} bytes")
    if not unpacking.eof or unpacking.unused_data:
        raise Refused("its answer is cut off or goes on after its end")
    return parse(text)


def parse(text: bytes) -> Any:
    """JSON of bounded depth and number; NaN and the like are not JSON."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Refused(f"its answer is not valid JSON ({own_words(str(error))})") from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise Refused(f"its answer is not readable JSON ({type(error).__name__})") from None
    _bounded(value)
    return value


def _bounded(value: Any) -> None:
    level, number = [value], 0
    for _ in range(DEEPEST):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, int) and abs(item) >= 1 << 64:
                raise Refused("its answer has a number of more than 64 bits")
        number += len(below)
        if number > MOST:
            raise Refused(f"its answer has more than {MOST} values")
        if not below:
            return
        level = below
    raise Refused(f"its answer is nested more than {DEEPEST} deep")


def answered(document: Any, recording: bool) -> Answered | NotAudited:
    """An envelope of this very version, of this very host, every fact of the type it must have."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise Refused("its answer is not an envelope of facts")
    made_by = document.get("doctor")
    if made_by != __version__:
        raise Refused(f"its answer is of doctor {own_words(str(made_by))}; {__version__} was sent")
    if "error" in document:
        return NotAudited(state="failed", reason=own_words(str(document["error"])))
    facts = document.get("facts")
    if not isinstance(facts, dict):
        raise Refused("its answer has no facts")
    typed(facts)
    _printable(facts["host"])
    looked_at = document.get("recording")
    if not isinstance(looked_at, str if recording else type(None)):
        raise Refused(f"it looked at {'itself' if recording else 'a recording'}")
    return Answered(
        facts=facts,
        source=looked_at if isinstance(looked_at, str) else "live",
        recorded_at=str(document.get("recorded_at", "")),
    )


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _printable(area: Any) -> None:
    """What a host says of itself, its name above all, has no control characters on any honest host. Logs elsewhere may have."""
    for name, fact in area.items():
        value = fact.get("value") if isinstance(fact, dict) else None
        if isinstance(value, str) and _CONTROL.search(value):
            raise Refused(f"its host.{name} has control characters: {own_words(value)[:80]}")


def typed(facts: dict[str, Any]) -> None:
    """Every area is there, and every fact has its type. What a probe could not see is Unknown, and that has a type too."""
    if set(facts) != set(AREAS):
        other = sorted(set(facts) ^ set(AREAS))
        raise Refused(f"its answer does not have the areas of a probe: {own_words(other[0])}")
    for name, kind in AREAS.items():
        raw = facts[name]
        if isinstance(raw, dict) and set(raw) == {""} and isinstance(raw[""], dict):
            continue
        try:
            msgspec.convert(raw, kind)
        except (msgspec.ValidationError, RecursionError) as error:
            raise Refused(f"its facts of {name} are malformed: {own_words(str(error))}") from None
