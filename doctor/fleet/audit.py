"""An audit from its inventory to its report: hosts are asked, judged, written and stored as they come, whatever becomes of each."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import UsageError
from doctor.events import FleetReady, FleetStarted, HostFinished, Note
from doctor.exit_codes import ExitCode, worst
from doctor.fleet import beginning
from doctor.fleet import inventory as inventories
from doctor.fleet.aggregate import Gathering
from doctor.fleet.collect import Asking, Collection
from doctor.fleet.folder import write_summary
from doctor.fleet.inventory import Inventory
from doctor.fleet.judging import Host, Judged, Recorded, Rules, Said
from doctor.fleet.model import FleetReport, HostLine, State
from doctor.fleet.pool import Pool, workers
from doctor.fleet.store import Audit, Store, open_store
from doctor.report.model import Report

DEADLINE = 90
"""Seconds a host has from the start of its task: the probe ends itself after twenty-five, ssh's connection after ten."""
FORKS = 20
"""Hosts asked at once."""
TICK = 0.05
BACKLOG = 16
"""Answers in the judges' hands: enough that none waits, and no more in memory."""
LAST_ANSWERS = 15.0
"""Seconds in which, after an interruption, what has arrived is still judged."""


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. What says how hosts are judged holds for the whole audit, resumed or not."""

    inventory: tuple[str, ...]
    folder: Path | None = None
    """For the reports; None: in the state folder."""
    limit: str | None = None
    forks: int = FORKS
    become: bool = False
    connection: str = ""
    deadline: int = DEADLINE
    resume: bool = False
    as_of: str = ""
    """A day; empty: today, and for recordings the day of each."""
    fail_on: str = "error"
    overlays: tuple[Path, ...] = ()
    wants: tuple[str, ...] = ()
    lock: Path | None = None
    waivers: Path | None = None
    golden: str | None = None
    database: Path | None = None


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """The audit, and where its reports are."""

    fleet: FleetReport
    folder: Path


def audit(asked: AuditOptions, emit: Callable[[Any], None], stop: Callable[[], bool]) -> Audited:
    """Run one, or go on with one. KeyboardInterrupt and `stop` end it early: what arrived is kept, exit 130."""
    with open_store(asked.database) as store:
        found = None if asked.resume else inventories.unread(asked.inventory, asked.limit)
        if found is None:
            found = inventories.read(asked.inventory, asked.limit)
        kept = (
            beginning.resumed(store, found, asked)
            if asked.resume
            else beginning.begun(store, found, asked)
        )
        folder = Path(kept.folder)
        with beginning.alone(folder):
            return Audited(fleet=_Audit(kept, found, asked, store, emit, stop).run(), folder=folder)


def _can_be_golden(what: str | None, found: Inventory) -> None:
    """What --golden names is a file that can be read, or a host: said before an hour of asking."""
    if what is None or what in found.hosts:
        return
    from doctor.fleet import golden

    golden.chosen(what, {}, "")


class _Audit:
    """One audit at work."""

    def __init__(
        self,
        kept: Audit,
        found: Inventory,
        asked: AuditOptions,
        store: Store,
        emit: Callable[[Any], None],
        stop: Callable[[], bool],
    ) -> None:
        self._kept = kept
        self._inventory = found
        self._asked = asked
        self._store = store
        self._emit = emit
        self._stop = stop
        self._gathering = Gathering()
        self._done: set[str] = set()
        self._briefs = msgspec.json.Decoder(Report)
        self._interrupted = False
        self._word = secrets.token_hex(8)

    def run(self) -> FleetReport:
        """From the first host to the report."""
        left: list[str] = []
        try:
            if self._inventory.hosts:
                left = self._begin()
                self._ask(left)
            else:
                self._ask_whom_ansible_finds()
        except KeyboardInterrupt:
            self._interrupted = True
        for name in self._inventory.hosts:
            if name not in self._done:
                self._not_audited(name, "not-reached", "the audit was interrupted", keep=False)
        return self._finish()

    def _begin(self) -> list[str]:
        """Once it is known whom to ask: the hosts that are left to be asked."""
        _can_be_golden(self._asked.golden, self._inventory)
        self._store.begin_audit(self._kept)
        self._emit(
            FleetStarted(audit=self._kept.id, hosts=self._inventory.hosts, folder=self._kept.folder)
        )
        return self._without_unsafe(self._without_finished())

    def _without_finished(self) -> list[str]:
        """Hosts still to be asked; those that a resumed audit has are said at once."""
        if not self._asked.resume:
            return list(self._inventory.hosts)
        for line, report in self._store.reports(self._kept.id):
            if report is not None and line.name in self._inventory.hosts:
                self._add(line, report)
        return [name for name in self._inventory.hosts if name not in self._done]

    def _without_unsafe(self, names: list[str]) -> list[str]:
        for name in names:
            if name in self._inventory.unsafe:
                said = f"{self._inventory.unsafe[name]} switches host-key checking off; accept-new is as far as it may go"
                self._not_audited(name, "failed", said)
        return [name for name in names if name not in self._inventory.unsafe]

    def _ask(self, names: list[str]) -> None:
        if not names:
            return
        with Pool(self._rules(), workers(len(names))) as pool:
            if self._inventory.recordings:
                self._judge_recordings(names, pool)
                return
            with self._collection(names) as collection:
                self._judge_answers(collection, pool)

    def _ask_whom_ansible_finds(self) -> None:
        """The inventory is read once, by the run that asks: it says whom it found before it asks them."""
        with self._collection(None) as collection:
            hosts = collection.whom()
            while hosts is None and not self._stopped():
                time.sleep(TICK)
                hosts = collection.whom()
            if hosts is None:
                raise KeyboardInterrupt
            if not hosts:
                raise UsageError(
                    f"{self._inventory.label} has no hosts", "see ansible-inventory --graph"
                )
            self._inventory = inventories.said(self._inventory, hosts)
            names = self._begin()
            collection.expect(names)
            if names:
                with Pool(self._rules(), workers(len(names))) as pool:
                    self._judge_answers(collection, pool)

    @contextmanager
    def _collection(self, names: list[str] | None) -> Iterator[Collection]:
        asking = Asking(
            run=self._kept.id,
            word=self._word,
            deadline=self._asked.deadline,
            forks=self._asked.forks,
            become=self._asked.become,
            connection=self._asked.connection,
            limit=self._asked.limit or "",
        )
        with self._work() as work, Collection(self._inventory, names, asking, work) as collection:
            yield collection

    def _rules(self) -> Rules:
        judging = self._kept.options["judging"]
        return Rules(
            **{
                **judging,
                "as_of": judging["as_of"] or self._kept.judged_as_of,
                "own_days": not judging["as_of"],
            },
            folder=self._kept.folder,
            word=self._word,
            deadline=self._asked.deadline,
            names=list(self._inventory.hosts),
        )

    def _judge_recordings(self, names: list[str], pool: Pool) -> None:
        waiting = iter(names)
        while not self._stopped():
            for name in waiting:
                path = self._inventory.recordings[name]
                pool.give(Host(name=name, origin=Recorded(path=path)))
                if pool.waiting >= BACKLOG:
                    break
            if pool.waiting == 0:
                return
            self._take(pool, TICK)

    def _judge_answers(self, collection: Collection, pool: Pool) -> None:
        try:
            self._follow(collection, pool)
        except KeyboardInterrupt:
            self._interrupted = True
        if self._stopped():
            collection.cancel()
            self._last_answers(collection, pool)
            return
        for name, begun in collection.not_reached().items():
            state: State = "failed" if begun else "not-reached"
            self._not_audited(name, state, collection.how_it_ended())

    def _follow(self, collection: Collection, pool: Pool) -> None:
        """Until every host has answered or was given up."""
        while not self._stopped():
            at_work = collection.running  # asked before its answers are read: none comes later
            self._give(collection, pool)
            for name in collection.overdue():
                said = f"no answer within {self._asked.deadline} s, and Ansible did not give it up"
                self._not_audited(name, "late", said)
            if not self._take(pool, TICK) and not at_work and pool.waiting == 0:
                return

    def _last_answers(self, collection: Collection, pool: Pool) -> None:
        """What has arrived is judged, within reason; a second Ctrl-C leaves that too."""
        until = time.monotonic() + LAST_ANSWERS
        while time.monotonic() < until:
            self._give(collection, pool)
            if pool.waiting == 0:
                return
            self._take(pool, TICK)

    def _give(self, collection: Collection, pool: Pool) -> None:
        for raw, seconds in collection.arrived(BACKLOG - pool.waiting):
            name = raw.host
            said = Said(raw=raw, seconds=seconds, recording=name in self._inventory.recorded)
            pool.give(Host(name=name, groups=self._inventory.hosts[name], origin=said))

    def _take(self, pool: Pool, seconds: float) -> bool:
        """Everything that is judged by now; whether there was anything."""
        judged = pool.take(seconds)
        some = judged is not None
        while judged is not None:
            self._store_judged(judged)
            judged = pool.take(0)
        return some

    def _store_judged(self, judged: Judged) -> None:
        report = None if judged.brief is None else self._briefs.decode(judged.brief)
        self._store.add_host(self._kept.id, judged.line, judged.packed)
        self._add(judged.line, report)

    def _not_audited(self, name: str, state: State, reason: str, *, keep: bool = True) -> None:
        groups = self._inventory.hosts[name]
        line = HostLine(name=name, state=state, reason=reason, groups=groups)
        if keep:
            self._store.add_host(self._kept.id, line, None)
        self._add(line, None)

    def _add(self, line: HostLine, report: Report | None) -> None:
        self._gathering.add(line, report)
        self._done.add(line.name)
        said: dict[str, Any] = msgspec.to_builtins(line)
        done, of = len(self._done), len(self._inventory.hosts)
        self._emit(HostFinished(host=line.name, line=said, done=done, of=of))

    def _stopped(self) -> bool:
        self._interrupted = self._interrupted or self._stop()
        return self._interrupted

    @contextmanager
    def _work(self) -> Iterator[Path]:
        """The run's private folder. What a killed audit left goes."""
        above = self._store.path.parent / "work"
        above.mkdir(mode=0o700, exist_ok=True)
        for left in above.iterdir():
            if not Path(f"/proc/{left.name.rpartition('.')[2]}").exists():
                shutil.rmtree(left, ignore_errors=True)
        work = above / f"{self._kept.id}.{os.getpid()}"
        work.mkdir(mode=0o700)
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _finish(self) -> FleetReport:
        fleet = self._gathering.finish(
            audit=self._kept.id,
            inventory=self._kept.inventory,
            started=self._kept.started,
            finished="" if self._interrupted else beginning.now(),
            judged_as_of=self._kept.judged_as_of,
        )
        fleet = self._against_golden(fleet)
        if self._interrupted:
            code = int(worst([fleet.exit_code, ExitCode.INTERRUPTED]))
            fleet = msgspec.structs.replace(fleet, exit_code=code)
        else:
            fleet = self._with_changes(fleet)
        write_summary(Path(self._kept.folder), fleet)
        self._store.finish(self._kept.id, fleet)
        said = msgspec.to_builtins(msgspec.structs.replace(fleet, hosts=[]))
        self._emit(FleetReady(fleet=said))
        return fleet

    def _against_golden(self, fleet: FleetReport) -> FleetReport:
        """A host that was not audited this time cannot be the golden one: then, as ever, the majority is."""
        if self._asked.golden is None:
            return fleet
        from doctor.fleet import golden, likeness

        lines = {line.name: line for line in fleet.hosts}
        try:
            wanted = golden.chosen(self._asked.golden, lines, fleet.judged_as_of)
        except UsageError as error:
            self._emit(Note(text=f"{error.message}; hosts are compared with their majority"))
            return fleet
        outliers, alike = likeness.compare(fleet.hosts, wanted)
        return msgspec.structs.replace(fleet, outliers=outliers, likeness=alike, golden=wanted.name)

    def _with_changes(self, fleet: FleetReport) -> FleetReport:
        before = self._store.before(self._kept.id)
        if not before:
            return fleet
        from doctor.fleet import compare

        old = {line.name: line for line in self._store.lines(before)}
        found = compare.changes(old, {line.name: line for line in fleet.hosts})
        return msgspec.structs.replace(fleet, before=before, changes=found)
