"""Asks hosts through Ansible: one task each that sends the probe. Answers are read from a file while they come."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from doctor import bundle
from doctor.errors import UsageError
from doctor.fleet import settings
from doctor.fleet.envelope import Raw, own_words
from doctor.fleet.inventory import Inventory
from doctor.remedy.host.locks import MARK
from doctor.remedy.runner import CancelToken, Command, execute, last_words
from doctor.remedy.workspace import Workspace
from doctor.resources import playbooks_dir

GRACE = 20.0
"""Seconds after its deadline at which a host counts as late, whatever Ansible says of it."""
SOCKET_FOLDER = 70
"""Characters of a folder in which ssh can still make its sockets."""
AUDIT = "audit.yml"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """How hosts are asked."""

    run: str
    word: str
    """What the probe's answer begins with."""
    deadline: int
    forks: int
    become: bool = False
    connection: str = ""
    """As of ansible-playbook -c, for hosts whose variables name none."""
    limit: str = ""
    """As of ansible-playbook --limit, where Ansible says whom it finds."""
    playbook: str = AUDIT
    values: dict[str, Any] = {}
    """What another playbook is told."""


class Collection:
    """Ansible at work in a thread of its own. Use as a context: what it started is gone afterwards."""

    def __init__(
        self, inventory: Inventory, hosts: Sequence[str] | None, asking: Asking, work: Path
    ) -> None:
        """`hosts` None: whomever Ansible finds in the inventory, said by `whom`."""
        self._asking = asking
        self._everybody = hosts is None
        self._waiting = dict.fromkeys(hosts or (), 0.0)
        """Host -> when its turn came, 0 before."""
        self._work = work
        self._sockets = (
            work / "cp"
            if len(str(work)) <= SOCKET_FOLDER
            else Path(tempfile.mkdtemp(prefix="doctor-"))
        )
        self._spool = work / "answers.jsonl"
        self._read = 0
        self._decoder = msgspec.json.Decoder(Raw)
        self._token = CancelToken()
        self._ended: Any = None
        self._thread = threading.Thread(
            target=self._run, args=(self._command(inventory),), daemon=True
        )

    def __enter__(self) -> Collection:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()
        self._thread.join(GRACE)
        end_processes(self._asking.run)
        shutil.rmtree(self._sockets, ignore_errors=True)
        shutil.rmtree(self._work, ignore_errors=True)

    def _command(self, inventory: Inventory) -> Command:
        asking, playbooks = self._asking, playbooks_dir()
        self._workspace = Workspace(self._work)
        self._sockets.mkdir(mode=0o700, exist_ok=True)
        values = self._workspace.write_vars(
            "audit",
            {
                **(self._probe() if asking.playbook == AUDIT else asking.values),
                "doctor_deadline": asking.deadline,
                **settings.CHECKING,
            },
        )
        flags = ["--forks", str(asking.forks), "-e", f"@{values}"]
        if asking.become:
            flags.append("--become")
        if asking.connection:
            flags += ["--connection", asking.connection]
        if self._everybody:
            flags += ["--limit", asking.limit] if asking.limit else []
        elif set(self._waiting) != set(inventory.hosts):
            wanted = self._work / "limit"
            wanted.write_text("".join(pattern(name) + "\n" for name in self._waiting))
            flags += ["--limit", f"@{wanted}"]
        config = settings.config_file(os.environ, Path.cwd())
        return Command(
            ident="audit",
            playbooks=playbooks,
            playbook=asking.playbook,
            inventory=list(inventory.sources),
            flags=flags,
            environment=settings.for_audit(
                config, playbooks, self._work, self._sockets, asking.run
            ),
            shown_by="doctor_spool",
        )

    def _probe(self) -> dict[str, Any]:
        probe = self._work / "probe"
        probe.write_bytes(bundle.shipped())
        arguments = ["--answer", self._asking.word, "--deadline", str(self._asking.deadline)]
        return {"doctor_probe": str(probe), "doctor_arguments": arguments}

    def _run(self, command: Command) -> None:
        try:
            self._ended = execute(command, self._workspace, lambda event: True, self._token)
        except Exception as error:  # said as the reason of every host that was not reached
            self._ended = error

    @property
    def running(self) -> bool:
        """Whether answers may still come."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Ask no more hosts; what has arrived can still be taken."""
        self._token.cancel()

    def whom(self) -> dict[str, tuple[list[str], dict[str, str]]] | None:
        """Whom Ansible found, once it has said so; UsageError when it never will."""
        at_work = self.running
        try:
            with self._spool.open("rb") as file:
                line = file.readline()
        except FileNotFoundError:
            line = b""
        if line.endswith(b"\n"):
            return self._decoder.decode(line).hosts
        if not at_work:
            raise UsageError(
                f"no host can be asked: {self.how_it_ended()}", "see ansible-inventory --graph"
            )
        return None

    def expect(self, hosts: Sequence[str]) -> None:
        """Of those that were found, whose answers are waited for."""
        self._waiting = dict.fromkeys(hosts, 0.0)

    def arrived(self, most: int) -> list[tuple[Raw, float]]:
        """Answers that are there and were not taken yet, with the seconds each took. A torn last line is not there."""
        found: list[tuple[Raw, float]] = []
        if most <= 0:
            return found
        try:
            with self._spool.open("rb") as file:
                file.seek(self._read)
                for line in file:
                    if not line.endswith(b"\n") or len(found) == most:
                        break
                    self._read += len(line)
                    raw = self._decoder.decode(line)
                    if raw.host not in self._waiting:
                        continue
                    if raw.kind == "begun":
                        self._waiting[raw.host] = raw.at
                        continue
                    began = self._waiting.pop(raw.host) or raw.at
                    found.append((raw, raw.at - began))
        except FileNotFoundError:
            return []
        return found

    def overdue(self) -> list[str]:
        """Hosts that Ansible itself did not give up in time; they are waited for no longer."""
        until = time.time() - self._asking.deadline - GRACE
        late = [host for host, began in self._waiting.items() if 0 < began < until]
        for host in late:
            del self._waiting[host]
        if not self._waiting:
            self.cancel()
        return late

    def not_reached(self) -> dict[str, bool]:
        """Hosts of which nothing is known yet, and whether their turn had come."""
        return {host: began > 0 for host, began in self._waiting.items()}

    def how_it_ended(self) -> str:
        """Why hosts may be missing, in Ansible's own words."""
        if self._ended is None:
            return "Ansible was still at work"
        if isinstance(self._ended, Exception):
            return own_words(f"Ansible could not be started: {self._ended}")
        if self._token.canceled or self._ended.status == "canceled":
            return "the audit was interrupted"
        words = own_words(last_words(self._ended))
        return f"ansible-playbook ended with {self._ended.rc}: {words}"


def pattern(name: str) -> str:
    """A line of a limit file that means this host and no other, whatever characters its name has."""
    if _PLAIN.fullmatch(name):
        return name
    letters = "".join(
        letter if letter.isascii() and letter.isalnum() else f"\\U{ord(letter):08x}"
        for letter in name
    )
    return f"~^{letters}$"


def end_processes(run: str) -> None:
    """End what the run started and left behind, ssh's waiting masters among it: by a mark in the environment that only its own have."""
    wanted = f"{MARK}={run}".encode()
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(place.name), signal.SIGKILL)
        except OSError:
            continue
