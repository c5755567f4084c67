"""Judges hosts one after another in a process of its own: the matrix is loaded once, and no answer can hurt who asked.

Frames of msgpack on stdin and stdout, each behind its length: first the Rules, then Hosts; for each one Judged.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from datetime import date
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from doctor.fleet.envelope import Answered, NotAudited, Raw, Refused, own_words, parse, read
from doctor.fleet.folder import write
from doctor.fleet.model import HostLine

if TYPE_CHECKING:
    from doctor.checks.knowledge import Knowledge

MEMORY = 2 << 30
"""Bytes of address space; a host with two GPUs takes a tenth of it."""

GARBAGE = 100_000
"""New objects between two collections: what was loaded is for good."""
LARGEST_FILE = 64 << 20
"""Bytes of a file of facts."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How every host of an audit is judged."""

    as_of: str
    own_days: bool = False
    """Recordings are judged as of the day they were made."""
    fail_on: str = "error"
    overlays: list[str] = []
    wants: list[str] = []
    lock: str = ""
    waivers: str = ""
    folder: str = ""
    """Where reports are written; empty: nowhere."""
    word: str = ""
    """With which the probe was asked."""
    deadline: int = 0
    names: list[str] = []
    """The inventory's hosts: none should call itself like another."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True, tag="recorded"):
    """A folder of a recording, or a file of facts or of a report."""

    path: str


class Said(msgspec.Struct, frozen=True, kw_only=True, tag="said"):
    """An answer through Ansible."""

    raw: Raw
    seconds: float
    recording: bool = False
    """Whether the probe was sent to look at a recording there."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """One host to be judged."""

    name: str
    groups: list[str] = []
    origin: Recorded | Said


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The host's line; its whole report, packed as the history stores it; and the report without facts and passes."""

    line: HostLine
    packed: bytes | None = None
    brief: bytes | None = None
    problem: list[str] = []
    """A usage error that concerns all hosts: what, and the hint."""


class Judge:
    """Everything that is loaded once."""

    def __init__(self, rules: Rules) -> None:
        from doctor import engine
        from doctor.checks.knowledge import Knowledge

        overlays = tuple(Path(item) for item in rules.overlays)
        wants: tuple[Any, ...] = ()
        if rules.wants or rules.lock:
            from doctor.plan.want import parse_all

            wants = tuple(
                parse_all(rules.wants, Path(rules.lock) if rules.lock else None, overlays)
            )
        waivers = None
        if rules.waivers:
            from doctor.checks import waivers as waivers_file

            waivers = waivers_file.read(Path(rules.waivers))
        self.rules = rules
        self.names = frozenset(rules.names)
        self.short = frozenset(_short(name) for name in rules.names)
        self.options = engine.Options(
            as_of=date.fromisoformat(rules.as_of),
            fail_on=rules.fail_on,
            overlays=overlays,
            wants=wants,
            waivers=waivers,
        )
        self.checks = engine.chosen(self.options)
        self.knowledge = Knowledge(self.options.as_of, overlays=overlays, wants=wants)
        self.knowledge.preload()

    def __call__(self, host: Host) -> Judged:
        """One host; what goes wrong with it is its own."""
        from doctor.errors import DoctorError, UsageError

        seconds = host.origin.seconds if isinstance(host.origin, Said) else 0.0
        try:
            return self._judge(host, seconds)
        except UsageError as error:
            return Judged(
                line=_line(host, "failed", error.message), problem=[error.message, error.hint]
            )
        except DoctorError as error:
            return Judged(line=_line(host, "refused", own_words(error.message)))
        except (MemoryError, RecursionError) as error:
            said = f"its facts cannot be judged ({type(error).__name__})"
            return Judged(line=_line(host, "refused", said, seconds))

    def _judge(self, host: Host, seconds: float) -> Judged:
        answered = 0.0
        if isinstance(host.origin, Said):
            said = host.origin
            found = read(said.raw, self.rules.word, self.rules.deadline, said.recording)
            answered = said.raw.at
        else:
            found = from_file(host.origin.path)
        if isinstance(found, NotAudited):
            return Judged(line=_line(host, found.state, found.reason, seconds))
        return self._report(host, found, seconds, answered)

    def _report(self, host: Host, found: Answered, seconds: float, answered: float) -> Judged:
        from doctor import engine
        from doctor.checks.finding import Outcome
        from doctor.fleet.line import line_of
        from doctor.fleet.store import pack
        from doctor.redact import redact_tree

        knowledge = self._as_of(found)
        options = msgspec.structs.replace(
            self.options,
            label=found.source,
            as_of=knowledge.as_of,
            names=(host.name, *host.groups),
        )
        facts = found.facts  # of a probe of this version, which has cut secrets out of them
        if not isinstance(host.origin, Said):
            facts = redact_tree(facts)
        report = engine.judge(facts, self.checks, knowledge, options)
        said = report.host.name
        if isinstance(host.origin, Said) and another(said, host.name, self.names, self.short):
            why = f"it calls itself {own_words(said)}, which is another host of the inventory"
            return Judged(line=_line(host, "refused", why, seconds))
        line = line_of(report, host.name, host.groups, seconds, answered=answered or None)
        # identity is the inventory's name; what the host calls itself is only said
        report = msgspec.structs.replace(
            report, host=msgspec.structs.replace(report.host, name=host.name)
        )
        data = msgspec.json.encode(report)
        if self.rules.folder:
            write(Path(self.rules.folder) / line.file, data)
        told = [
            item for item in report.findings if item.outcome not in (Outcome.PASS, Outcome.SKIP)
        ]
        brief = msgspec.structs.replace(report, facts={}, findings=told, unseen=[])
        return Judged(line=line, packed=pack(data), brief=msgspec.json.encode(brief))

    def _as_of(self, found: Answered) -> Knowledge:
        """The same matrix on another day."""
        if found.source == "live" or not self.rules.own_days:
            return self.knowledge
        from doctor.checks.knowledge import Knowledge

        try:
            day = date.fromisoformat(found.recorded_at[:10])
        except ValueError:
            return self.knowledge
        options = self.options
        knowledge = Knowledge(day, overlays=options.overlays, wants=options.wants)
        knowledge.matrix = self.knowledge.matrix
        return knowledge


