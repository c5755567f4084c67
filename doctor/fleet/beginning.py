"""Which audit it is: a new one, or one that did not end; and that nobody else writes to its folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from doctor import __version__
from doctor.errors import UsageError
from doctor.fleet.inventory import Inventory
from doctor.fleet.store import Audit, Store
from doctor.remedy.host.run_id import new_id

if TYPE_CHECKING:
    from doctor.fleet.audit import AuditOptions


def now() -> str:
    """UTC."""
    return datetime.now(timezone.utc).replace(microsecond=0).isoformat()


def begun(store: Store, found: Inventory, asked: AuditOptions) -> Audit:
    """A new audit; nothing is stored yet."""
    id = new_id()
    folder = asked.folder or store.path.parent / "reports" / id
    judging = {
        "as_of": asked.as_of,
        "fail_on": asked.fail_on,
        "overlays": [str(item.absolute()) for item in asked.overlays],
        "wants": list(asked.wants),
        "lock": str(asked.lock.absolute()) if asked.lock else "",
        "waivers": str(asked.waivers.absolute()) if asked.waivers else "",
    }
    return Audit(
        id=id,
        doctor=__version__,
        inventory=found.label,
        folder=str(folder.absolute()),
        judged_as_of=asked.as_of or now()[:10],
        started=now(),
        options={"limit": asked.limit, "judging": judging},
    )


def resumed(store: Store, found: Inventory, asked: AuditOptions) -> Audit:
    """The newest audit of this inventory that did not end."""
    for kept in reversed(store.audits()):
        if kept.inventory != found.label or kept.options.get("limit") != asked.limit:
            continue
        if asked.folder is not None and str(asked.folder.absolute()) != kept.folder:
            continue
        if kept.finished:
            break
        if kept.doctor != __version__:
            raise UsageError(
                f"audit {kept.id} was begun by doctor {kept.doctor}",
                "begin a new one: hosts are judged by one version",
            )
        return kept
    raise UsageError("there is no unfinished audit of this inventory", "leave --resume out")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One audit at a time writes to a folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", "name a folder with -o") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(
            f"another audit writes to {folder}", "wait for it, or name another folder"
        ) from None
    finally:
        os.close(handle)
