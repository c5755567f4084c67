"""An audit as one flat table: a row per host, finding, trait, difference and change, told apart by `record`. Every column is text or a number.

Parquet needs pyarrow (the extra `parquet`); rows go out in groups, so that no more than some thousand are in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doctor.errors import DoctorError, UsageError
from doctor.fleet.folder import Audit
from doctor.fleet.model import HostLine

if TYPE_CHECKING:
    import pyarrow

COLUMNS: dict[str, type] = {
    "audit": str,
    "started": str,
    "judged_as_of": str,
    "record": str,
    "host": str,
    "groups": str,
    "state": str,
    "verdict": str,
    "id": str,
    "outcome": str,
    "severity": str,
    "message": str,
    "value": str,
    "usual": str,
    "blocked_by": str,
    "waived": str,
    "exit_code": int,
    "passed": int,
    "unseen": int,
    "seconds": float,
}
"""In the order of the table. `record`: host, finding, trait, outlier, rule or change."""
TOGETHER = 20_000
"""Rows of a row group."""


def rows(audit: Audit) -> Iterator[dict[str, Any]]:
    """Every row; what it lacks is null."""
    fleet = audit.fleet
    whole = {"audit": fleet.audit, "started": fleet.started, "judged_as_of": fleet.judged_as_of}
    for line in audit.lines():
        for row in _of_host(line):
            yield whole | row
    for outlier in fleet.outliers:
        yield whole | {
            "record": "outlier",
            "host": outlier.host,
            "groups": outlier.group,
            "id": outlier.trait,
            "severity": outlier.severity.value,
            "value": outlier.value,
            "usual": outlier.usual,
        }
    for rule in fleet.across:
        yield whole | {
            "record": "rule",
            "groups": rule.group,
            "id": rule.id,
            "outcome": rule.outcome.value,
            "severity": rule.severity.value,
            "message": rule.message,
        }
    for change in fleet.changes:
        yield whole | {
            "record": "change",
            "host": change.host,
            "id": change.subject or change.kind,
            "outcome": "worse" if change.worse else "",
            "usual": change.before,
            "value": change.after,
        }


def _of_host(line: HostLine) -> Iterator[dict[str, Any]]:
    whose = {
        "host": line.name,
        "groups": " ".join(line.groups),
        "state": line.state,
        "verdict": line.verdict,
    }
    yield whose | {
        "record": "host",
        "id": line.next,
        "message": line.reason,
        "exit_code": line.exit_code,
        "passed": line.passed,
        "unseen": line.unseen,
        "seconds": line.seconds,
    }
    for item in line.findings:
        yield whose | {
            "record": "finding",
            "id": item.id,
            "outcome": item.outcome.value,
            "severity": item.severity.value,
            "message": item.message,
            "blocked_by": item.blocked_by,
            "waived": item.waived,
        }
    for path, value in line.traits.items():
        yield whose | {"record": "trait", "id": path, "value": value}


def to_jsonl(audit: Audit) -> Iterator[str]:
    """A row a line, as ASCII, without nulls."""
    for row in rows(audit):
        said = {name: row[name] for name in COLUMNS if row.get(name) is not None}
        yield json.dumps(said) + "\n"


def to_parquet(audit: Audit, output: Path) -> int:
    """Write the file, by an atomic rename; how many rows it has. UsageError without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed",
            "pip install 'gpu-host-doctor[parquet]', or use --format jsonl",
        ) from None
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    written = 0
    try:
        with pyarrow.parquet.ParquetWriter(part, schema, compression="zstd") as writer:
            for table in _tables(audit, schema):
                writer.write_table(table)
                written += table.num_rows
        part.replace(output)
    except OSError as error:
        raise DoctorError(
            f"cannot write {output}: {error.strerror or error}", "name a writable file"
        ) from None
    finally:
        with suppress(OSError):  # where it could not be made there is none
            part.unlink()
    return written


def _tables(audit: Audit, schema: pyarrow.Schema) -> Iterator[pyarrow.Table]:
    import pyarrow

    source = rows(audit)
    while some := list(islice(source, TOGETHER)):
        yield pyarrow.Table.from_pylist(some, schema=schema)
