"""What audits found, in SQLite under the state folder (fleet/history.db): safe against kill -9 and against two audits at once.

Everything streams: one host at a time is in memory. A host is on disk when `add_host` returns; what was asked and not answered
before a kill is simply not there, and `--resume` asks it again. One `Store` belongs to one thread.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from doctor.errors import DoctorError, UsageError
from doctor.fleet.migrations import MIGRATIONS
from doctor.fleet.model import FleetReport, HostLine
from doctor.fleet.telling import telling
from doctor.report.model import Report

NAME = "history.db"
LOCK_S = 60.0
"""Seconds to wait for another audit's write."""
LEVEL = 6
"""Of zlib: a report of 260 kB becomes 31 kB in 3 ms."""
LARGEST = 64 << 20
"""Bytes of a stored report that are unpacked; this program writes none that is larger."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """One audit. `finished`, `verdict` and `exit_code` are empty while it goes on or after it was killed."""

    id: str
    doctor: str
    inventory: str
    folder: str
    """Where its reports are written."""
    judged_as_of: str
    started: str
    options: dict[str, Any] = {}
    """What it was asked with, so that --resume asks the same."""
    finished: str = ""
    verdict: str = ""
    exit_code: int | None = None
    hosts: int = 0
    """Hosts that are stored."""


class Store:
    """One connection to the history."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = _connect(path)
        except sqlite3.DatabaseError as error:
            raise DoctorError(
                f"{path} cannot be used: {error}", "move it away; a new one is made"
            ) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._db.close()

    # writing

    def begin_audit(self, audit: Audit) -> None:
        """A new audit; one whose id is there goes on."""
        with self._db:
            self._db.execute(
                "INSERT INTO audits (id, doctor, inventory, folder, judged_as_of, started, options)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET finished = '', verdict = '',"
                " exit_code = NULL, fleet = NULL",
                (
                    audit.id,
                    audit.doctor,
                    audit.inventory,
                    audit.folder,
                    audit.judged_as_of,
                    audit.started,
                    msgspec.json.encode(audit.options).decode(),
                ),
            )

    def add_host(self, audit: str, line: HostLine, report: Report | bytes | None) -> None:
        """A host's line, its findings and its report (or the report already packed by `pack`). The last word counts."""
        packed = pack(msgspec.json.encode(report)) if isinstance(report, Report) else report
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO hosts (audit, host, state, verdict, exit_code, line) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    audit,
                    line.name,
                    line.state,
                    line.verdict,
                    line.exit_code,
                    msgspec.json.encode(line),
                ),
            )
            self._db.execute(
                "DELETE FROM findings WHERE audit = ? AND host = ?", (audit, line.name)
            )
            self._db.executemany(
                "INSERT INTO findings (audit, host, id, outcome, severity, blocked_by, waived)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        audit,
                        line.name,
                        item.id,
                        item.outcome.value,
                        item.severity.value,
                        item.blocked_by,
                        item.waived,
                    )
                    for item in line.findings
                ],
            )
            self._db.execute("DELETE FROM reports WHERE audit = ? AND host = ?", (audit, line.name))
            if packed is not None:
                self._db.execute(
                    "INSERT INTO reports (audit, host, report) VALUES (?, ?, ?)",
                    (audit, line.name, packed),
                )

    def finish(self, audit: str, fleet: FleetReport) -> None:
        """How it ended. An interrupted one has no `finished` and can be resumed."""
        said = msgspec.structs.replace(fleet, hosts=[])
        with self._db:
            self._db.execute(
                "UPDATE audits SET finished = ?, verdict = ?, exit_code = ?, fleet = ? WHERE id = ?",
                (
                    fleet.finished,
                    fleet.verdict,
                    fleet.exit_code,
                    pack(msgspec.json.encode(said)),
                    audit,
                ),
            )

    # reading

    def audits(self) -> list[Audit]:
        """All, the oldest first."""
        rows = self._db.execute(f"{_AUDITS} ORDER BY started, id")
        return [_audit(row) for row in rows]

    def audit(self, id: str) -> Audit:
        """By its id, the beginning of one, or `last`. UsageError when none or several are meant."""
        if id == "last":
            rows = self._db.execute(f"{_AUDITS} ORDER BY started DESC, id DESC LIMIT 1").fetchall()
        else:
            rows = self._db.execute(
                f"{_AUDITS} WHERE substr(id, 1, ?) = ? ORDER BY id LIMIT 2", (len(id), id)
            ).fetchall()
            rows = [row for row in rows if row[0] == id] or rows
        if not id or not rows:
            raise UsageError(f"there is no audit {id!r} in {self.path}", "see doctor fleet diff")
        if len(rows) > 1:
            raise UsageError(f"several audits begin with {id!r}", "write more of the id")
        return _audit(rows[0])

    def summary(self, audit: str) -> FleetReport | None:
        """The audit as a whole without its hosts; None while it goes on or when it was killed."""
        row = self._db.execute("SELECT fleet FROM audits WHERE id = ?", (audit,)).fetchone()
        if row is None or row[0] is None:
            return None
        return msgspec.json.decode(unpack(row[0]), type=FleetReport)

    def lines(self, audit: str) -> Iterator[HostLine]:
        """Every host's line, by name."""
        rows = self._db.execute("SELECT line FROM hosts WHERE audit = ? ORDER BY host", (audit,))
        decoder = msgspec.json.Decoder(HostLine)
        for (line,) in rows:
            yield decoder.decode(line)

    def reports(self, audit: str) -> Iterator[tuple[HostLine, Report | None]]:
        """Every host's line, and of its report what an audit tells (doctor.fleet.telling); by name."""
        rows = self._db.execute(
            "SELECT hosts.line, reports.report FROM hosts LEFT JOIN reports USING (audit, host)"
            " WHERE hosts.audit = ? ORDER BY hosts.host",
            (audit,),
        )
        lines = msgspec.json.Decoder(HostLine)
        for line, packed in rows:
            yield lines.decode(line), None if packed is None else telling(unpack(packed))

    def report(self, audit: str, host: str) -> Report | None:
        """One host's report."""
        row = self._db.execute(
            "SELECT report FROM reports WHERE audit = ? AND host = ?", (audit, host)
        ).fetchone()
        return None if row is None else msgspec.json.decode(unpack(row[0]), type=Report)

    def before(self, audit: str) -> str:
        """The newest finished audit of the same inventory and limit that is older than this one; empty when there is none."""
        row = self._db.execute(
            "SELECT old.id FROM audits AS old JOIN audits AS new USING (inventory)"
            " WHERE new.id = ? AND old.finished <> '' AND (old.started, old.id) < (new.started, new.id)"
            " AND json_extract(old.options, '$.limit') IS json_extract(new.options, '$.limit')"
            " ORDER BY old.started DESC, old.id DESC LIMIT 1",
            (audit,),
        ).fetchone()
        return "" if row is None else str(row[0])


