"""Finds the audit that is meant: a folder, or an id of the history (`last`, or the beginning of one)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from doctor.errors import UsageError
from doctor.fleet.folder import Audit, Folder, Sharing
from doctor.fleet.model import FleetReport, HostLine
from doctor.fleet.store import Audit as Kept
from doctor.fleet.store import Store, open_store
from doctor.report.model import Report


class Stored:
    """An audit of the history."""

    def __init__(self, store: Store, kept: Kept) -> None:
        self._store = store
        self._id = kept.id
        self.fleet = store.summary(kept.id) or _unfinished(store, kept)

    def lines(self) -> Iterator[HostLine]:
        """As they were stored."""
        return self._store.lines(self._id)

    def reports(self) -> Iterator[tuple[HostLine, Report | None]]:
        """As they were stored."""
        return self._store.reports(self._id)


def _unfinished(store: Store, kept: Kept) -> FleetReport:
    """What can be said of an audit that goes on or was killed."""
    from doctor.fleet.aggregate import Gathering

    gathering = Gathering()
    for line, report in store.reports(kept.id):
        gathering.add(line, report)
    found = gathering.finish(
        audit=kept.id,
        inventory=kept.inventory,
        started=kept.started,
        finished="",
        judged_as_of=kept.judged_as_of,
    )
    return msgspec.structs.replace(found, hosts=[])


@contextmanager
def opened(what: str) -> Iterator[Audit]:
    """A folder of that name, else the history's audit, for as long as it is read. UsageError when it is neither."""
    folder = Path(what)
    if folder.is_dir():
        yield Folder(folder)
        return
    if "/" in what:
        raise UsageError(
            f"{what} is not a folder", "name the folder of doctor fleet audit, or an id"
        )
    with open_store() as store:
        if not store.audits():
            raise UsageError("there is no audit yet", "doctor fleet audit -i INVENTORY makes one")
        yield Stored(store, store.audit(what))


def lines_of(audit: Audit) -> dict[str, HostLine]:
    """All of them by name, on shared parts."""
    share = Sharing().share
    return {line.name: share(line) for line in audit.lines()}


def pair(before: str | None, after: str | None, since: str | None) -> tuple[str, str]:
    """Which two audits are meant. UsageError when there are no two."""
    if before is not None and after is not None:
        if since is not None:
            raise UsageError("two audits and --since", "name two audits, or one and a day")
        return before, after
    with open_store() as store:
        if not store.audits():
            raise UsageError("there is no audit yet", "doctor fleet audit -i INVENTORY makes one")
        new = before if before is not None and since is not None else "last"
        if before is not None and since is None:
            return before, new
        kept = store.audit(new) if not Path(new).is_dir() else None
        if since is not None:
            return _ended_before(store, since), new
        old = store.before(kept.id) if kept else ""
    if not old:
        raise UsageError(
            "there is no earlier finished audit of this inventory", "name two audits or folders"
        )
    return old, new


def _ended_before(store: Store, day: str) -> str:
    from doctor.cli.sources import day as parsed

    wanted = parsed(day)
    ended = [item for item in store.audits() if item.finished and item.finished[:10] < str(wanted)]
    if not ended:
        raise UsageError(f"no audit ended before {day}", "name an audit or a folder")
    return ended[-1].id
