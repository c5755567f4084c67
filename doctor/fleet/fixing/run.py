"""A fix of many hosts from its inventory to its report: wave after wave, each looked at, changed, rebooted where allowed, and looked at again."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import msgspec

from doctor import __version__
from doctor.errors import DoctorError, UsageError
from doctor.events import Note
from doctor.exit_codes import ExitCode, worst
from doctor.fleet import settings
from doctor.fleet.beginning import now
from doctor.fleet.fixing.desk import Desk, Terms
from doctor.fleet.fixing.host import (
    Seen,
    Setting,
    fix_one,
    line,
    not_looked_at,
    said_of,
    seen_again,
    undo_one,
)
from doctor.fleet.fixing.model import FleetFix, FleetUndo, HostFix, HostUndone, Wave
from doctor.fleet.fixing.remote import Bench, LostError, Remote
from doctor.fleet.fixing.waves import SERIAL, parted, share, too_many
from doctor.fleet.inventory import Inventory, read
from doctor.fleet.judging import Judge, Rules
from doctor.plan.remedy import remedies
from doctor.remedy import trust
from doctor.remedy.host.run_id import new_id
from doctor.remedy.job import FixOptions
from doctor.remedy.journal import Journal, store
from doctor.remedy.outcome import FixReport
from doctor.remedy.runner import CancelToken
from doctor.remedy.state import default_root, open_state
from doctor.report.model import Report


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    inventories: list[str]
    limit: str | None = None
    serial: str = SERIAL
    max_fail: str = "0%"
    forks: int = 10
    connection: str = ""
    deadline: int = 60
    resume: bool = False
    options: FixOptions
    roles: tuple[Path, ...] = ()
    """Roles beside our own, for tests."""


class Fleet:
    """Everything that a fix or an undo of an inventory works with. Use as a context."""

    def __init__(
        self, asked: Asked, line_of: Any, tell: Callable[[Any], None], cancel: CancelToken
    ) -> None:
        self.asked = asked
        self.inventory = checked(read(asked.inventories, asked.limit))
        self.root = open_state().root
        self.id = new_id()
        self._work = Path(tempfile.mkdtemp(prefix="doctor-"))
        terms = Terms(
            fix=self.id,
            word=secrets.token_hex(8),
            forks=asked.forks,
            connection=asked.connection,
            look_deadline=asked.deadline,
        )
        self.desk = Desk(self.inventory, terms, self._work)
        rules = Rules(
            as_of=now()[:10],
            overlays=asked.options.overlays,
            wants=asked.options.wants,
            word=terms.word,
            deadline=asked.deadline,
            names=list(self.inventory.hosts),
        )
        bench = Bench(Judge(rules))
        self.remotes = {
            name: Remote(name, self.desk, bench, self._work / "s") for name in self.inventory.hosts
        }
        self.tell = tell
        self.cancel = cancel
        self.setting = Setting(
            options=asked.options,
            root=self.root,
            plan=line_of(asked.options, lambda event: None).plan,
            remedies=remedies(),
            tell=tell,
            cancel=cancel,
            resume=asked.resume,
            roles=asked.roles,
        )
        (self._work / "s").mkdir(mode=0o700)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.desk.cancel()
        shutil.rmtree(self._work, ignore_errors=True)

    def looks(self, names: Sequence[str]) -> dict[str, Report | LostError]:
        """All of them by one start of Ansible, which asks --forks at the same time."""
        asked = {self.remotes[name].ask(): name for name in names}
        found: dict[str, Report | LostError] = {}
        for answer in as_completed(asked):
            name = asked[answer]
            try:
                found[name] = self.remotes[name].judged(*answer.result())
            except LostError as error:
                found[name] = error
        return {name: found[name] for name in names}


def checked(inventory: Inventory) -> Inventory:
    """UsageError for hosts that cannot be changed: recordings, and those whose keys would not be checked."""
    if inventory.recordings:
        raise UsageError(
            "a change is planned only from a live look, never from recordings",
            "doctor fleet audit judges them",
        )
    for host, why in inventory.unsafe.items():
        raise UsageError(
            f"{host}: {why} switches host-key checking off", "put its key into known_hosts"
        )
    return inventory


def fix(asked: Asked, line_of: Any, tell: Callable[[Any], None], cancel: CancelToken) -> FleetFix:
    """Every wave until one fails too much."""
    _wanted(asked.options)
    _trusted(asked)
    started = now()
    with Fleet(asked, line_of, tell, cancel) as fleet:
        return carried_out(fleet, started)


def carried_out(fleet: Fleet, started: str) -> FleetFix:
    """All waves of a fleet, written down as they go."""
    asked = fleet.asked
    waves = parted(list(fleet.inventory.hosts), asked.serial)
    record = None if asked.options.dry_run else _journal(fleet, waves)
    made = _Fix(fleet, waves, record)
    made.go()
    found = made.report(started)
    if record is not None:
        record.add("finished", code=found.exit_code, stopped=found.stopped)
        store(record.path.with_name("report.json"), found)
    return found


def _journal(fleet: Fleet, waves: list[list[str]]) -> Journal:
    folder = fleet.root / "fleet" / "fixes" / fleet.id
    folder.mkdir(mode=0o700, parents=True)
    journal = Journal(folder / "journal.jsonl")
    options = msgspec.to_builtins(fleet.asked.options)
    journal.add("started", inventory=fleet.inventory.label, waves=waves, options=options)
    return journal


class _Fix:
    """One pass over the waves."""

    def __init__(self, fleet: Fleet, waves: list[list[str]], journal: Journal | None) -> None:
        self._fleet = fleet
        self._waves = waves
        self._journal = journal
        self._most = share(fleet.asked.max_fail)
        self._hosts: dict[str, HostFix] = {}
        self._told: list[Wave] = []
        self._stopped = ""

    def go(self) -> None:
        for number, names in enumerate(self._waves, 1):
            if self._fleet.cancel.canceled:
                self._stopped = "it was interrupted"
                break
            self._wave(number, names)
            if self._stopped:
                break

    def _wave(self, number: int, names: list[str]) -> None:
        say = f"wave {number} of {len(self._waves)}: {', '.join(names[:5])}"
        self._note(say + (f" and {len(names) - 5} more" if len(names) > 5 else ""))
        at = time.monotonic()
        looks = self._fleet.looks(names)
        for name, look in looks.items():
            if isinstance(look, LostError):
                self._ended(not_looked_at(name, number, look))
        begun: dict[str, FixReport | None] = {}

        def one(name: str) -> None:
            look = looks[name]
            if isinstance(look, LostError) or self._tripped(names) or self._fleet.cancel.canceled:
                return
            remote = self._fleet.remotes[name]
            ended, begun[name] = fix_one(
                self._fleet.setting, remote, number, Seen(remote, look, at)
            )
            self._ended(ended)

        with ThreadPoolExecutor(self._fleet.asked.forks) as pool:
            list(pool.map(one, names))
        self._look_again(number, begun)
        tripped = self._tripped(names)
        failed = [name for name in names if name in self._hosts and self._hosts[name].failed]
        self._told.append(Wave(number=number, hosts=names, failed=failed, tripped=tripped))
        if tripped:
            most = f"{self._most:.0%}"
            self._stopped = (
                f"{len(failed)} of the {len(names)} hosts of wave {number} failed, and --max-fail is {most}: "
                f"{', '.join(failed[:5])}"
            )
            self._note(f"stopped: {self._stopped}")

    def _look_again(self, number: int, begun: dict[str, FixReport | None]) -> None:
        """Of those on which something ran: what a host of the wave showed alone it has to show when all are done."""
        changed = {
            name: made
            for name, made in begun.items()
            if made is not None and not made.dry_run and any(step.ran for step in made.steps)
        }
        if not changed:
            return
        for name, look in self._fleet.looks(list(changed)).items():
            before = self._hosts[name]
            if isinstance(look, LostError):
                again = seen_again(changed[name], None, look.message)
            else:
                again = seen_again(changed[name], look)
            self._hosts[name] = line(name, number, again, before.reason)
            if self._journal is not None:
                self._journal.add("looked-again", host=name, code=again.exit_code)

    def _tripped(self, names: list[str]) -> bool:
        failed = sum(1 for name in names if name in self._hosts and self._hosts[name].failed)
        return not self._fleet.asked.options.dry_run and too_many(failed, len(names), self._most)

    def _ended(self, host: HostFix) -> None:
        self._hosts[host.name] = host
        if self._journal is not None:
            self._journal.add(
                "host-ended", host=host.name, run=host.run, code=host.exit_code, failed=host.failed
            )

    def _note(self, text: str) -> None:
        self._fleet.tell(Note(text=text))

    def report(self, started: str) -> FleetFix:
        """What is said in the end; a host whose turn never came has no verdict."""
        why = self._stopped or "the fix ended before its turn"
        hosts = [
            self._hosts.get(name)
            or HostFix(name=name, wave=number, state="not-reached", exit_code=3, reason=why)
            for number, names in enumerate(self._waves, 1)
            for name in names
        ]
        codes = [host.exit_code for host in hosts]
        if self._fleet.cancel.canceled:
            codes.append(ExitCode.INTERRUPTED)
        counts: dict[str, int] = {"hosts": len(hosts)}
        for key in (
            *(host.state for host in hosts),
            *(f.status for h in hosts for f in h.findings),
        ):
            counts[key] = counts.get(key, 0) + 1
        return FleetFix(
            fix=self._fleet.id,
            doctor=__version__,
            inventory=self._fleet.inventory.label,
            started=started,
            finished=now(),
            dry_run=self._fleet.asked.options.dry_run,
            exit_code=int(worst(codes)),
            counts=counts,
            waves=self._told,
            hosts=hosts,
            stopped=self._stopped,
        )


def undo(
    id: str, asked: Asked, line_of: Any, tell: Callable[[Any], None], cancel: CancelToken
) -> FleetUndo:
    """Take a fix back on the hosts of the inventory (all that it changed, or those of --limit)."""
    _trusted(asked)
    path = default_root() / "fleet" / "fixes" / id / "journal.jsonl"
    if "/" in id or id.startswith(".") or not path.is_file():
        raise UsageError(f"there is no fix {id!r} of a fleet", "its id is in the report of the fix")
    runs = {
        record["host"]: record["run"] for record in Journal(path).of("host-ended") if record["run"]
    }
    with Fleet(asked, line_of, tell, cancel) as fleet:
        names = [name for name in reversed(runs) if name in fleet.inventory.hosts]
        if not names:
            raise UsageError(f"fix {id} changed none of these hosts", "see --limit")

        def one(name: str) -> HostUndone:
            try:
                done = undo_one(fleet.setting, fleet.remotes[name], runs[name])
            except (DoctorError, OSError) as error:
                return HostUndone(name=name, run=runs[name], exit_code=4, say=said_of(error))
            said = "; ".join(f"{step.id}: {step.say}" for step in done.steps) or "nothing to undo"
            return HostUndone(name=name, run=runs[name], exit_code=done.exit_code, say=said)

        with ThreadPoolExecutor(asked.forks) as pool:
            hosts = list(pool.map(one, names))
    return FleetUndo(fix=id, exit_code=int(worst(host.exit_code for host in hosts)), hosts=hosts)


def _wanted(options: FixOptions) -> None:
    """UsageError for a want that is judged by folders of this machine: they say nothing of another."""
    from doctor.plan.want import EngineWant, ModelWant, parse_all

    overlays = tuple(Path(item) for item in options.overlays)
    for want in parse_all(options.wants, None, overlays) if options.wants else ():
        if isinstance(want, (EngineWant, ModelWant)):
            raise UsageError(
                f"--want {want.spec} is a folder of this machine", "on a host: doctor fix --want"
            )


def _trusted(asked: Asked) -> None:
    """As root, neither what runs nor what says where it runs may be written by others."""
    extra = []
    for source in asked.inventories:
        path = Path(source)
        if "," not in source and path.exists():
            extra += [path, *(path.parent / name for name in ("group_vars", "host_vars"))]
    config = settings.config_file(os.environ, Path.cwd())
    extra += [config] if config is not None else []
    trust.require(
        [Path(item) for item in asked.options.overlays], [item for item in extra if item.exists()]
    )
