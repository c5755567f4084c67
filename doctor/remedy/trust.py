"""Root runs nothing that somebody else could have written: playbooks, matrices, overlays, the interpreter and its packages."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from doctor.errors import DoctorError

HOME = "/opt/gpu-host-doctor"
"""Where the line that installs it properly puts it."""


class TrustError(DoctorError):
    """Something that root would run is not root's own. Exit 2."""


def require(overlays: Sequence[Path] = (), extra: Sequence[Path] = ()) -> None:
    """TrustError naming the first thing that is not root's own; nothing when this is not root."""
    if os.geteuid() != 0:
        return
    for path in _everything(overlays, extra):
        problem = not_own(path)
        if problem is not None:
            raise TrustError(
                f"as root the doctor does not run what others can write: {problem}", line()
            )


def line() -> str:
    """The command that installs it so that only root can write it."""
    from doctor import __version__

    return (
        f"install it as root's own: sudo python3 -m venv {HOME} && "
        f"sudo {HOME}/bin/pip install {shlex.quote(f'gpu-host-doctor=={__version__}')} && "
        f"sudo {HOME}/bin/doctor --fix"
    )


def _everything(overlays: Sequence[Path], extra: Sequence[Path]) -> Iterable[Path]:
    from doctor.resources import matrices_dir, playbooks_dir

    own = Path(__file__).resolve().parents[1]
    yield Path(sys.executable)
    yield Path(os.path.realpath(sys.executable))
    yield from (own, playbooks_dir(), matrices_dir(), *overlays, *extra)
    for entry in sys.path:
        if entry and Path(entry).exists() and Path(entry) != own.parent:
            yield Path(entry)


def not_own(path: Path) -> str | None:
    """What of a path, of the folders above it or of all that is under it somebody else than root can write."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - links are looked at, not followed
    for folder in reversed(absolute.parents):
        problem = _wrong(str(folder), above=True)
        if problem is not None:
            return problem
    real = Path(os.path.realpath(absolute))
    if real != absolute:
        return _wrong(str(absolute)) or not_own(real)
    return _under(str(absolute))


def _under(top: str) -> str | None:
    problem = _wrong(top)
    if problem is not None or not os.path.isdir(top):  # noqa: PTH112
        return problem
    for folder, names, files in os.walk(top):
        for name in (*names, *files):
            problem = _wrong(f"{folder}/{name}")
            if problem is not None:
                return problem
    return None


def _wrong(path: str, above: bool = False) -> str | None:
    """Owner and mode of one thing. A sticky folder above is fine: others cannot replace what is root's in it."""
    try:
        info = os.lstat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    if info.st_uid != 0:
        return f"{path} belongs to user {info.st_uid}"
    if stat.S_ISLNK(info.st_mode):
        return None
    others = info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and info.st_gid != 0)
    if others and not (above and info.st_mode & stat.S_ISVTX):
        return f"{path} can be written by others (mode {stat.S_IMODE(info.st_mode):o})"
    return None
