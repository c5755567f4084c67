"""What a run did, one JSON record a line, on disk before the next thing is done. A torn last line is a record that was not written."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec

Record = dict[str, Any]


class Journal:
    """Append-only. `what` names the kind of a record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._heal()

    def add(self, what: str, **values: Any) -> Record:
        """Write a record; it is on disk when this returns."""
        record: Record = {"what": what, "at": round(time.time(), 3), **values}
        line = msgspec.json.encode(record) + b"\n"
        fresh = not self.path.exists()
        fd = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        if fresh:
            sync_folder(self.path.parent)
        return record

    def records(self) -> list[Record]:
        """Everything that was written."""
        return read(self.path)

    def of(self, what: str, step: str | None = None) -> list[Record]:
        """Records of one kind, of one step if it is named."""
        return [
            item
            for item in self.records()
            if item["what"] == what and (step is None or item.get("step") == step)
        ]

    def last(self, what: str, step: str | None = None) -> Record | None:
        """The newest record of a kind."""
        found = self.of(what, step)
        return found[-1] if found else None

    def _heal(self) -> None:
        """End a torn line, so that the next record starts on its own."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        with self.path.open("rb+") as file:
            if size:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")


def read(path: Path) -> list[Record]:
    """Records of a journal file; lines that are not whole are left out."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            record = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(record, dict) and "what" in record:
            found.append(record)
    return found


def store(path: Path, value: Any) -> None:
    """A JSON file, whole or not at all."""
    part = path.with_name(path.name + ".part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=1))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """A new name in a folder survives a crash."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
