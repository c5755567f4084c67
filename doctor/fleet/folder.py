"""An audit as files: `fleet.json` beside one `<host>.json` each. Read one host at a time, as what it is: text of strangers."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

import msgspec

from doctor.errors import UsageError
from doctor.fleet.model import SCHEMA, SUMMARY, Brief, FleetReport, HostLine, file_name
from doctor.fleet.telling import telling
from doctor.report.model import SCHEMA as REPORT_SCHEMA
from doctor.report.model import Report

LARGEST = 64 << 20
"""Bytes of a host's report."""
LARGEST_SUMMARY = 1 << 30


class Audit(Protocol):
    """What reports are made of. Both iterations start anew each time and hold one host at a time."""

    fleet: FleetReport
    """Without its hosts, or with."""

    def lines(self) -> Iterator[HostLine]:
        """By name."""
        ...

    def reports(self) -> Iterator[tuple[HostLine, Report | None]]:
        """By name; None for a host that has no report. Facts, and findings that passed or do not apply, may be left out."""
        ...


class _Summary(msgspec.Struct):
    hosts: list[msgspec.Raw] = []


class Sharing:
    """Lines of many hosts share what they have in common: most of them say the same of most things."""

    def __init__(self) -> None:
        self._briefs: dict[Brief, Brief] = {}
        self._texts: dict[str, str] = {}

    def share(self, line: HostLine) -> HostLine:
        """The same line on shared parts."""
        text = self._texts.setdefault
        return msgspec.structs.replace(
            line,
            findings=[self._briefs.setdefault(item, item) for item in line.findings],
            traits={text(key, key): text(value, value) for key, value in line.traits.items()},
            groups=[text(group, group) for group in line.groups],
            platform=text(line.platform, line.platform),
            distribution=text(line.distribution, line.distribution),
        )


class Folder:
    """The audit in a folder. A folder without `fleet.json`, as of an audit that was cut short, is put together anew."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder", "name the folder of doctor fleet audit")
        self._folder = folder
        summary = folder / SUMMARY
        self.fleet = _read_summary(summary) if summary.is_file() else _gather(folder)

    def lines(self) -> Iterator[HostLine]:
        """As the summary has them."""
        return iter(self.fleet.hosts)

    def reports(self) -> Iterator[tuple[HostLine, Report | None]]:
        """Each line with its host's report; a report that cannot be read any more is missing, and the line says why."""
        for line in self.fleet.hosts:
            if line.state != "audited":
                yield line, None
                continue
            try:
                yield line, read_telling(self._folder / file_name(line.name))
            except UsageError as error:
                yield _without_report(line, error.message), None


def _without_report(line: HostLine, why: str) -> HostLine:
    reason = f"{line.reason}; {why}" if line.reason else why
    return msgspec.structs.replace(line, reason=reason)


def _read_summary(file: Path) -> FleetReport:
    content = read_bytes(file, LARGEST_SUMMARY)
    try:
        hosts = msgspec.json.decode(content, type=_Summary).hosts
        sharing = Sharing()
        decode = msgspec.json.Decoder(HostLine).decode
        lines = [sharing.share(decode(raw)) for raw in hosts]
        rest = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        del content
        rest["hosts"] = msgspec.Raw(b"[]")
        fleet = msgspec.json.decode(msgspec.json.encode(rest), type=FleetReport)
    except msgspec.DecodeError as error:
        raise UsageError(f"{file}: {error}", "name the folder of an audit") from None
    if fleet.schema != SCHEMA:
        raise UsageError(f"{file}: its schema is {fleet.schema!r}", f"this doctor reads {SCHEMA}")
    return msgspec.structs.replace(fleet, hosts=sorted(lines, key=lambda line: line.name))


def read_report(file: Path) -> Report:
    """One host's report; UsageError when it is none."""
    return _read(file, _REPORT.decode)


_REPORT = msgspec.json.Decoder(Report)


def read_telling(file: Path) -> Report:
    """What of a host's report is told in an audit's; UsageError when it is none."""
    return _read(file, telling)


def _read(file: Path, decode: Callable[[bytes], Report]) -> Report:
    try:
        report = decode(read_bytes(file, LARGEST))
    except msgspec.DecodeError as error:
        raise UsageError(f"{file.name}: {error}", "audit the host again") from None
    if report.schema != REPORT_SCHEMA:
        raise UsageError(f"{file.name}: its schema is {report.schema!r}", "audit the host again")
    return report


def read_bytes(file: Path, largest: int) -> bytes:
    """A regular file, not through a link, not beyond a size."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{file.name}: {error.strerror}", "audit the host again") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{file.name} is not a file", "audit the host again")
        if found.st_size > largest:
            raise UsageError(f"{file.name} has {found.st_size} bytes", "audit the host again")
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return opened.read()
    finally:
        os.close(handle)


def _gather(folder: Path) -> FleetReport:
    from doctor.fleet.aggregate import Gathering
    from doctor.fleet.line import line_of

    gathering = Gathering()
    days = set()
    for file in sorted(folder.glob("*.json")):
        name = unquote(file.name.removesuffix(".json"))
        try:
            report = read_report(file)
        except UsageError as error:
            gathering.add(HostLine(name=name, state="refused", reason=error.message))
            continue
        days.add(report.judged_as_of)
        gathering.add(line_of(report, name), report)
    if not len(gathering):
        raise UsageError(f"{folder} holds no report", "name the folder of doctor fleet audit")
    return gathering.finish(
        audit=folder.name,
        inventory=str(folder),
        started="",
        finished="",
        judged_as_of=max(days, default="1970-01-01"),
    )


def write_summary(folder: Path, fleet: FleetReport) -> None:
    """`fleet.json`, on disk when it returns."""
    write(folder / SUMMARY, msgspec.json.encode(fleet), sync=True)


def write(path: Path, data: bytes, *, sync: bool = False) -> None:
    """A file of an audit, whole or not at all, and never through a link."""
    part = path.with_name(f".{os.getpid()}.part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(fd)
    part.replace(path)
