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
MOST_LINKS = 40
"""As many as the kernel follows in one path."""


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
    """The interpreter with its environment, every place from which it imports, and what is data to it."""
    from doctor.resources import matrices_dir, playbooks_dir

    yield Path(sys.executable)
    yield Path(os.path.realpath(sys.executable))
    prefix = Path(sys.prefix)
    if sys.prefix != sys.base_prefix:
        yield from (prefix / "bin", prefix / "pyvenv.cfg")
    yield from (Path(__file__).resolve().parents[1], playbooks_dir(), matrices_dir())
    yield from (*overlays, *extra)
    for entry in sys.path:
        yield Path(entry or Path.cwd())  # "" is the folder that one is in


def not_own(path: Path, seen: set[str] | None = None) -> str | None:
    """What of a path, of the way to it, of all that is under it or of what its links lead to somebody else can write."""
    seen = set() if seen is None else seen
    real, problem = _reached(str(path.absolute()))
    if problem is not None or real is None or real in seen:
        return problem
    seen.add(real)
    return _under(real, seen)


def _reached(path: str) -> tuple[str | None, str | None]:
    """Where a path leads, or None where nothing is; and what on the way, each link included, somebody else can replace."""
    at, rest, links = "/", path.split("/")[::-1], 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        problem = _wrong(at, above=True)
        if problem is not None:
            return None, problem
        if name == "..":
            at = at.rpartition("/")[0] or "/"
            continue
        step = f"{at.rstrip('/')}/{name}"
        if not os.path.lexists(step):
            return None, _wrong(at)  # nobody may put something there
        if not Path(step).is_symlink():
            at = step
            continue
        links += 1
        problem = _wrong(step) if links <= MOST_LINKS else f"{step}: too many links"
        if problem is not None:
            return None, problem
        target = str(Path(step).readlink())
        at = "/" if target.startswith("/") else at
        rest += target.split("/")[::-1]
    return at, None


def _under(top: str, seen: set[str]) -> str | None:
    problem = _wrong(top)
    if problem is not None or not Path(top).is_dir():
        return problem
    for folder, names, files in os.walk(top):
        for name in (*names, *files):
            path = f"{folder}/{name}"
            info = _info(path)
            if isinstance(info, str):
                return info
            led = stat.S_ISLNK(info.st_mode)
            problem = _led(path, top, seen) if led else _judged(path, info)
            if problem is not None:
                return problem
    return None


def _led(link: str, top: str, seen: set[str]) -> str | None:
    """What a link leads to outside of what is walked anyway."""
    real, problem = _reached(link)
    if problem is not None or real is None:
        return problem
    inside = real == top or real.startswith(f"{top}/")
    above = top.startswith(f"{real.rstrip('/')}/")
    return None if inside or above else not_own(Path(real), seen)


def _wrong(path: str, above: bool = False) -> str | None:
    info = _info(path)
    return info if isinstance(info, str) else _judged(path, info, above)


def _info(path: str) -> os.stat_result | str:
    try:
        return os.lstat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"


def _judged(path: str, info: os.stat_result, above: bool = False) -> str | None:
    """Owner and mode of one thing. A sticky folder above is fine: others cannot replace what is root's in it."""
    if info.st_uid != 0:
        return f"{path} belongs to user {info.st_uid}"
    if stat.S_ISLNK(info.st_mode):
        return None
    group = info.st_mode & stat.S_IWGRP and (info.st_gid != 0 or _has_acl(path))
    others = info.st_mode & stat.S_IWOTH or group
    if others and not (above and info.st_mode & stat.S_ISVTX):
        return f"{path} can be written by others (mode {stat.S_IMODE(info.st_mode):o})"
    return None


def _has_acl(path: str) -> bool:
    """An access list names more people than the owner and the group; the group's bits are then its mask."""
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False