def another(said: str, name: str, names: frozenset[str], short: frozenset[str]) -> bool:
    """Whether a host calls itself like another one of the inventory, by the whole name or its first word."""
    own = {name, _short(name)}
    if not said or said in own or _short(said) in own:
        return False
    return said in names or _short(said) in short


def _short(name: str) -> str:
    first = name.partition(".")[0]
    return name if first.isdigit() else first


def _line(host: Host, state: Any, reason: str, seconds: float = 0.0) -> HostLine:
    return HostLine(
        name=host.name,
        state=state,
        reason=reason,
        groups=host.groups,
        seconds=round(seconds, 3),
    )


def from_file(path: str) -> Answered | NotAudited:
    """A recording or a file of facts, of whatever doctor made it."""
    from doctor.facts.tree import SCHEMA
    from doctor.probes import registry
    from doctor.probes.recordings.recorded import RecordedSource, RecordingError
    from doctor.report.model import SCHEMA as REPORT

    try:
        if Path(path).is_dir():
            source = RecordedSource(path)
            facts, made = registry.run(source)["facts"], source.recorded_at
        else:
            document = parse(_read(Path(path)))
            if not isinstance(document, dict) or document.get("schema") not in (SCHEMA, REPORT):
                return NotAudited(state="refused", reason="not a file of facts or of a report")
            facts, made = (
                document.get("facts"),
                str(document.get("recorded_at") or document.get("judged_as_of") or ""),
            )
    except (RecordingError, Refused, OSError) as error:
        return NotAudited(state="refused", reason=own_words(str(error)))
    if not isinstance(facts, dict):
        return NotAudited(state="refused", reason="it holds no facts")
    return Answered(facts=facts, source=path, recorded_at=made)


def _read(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise Refused(f"{path}: more than {LARGEST_FILE} bytes")
    return data


def send(stream: IO[bytes], frame: bytes) -> None:
    """One frame."""
    stream.write(len(frame).to_bytes(4, "big") + frame)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """One frame; None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "big")
    frame = stream.read(size)
    return frame if len(frame) == size else None


def main() -> None:
    """The process: ends when its stdin does, so that it never outlives who started it."""
    from doctor.errors import DoctorError

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    frames, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a print of a library is no reply
    first = receive(frames)
    if first is None:
        return
    try:
        judge = Judge(msgspec.msgpack.decode(first, type=Rules))
    except DoctorError as error:
        send(replies, msgspec.msgpack.encode([error.message, error.hint]))
        return
    send(replies, msgspec.msgpack.encode([]))
    gc.freeze()
    gc.set_threshold(GARBAGE)
    decoder = msgspec.msgpack.Decoder(Host)
    while (frame := receive(frames)) is not None:
        send(replies, msgspec.msgpack.encode(judge(decoder.decode(frame))))
