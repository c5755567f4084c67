"""A compiled matrix on disk: JSON named by the digest of everything it was made from.

It saves parsing, never trust: a file is read only if this user owns it and the folder, and nobody
else can write either. Whatever goes wrong here is silent, for the YAML is still there. Never
pickle.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from _blake2 import (
        blake2b,
    )  # hashlib loads OpenSSL first, which takes longer than to hash all tables
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from collections.abc import Iterable

APPLICATION = "gpu-host-doctor"
KEEP = 6
"""Compiled files left in the folder: tables, rules and remedies; overlays make one each."""

MAX_BYTES = 64 * 1024 * 1024


def cache_dir() -> Path:
    """Root's own folder, or the user's XDG cache. Root never follows HOME."""
    if os.geteuid() == 0:
        return Path("/var/cache") / APPLICATION
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / APPLICATION


def digesting(first: bytes) -> Any:
    """A digest to be updated, from its first bytes on."""
    return blake2b(first, digest_size=32)


def digest_of(folders: Iterable[Path], salt: bytes) -> str:
    """A name for these files with these contents, read by this version of the reader."""
    digest = digesting(salt)
    for folder in folders:
        digest.update(b"\0folder\0" + os.fsencode(folder))
        for place in (folder, folder / "sources"):
            for path in sorted(place.iterdir()) if place.is_dir() else ():
                name = path.name
                if name.endswith(".yml"):
                    content = path.read_bytes()
                    digest.update(b"\0file\0%s\0%d\0" % (os.fsencode(name), len(content)))
                    digest.update(content)
                elif "." not in name:
                    digest.update(b"\0entry\0" + os.fsencode(name))
    return str(digest.hexdigest())


def read(digest: str, folder: Path | None = None) -> bytes | None:
    """The compiled matrix, or None where there is none that can be trusted."""
    folder = folder or cache_dir()
    try:
        if not _is_ours(os.lstat(folder), stat.S_IFDIR):
            return None
        handle = os.open(
            folder / f"matrix-{digest}.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        )
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not _is_ours(status, stat.S_IFREG) or status.st_size > MAX_BYTES:
            return None
        return file.read()


def write(digest: str, compiled: bytes, folder: Path | None = None) -> None:
    """Put the compiled matrix in place in one step; a place that cannot be written is no error."""
    folder = folder or cache_dir()
    temporary = folder / f".matrix-{os.getpid()}.tmp"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(os.lstat(folder), stat.S_IFDIR):
            return
        handle = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(handle, "wb") as file:
            file.write(compiled)
        temporary.replace(folder / f"matrix-{digest}.json")
        _forget_old(folder)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _is_ours(status: os.stat_result, kind: int) -> bool:
    ours = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return ours and stat.S_IFMT(status.st_mode) == kind


def _forget_old(folder: Path) -> None:
    compiled = sorted(
        folder.glob("matrix-*.json"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for path in compiled[KEEP:]:
        path.unlink()
