"""One host that is elsewhere, with what a fix needs of a host: a look, hands, playbooks, a reboot. All of it goes through Ansible."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from doctor.errors import RemedyError
from doctor.fleet import settings
from doctor.fleet.collect import end_processes, pattern
from doctor.fleet.envelope import Raw, Refused, marked, own_words, unpack
from doctor.fleet.fixing.desk import Desk, parcel
from doctor.fleet.judging import Host, Judge, Said
from doctor.fleet.model import HostLine
from doctor.fleet.store import unpack as unpacked
from doctor.remedy.hands import NoRightsError
from doctor.remedy.host.claim import ROOT
from doctor.remedy.inventory import PYTHON
from doctor.remedy.lock import LockedError
from doctor.remedy.runner import Asked, CancelToken, Command, RoleResult, run_command
from doctor.remedy.state import Run
from doctor.remedy.workspace import Workspace
from doctor.report.model import Report

REBOOT = 1200
"""Seconds for a host to come back."""


class LostError(RemedyError):
    """The host does not answer, or not as a host does."""

    def __init__(self, line: HostLine) -> None:
        super().__init__(line.reason or line.state)
        self.line = line


class Bench:
    """Judges one look after the other; what judging loads is loaded once."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._lock = threading.Lock()
        self._decoder = msgspec.json.Decoder(Report)

    def report(self, name: str, groups: list[str], raw: Raw, seconds: float) -> Report:
        """LostError where there is nothing to judge."""
        with self._lock:
            host = Host(name=name, groups=groups, origin=Said(raw=raw, seconds=seconds))
            judged = self._judge(host)
            if judged.packed is None:
                raise LostError(judged.line)
            return self._decoder.decode(unpacked(judged.packed))


class Remote:
    """A host of the inventory."""

    def __init__(self, name: str, desk: Desk, bench: Bench, sockets: Path) -> None:
        self.name = name
        self.claimed = False
        self._desk = desk
        self._bench = bench
        self._sockets = sockets

    def look(self) -> Report:
        """A fresh probe, judged."""
        return self.judged(*self.ask().result())

    def ask(self) -> Future[tuple[Raw, float]]:
        """The answer of a fresh probe, once it is there."""
        return self._desk.look(self.name)

    def judged(self, raw: Raw, seconds: float) -> Report:
        """What an answer says. LostError where it is none."""
        return self._bench.report(self.name, self._desk.inventory.hosts[self.name], raw, seconds)

    def hands(self, run: Run) -> Callable[..., dict[str, Any]]:
        """`do(operation, **arguments)` on it, for a run. Copies of what changes stay on the host, in its own folder."""
        own = f"{ROOT}/runs/{run.id}/saved"

        def do(do: str, **arguments: Any) -> dict[str, Any]:
            if "folder" in arguments:
                arguments["folder"] = own
            request = {
                "run": run.id,
                "by": socket.gethostname(),
                "word": self._desk.terms.word,
                "asked": {"do": do, **arguments},
            }
            self.claimed = do != "release"
            said = self._answer(self._desk.do(self.name, parcel(request)), do)
            if "claimed" in said:
                self.claimed = False
                raise LockedError(own_words(str(said["claimed"])), "run again when it has ended")
            if not isinstance(said.get("ok"), dict):
                raise RemedyError(own_words(str(said.get("error", "no answer"))))
            found: dict[str, Any] = said["ok"]
            return found

        return do

    def _answer(self, raw: Raw, do: str) -> dict[str, Any]:
        if raw.kind == "unreachable":
            reason = own_words(raw.msg) or "no connection"
            raise LostError(HostLine(name=self.name, state="unreachable", reason=reason))
        try:
            packed = marked(raw.stdout, self._desk.terms.word)
            said = None if packed is None else unpack(packed)
        except Refused as error:
            raise RemedyError(f"{do}: {error}") from None
        if isinstance(said, dict):
            return said
        words = own_words(raw.stderr) or own_words(raw.msg) or own_words(raw.stdout) or "no answer"
        if do == "nothing":
            raise NoRightsError(
                f"no rights to change this host: {words}",
                "its user has to become root: see ansible_become",
            )
        raise RemedyError(f"{do}: {words}")

    def play(
        self,
        asked: Asked,
        workspace: Workspace,
        tell: Callable[[str, int], None] = lambda task, done: None,
        cancel: CancelToken | None = None,
    ) -> RoleResult:
        """A playbook on this host and no other, as the inventory reaches it."""
        wrong = template(asked.values)
        if wrong:
            said = f"what this host said of itself is no value but a template: {own_words(wrong)}"
            return RoleResult(status="failed", failures=[said])
        values = {
            **asked.values,
            **settings.CHECKING,
            "doctor_targets": "all",
            "doctor_reboot_timeout": REBOOT,
            "ansible_python_interpreter": PYTHON,
        }
        mark = f"{asked.run}.play"
        limit = workspace.folder / "limit"
        limit.write_text(pattern(self.name) + "\n")
        flags = ["-e", f"@{workspace.write_vars(asked.ident, values)}", "--limit", f"@{limit}"]
        flags += ["--diff", "--become", *(["--check"] if asked.check else [])]
        if self._desk.terms.connection:
            flags += ["--connection", self._desk.terms.connection]
        command = Command(
            ident=asked.ident,
            playbooks=asked.playbooks,
            playbook=asked.playbook,
            inventory=list(self._desk.inventory.sources),
            flags=flags,
            environment=_environment(asked, workspace, self._sockets, mark),
            timeout=asked.timeout,
            idle=asked.idle,
        )
        try:
            return run_command(command, workspace, tell, cancel)
        finally:
            end_processes(mark)

    def reboot(self, run: Run, playbooks: Path, cancel: CancelToken) -> str:
        """Reboot it and wait: why it is not up again as another boot, or nothing."""
        asked = Asked(
            ident=f"reboot-{os.urandom(3).hex()}",
            playbooks=playbooks,
            playbook="reboot.yml",
            inventory={},
            values={},
            run=run.id,
            timeout=REBOOT + 300,
        )
        result = self.play(asked, Workspace(run.workspace), cancel=cancel)
        if result.status == "ok":
            return ""
        return result.failures[0] if result.failures else result.status


def _environment(asked: Asked, workspace: Workspace, sockets: Path, mark: str) -> dict[str, str]:
    """What an inventory may need of the caller's, and what our roles count on whatever the caller's configuration says."""
    config = settings.config_file(os.environ, Path.cwd())
    found = settings.for_audit(config, asked.playbooks, workspace.folder, sockets, mark)
    places = [str(asked.playbooks / "roles"), *map(str, asked.roles)]
    return {
        **{key: value for key, value in found.items() if not key.startswith("DOCTOR_SPOOL")},
        "ANSIBLE_ROLES_PATH": ":".join(places),
        "ANSIBLE_LIBRARY": str(asked.playbooks / "library"),
        "ANSIBLE_MODULE_UTILS": str(asked.playbooks / "module_utils"),
        "ANSIBLE_FORCE_HANDLERS": "True",
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_INJECT_FACT_VARS": "False",
        "ANSIBLE_STRATEGY": "linear",
    }


def template(value: Any) -> str:
    """The first text in it that Ansible would take for a template; empty when there is none. Facts are a stranger's words."""
    if isinstance(value, str):
        return value if any(mark in value for mark in ("{{", "{%", "{#")) else ""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        return next((found for item in value if (found := template(item))), "")
    return ""
