"""Where runs are kept: root's in /var/lib, a user's in the XDG state folder. Opened without following links, closed to others."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from doctor.errors import DoctorError, UsageError
from doctor.remedy.host.run_id import RUN_ID, new_id

ROOT = Path("/var/lib/gpu-host-doctor")


class Run(msgspec.Struct, frozen=True):
    """The folder of one run."""

    id: str
    folder: Path

    @property
    def plan(self) -> Path:
        """What was approved, with its digest and the options."""
        return self.folder / "plan.json"

    @property
    def journal(self) -> Path:
        """What was done, one record a line."""
        return self.folder / "journal.jsonl"

    @property
    def events(self) -> Path:
        """What was said while it was done."""
        return self.folder / "events.jsonl"

    @property
    def report(self) -> Path:
        """How it ended."""
        return self.folder / "report.json"

    @property
    def workspace(self) -> Path:
        """The runner's private folder."""
        return self.folder / "ansible"

    @property
    def saved(self) -> Path:
        """Copies of what steps change."""
        return self.folder / "saved"


class State(msgspec.Struct, frozen=True):
    """The state folder."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held by the one run that changes the host."""
        return self.root / "lock"

    def new_run(self) -> Run:
        """An empty run folder."""
        id = new_id()
        folder = self.root / "runs" / id
        (self.root / "runs").mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        return Run(id, folder)

    def run(self, id: str) -> Run:
        """A run by its id. UsageError when there is none of this owner's."""
        folder = self.root / "runs" / id
        if not RUN_ID.fullmatch(id) or not folder.is_dir() or folder.is_symlink():
            raise UsageError(f"there is no run {id!r} in {self.root}", "see doctor runs list")
        if folder.lstat().st_uid != os.geteuid():
            raise UsageError(f"{folder} belongs to somebody else", "see doctor runs list")
        return Run(id, folder)

    def runs(self) -> list[Run]:
        """Every run, the newest last."""
        folder = self.root / "runs"
        if not folder.is_dir():
            return []
        found = [item for item in folder.iterdir() if RUN_ID.fullmatch(item.name)]
        return [Run(item.name, item) for item in sorted(found) if not item.is_symlink()]


def default_root() -> Path:
    """Root's folder is fixed, whatever HOME says; a user's follows XDG."""
    if os.geteuid() == 0:
        return ROOT
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "gpu-host-doctor"


def open_state(root: Path | None = None, *, create: bool = True) -> State:
    """The state folder, made if it has to be. DoctorError where somebody else could have made it."""
    place = default_root() if root is None else root
    try:
        if create:
            place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
        info = place.lstat()
    except FileNotFoundError:
        return State(place)
    except OSError as error:
        raise DoctorError(
            f"cannot keep records in {place}: {error.strerror}", "nothing was changed"
        ) from None
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise DoctorError(f"{place} is not a folder of this user's own", "look who made it")
    if stat.S_IMODE(info.st_mode) & 0o077:
        place.chmod(0o700)
    for folder in place.resolve().parents:
        if _is_open(folder.lstat()):
            raise DoctorError(
                f"records in {place} could be replaced: others can write {folder}",
                "nothing was changed",
            )
    return State(place)


def _is_open(info: os.stat_result) -> bool:
    """Whether somebody else can put another folder in the place of one in this one. A sticky folder keeps them from it."""
    if info.st_uid not in (0, os.geteuid()):
        return True
    group = info.st_mode & stat.S_IWGRP and info.st_gid not in (0, os.getegid())
    return bool((info.st_mode & stat.S_IWOTH or group) and not info.st_mode & stat.S_ISVTX)
