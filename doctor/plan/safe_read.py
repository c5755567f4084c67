"""Reads files of a folder that a stranger may have made: bounded, regular files only, never out of the folder."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from doctor.errors import UsageError

MAX_JSON = 32 * 1024 * 1024
"""A tokenizer.json of a large vocabulary is about 20 MB."""

MAX_ENTRIES = 5000


def list_folder(folder: Path, what: str) -> dict[str, int]:
    """Name -> size of the regular files in a folder, links to regular files included (a model cache is made of links)."""
    sizes: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for position, entry in enumerate(entries):
                if position >= MAX_ENTRIES:
                    raise UsageError(
                        f"{folder}: more than {MAX_ENTRIES} entries, so no {what}",
                        f"name the folder of one {what}",
                    )
                try:
                    status = entry.stat()
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    sizes[entry.name] = status.st_size
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", f"name the folder of a {what}") from None
    return sizes


def open_regular(path: Path) -> int:
    """A descriptor of a regular file, opened so that a FIFO or device cannot hang the reader."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "not a regular file")
    return handle


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object, or None when there is no such file. UsageError with the file for anything else."""
    try:
        handle = open_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", "give a folder whose files can be read"
        ) from None
    with os.fdopen(handle, "rb") as file:
        content = file.read(MAX_JSON + 1)
    if len(content) > MAX_JSON:
        raise UsageError(
            f"{path}: larger than {MAX_JSON // 2**20} MiB", "give the folder of one model or engine"
        )
    try:
        document = json.loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not valid JSON", "download or build it again") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: not a JSON object", "download or build it again")
    return document


def number(value: Any) -> int | None:
    """A whole number, or None for whatever else a file holds."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """A short text, or None."""
    return value[:200] if isinstance(value, str) else None


def mapping(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}
