"""Several hosts of a few files each, where Ansible would be: everything else is as it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from doctor.errors import RemedyError
from doctor.facts.identity import HostName
from doctor.fleet.envelope import Raw
from doctor.fleet.fixing.host import Setting
from doctor.fleet.fixing.model import FleetFix, HostFix
from doctor.fleet.fixing.remote import LostError, Remote
from doctor.fleet.fixing.run import Asked, Fleet, carried_out
from doctor.fleet.inventory import Inventory
from doctor.fleet.model import HostLine
from doctor.plan.model import Plan
from doctor.remedy.job import FixOptions
from doctor.remedy.lock import LockedError
from doctor.remedy.runner import Asked as AskedPlaybook
from doctor.remedy.runner import CancelToken, RoleResult
from doctor.remedy.state import Run
from doctor.remedy.workspace import Workspace
from doctor.report.model import Report
from tests.remedy.bench import Bench


class FakeRemote(Remote):
    """A bench behind the same door as a host that is elsewhere."""

    def __init__(self, name: str, bench: Bench, fleet: Several) -> None:
        self.name = name
        self.bench = bench
        self.claimed = False
        self.up = True
        self.taken = ""
        self.asked: list[str] = []
        self.comes_back = True
        self.before: Callable[[str], None] = lambda op: None
        self.before_play: Callable[[str], None] = lambda remedy: None
        self._fleet = fleet

    def ask(self) -> Future[tuple[Raw, float]]:
        answer: Future[tuple[Raw, float]] = Future()
        answer.set_result((Raw(host=self.name, kind="ok", at=0.0), 0.0))
        return answer

    def judged(self, raw: Raw, seconds: float) -> Report:
        if not self.up:
            raise LostError(HostLine(name=self.name, state="unreachable", reason="no connection"))
        self._fleet.looked.append(self.name)
        return self.bench.look()

    def hands(self, run: Run) -> Callable[..., dict[str, Any]]:
        def do(op: str, **arguments: Any) -> dict[str, Any]:
            self.asked.append(op)
            self.before(op)
            if not self.up:
                raise LostError(HostLine(name=self.name, state="unreachable", reason="gone"))
            if self.taken:
                raise LockedError(f"run {self.taken} is changing this host", "run again")
            self.claimed = op != "release"
            return {} if op in ("nothing", "release") else self.bench.do(op, **arguments)

        return do

    def play(
        self,
        asked: AskedPlaybook,
        workspace: Workspace,
        tell: Callable[[str, int], None] = lambda task, done: None,
        cancel: CancelToken | None = None,
    ) -> RoleResult:
        self.before_play(str(asked.values["doctor_remedy"]))
        with self._fleet.counting():
            return self.bench.play(asked, workspace, tell, cancel or CancelToken())

    def reboot(self, run: Run, playbooks: Path, cancel: CancelToken) -> str:
        if not self.comes_back:
            return "no answer after 1200 s"
        self.bench.boot += "+"
        self.bench.unseen.clear()
        return ""


class Several(Fleet):
    """A fleet of such hosts."""

    def __init__(self, folder: Path, names: list[str], **asked: Any) -> None:
        options = {key: asked.pop(key) for key in ("allow", "dry_run", "only") if key in asked}
        self.asked = Asked(
            inventories=["hosts"],
            options=FixOptions(lock_wait=0.2, package_wait=0.1, smoke="none", **options),
            **asked,
        )
        self.inventory = Inventory(label="hosts", sources=[], hosts={name: [] for name in names})
        self.root = folder / "state"
        self.root.mkdir(mode=0o700, exist_ok=True)
        self.looked: list[str] = []
        self.events: list[Any] = []
        self.most = self._now = 0
        self.takes = 0.0
        self._counter = threading.Lock()
        self.cancel = CancelToken()
        self.id = "20260101T000000-abcdef"
        self.remotes = {}
        self._fakes: dict[str, FakeRemote] = {}
        for name in names:
            (folder / name).mkdir()
            bench = Bench(folder / name)
            bench.host = HostName(name=name)
            self.remotes[name] = self._fakes[name] = FakeRemote(name, bench, self)
        self.tell = self.events.append
        self.refresh()

    def refresh(self) -> None:
        """Once the notes are written."""
        remedies = {key: value for bench in self.benches().values() for key, value in bench.remedies.items()}  # fmt: skip
        self.setting = Setting(
            options=self.asked.options,
            root=self.root,
            plan=self._plan,
            remedies=remedies,
            tell=self.tell,
            cancel=self.cancel,
            resume=self.asked.resume,
        )

    def benches(self) -> dict[str, Bench]:
        return {name: remote.bench for name, remote in self._fakes.items()}

    def remote(self, name: str) -> FakeRemote:
        return self._fakes[name]

    def _plan(self, report: Report) -> Plan:
        return self.benches()[report.host.name].plan(report)

    @contextmanager
    def counting(self) -> Iterator[None]:
        with self._counter:
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            time.sleep(self.takes)
            yield
        finally:
            with self._counter:
                self._now -= 1

    def fix(self) -> FleetFix:
        self.refresh()
        return carried_out(self, "2026-11-30T00:00:00+00:00")


def host(found: FleetFix, name: str) -> HostFix:
    return next(item for item in found.hosts if item.name == name)


def broken(fleet: Several, *names: str, **more: Any) -> None:
    """One note of each is wrong; its name is the host's, so that remedies do not meet."""
    for name in names or tuple(fleet.remotes):
        fleet.benches()[name].note(f"note_{name}", **more)


class Vanishes:
    """The host is gone from one operation on."""

    def __init__(self, remote: FakeRemote, at: str) -> None:
        self._remote = remote
        self._at = at

    def __call__(self, op: str) -> None:
        if op == self._at:
            self._remote.up = False


class Refuses:
    """An operation fails there."""

    def __init__(self, at: str) -> None:
        self._at = at

    def __call__(self, op: str) -> None:
        if op == self._at:
            raise RemedyError("Read-only file system")