_AUDITS = (
    "SELECT id, doctor, inventory, folder, judged_as_of, started, options, finished, verdict, exit_code,"
    " (SELECT count(*) FROM hosts WHERE hosts.audit = audits.id) FROM audits"
)


def _audit(row: tuple[Any, ...]) -> Audit:
    return Audit(
        id=row[0],
        doctor=row[1],
        inventory=row[2],
        folder=row[3],
        judged_as_of=row[4],
        started=row[5],
        options=msgspec.json.decode(row[6]),
        finished=row[7],
        verdict=row[8],
        exit_code=row[9],
        hosts=row[10],
    )


def pack(data: bytes) -> bytes:
    """As it is stored."""
    return zlib.compress(data, LEVEL)


def unpack(packed: bytes) -> bytes:
    """What was stored, never more than this program would have written."""
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(packed, LARGEST)
    if unpacking.unconsumed_tail:
        raise DoctorError("a stored report is too large", "the history was changed by hand")
    return data


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=LOCK_S)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(
            "PRAGMA synchronous = NORMAL"
        )  # WAL: a power cut may cost the last hosts, no kill does
        db.execute("PRAGMA foreign_keys = ON")
        _migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Each step once, under the write lock: two audits that start at once make one schema."""
    if _version(db) == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    version = _version(db)
    if version > len(MIGRATIONS):
        db.execute("ROLLBACK")
        raise DoctorError(
            f"{path} was written by a newer doctor (schema {version}, this one knows {len(MIGRATIONS)})",
            "use that doctor, or another state folder",
        )
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        for statement in statements:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")
    db.execute("COMMIT")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def open_store(path: Path | None = None) -> Store:
    """The history at `path`, or of the state folder; made if it has to be."""
    if path is None:
        from doctor.remedy.state import open_state

        folder = open_state().root / "fleet"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / NAME
    return Store(path)
