"""Questions to hosts, through Ansible. What several hosts are asked at the same time goes out together, as one start of Ansible."""

from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from doctor.fleet.collect import AUDIT, Asking, Collection
from doctor.fleet.envelope import Raw
from doctor.fleet.inventory import Inventory
from doctor.remedy.host.parcel import REQUEST

GATHER = 0.15
"""Seconds to wait for others who ask."""
POLL = 0.05
STARTS = 4
"""Starts of Ansible at a time."""
ASK = "ask.yml"
PACKAGE = Path(__file__).resolve().parents[2]
ENTRY = """\
import sys
if sys.version_info < (3, 9):
    sys.exit("the system's Python is %d.%d; remedies need 3.9 or newer" % sys.version_info[:2])
from doctor.remedy.host.parcel import main
sys.exit(main(sys.argv[0]))
"""
PREFIX = b'#!/bin/sh\nexec /usr/bin/python3 -ISB "$0"\n'
"""Before the archive: the system's own Python and no other."""
_WHEN = (1980, 1, 1, 0, 0, 0)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How this fix asks."""

    fix: str
    word: str
    forks: int
    connection: str = ""
    look_deadline: int = 60
    act_deadline: int = 7200
    """Seconds that a host may take to copy what a step changes, or to put it back."""


class _Question(msgspec.Struct, kw_only=True):
    host: str
    parcel: bytes | None
    answer: Future[tuple[Raw, float]]


class Desk:
    """Takes questions from the threads of many hosts and gives each its answer."""

    def __init__(self, inventory: Inventory, terms: Terms, work: Path) -> None:
        self.inventory = inventory
        self.terms = terms
        self._work = work
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Question]] = {AUDIT: [], ASK: []}
        self._starts = threading.Semaphore(STARTS)
        self._number = 0
        self._canceled = threading.Event()

    def cancel(self) -> None:
        """What is asked now gets no answer any more."""
        self._canceled.set()

    def look(self, host: str) -> Future[tuple[Raw, float]]:
        """The probe's answer and the seconds it will have taken."""
        return self._asked(AUDIT, host, None)

    def do(self, host: str, parcel: bytes) -> Raw:
        """The answer to the request in a parcel."""
        return self._asked(ASK, host, parcel).result()[0]

    def _asked(self, playbook: str, host: str, parcel: bytes | None) -> Future[tuple[Raw, float]]:
        question = _Question(host=host, parcel=parcel, answer=Future())
        with self._lock:
            self._waiting[playbook].append(question)
            first = len(self._waiting[playbook]) == 1
        if first:
            threading.Thread(target=self._go, args=(playbook,), daemon=True).start()
        return question.answer

    def _go(self, playbook: str) -> None:
        time.sleep(GATHER)
        with self._starts:
            with self._lock:
                asked = {question.host: question for question in self._waiting[playbook]}
                self._waiting[playbook] = []
                self._number += 1
                number = self._number
            try:
                said = self._ask(playbook, asked, number)
            except Exception as error:  # said as the answer of each: nobody else hears of it
                said = f"{type(error).__name__}: {error}"
            for question in asked.values():
                if not question.answer.done():
                    question.answer.set_result((_none(question.host, said), 0.0))

    def _ask(self, playbook: str, asked: dict[str, _Question], number: int) -> str:
        """Hand out answers as they come; why the others have none."""
        work = self._work / f"ask-{number}"
        work.mkdir(mode=0o700)
        looks = playbook == AUDIT
        asking = Asking(
            run=f"{self.terms.fix}.{number}",
            word=self.terms.word,
            deadline=self.terms.look_deadline if looks else self.terms.act_deadline,
            forks=min(self.terms.forks, len(asked)),
            become=True,
            connection=self.terms.connection,
            playbook=playbook,
            values={} if looks else {"doctor_parcels": _written(work, asked)},
        )
        late = f"no answer within {asking.deadline} s"
        with Collection(self.inventory, list(asked), asking, work) as collection:
            while True:
                running = collection.running
                for raw, seconds in collection.arrived(len(asked)):
                    asked[raw.host].answer.set_result((raw, seconds))
                for host in collection.overdue():
                    asked[host].answer.set_result((_none(host, late), 0.0))
                if not running or self._canceled.is_set():
                    break
                time.sleep(POLL)
            return "it was interrupted" if self._canceled.is_set() else collection.how_it_ended()


def _none(host: str, why: str) -> Raw:
    return Raw(host=host, kind="unreachable", at=time.time(), msg=why)


def _written(work: Path, asked: dict[str, _Question]) -> dict[str, str]:
    """A file for each: what one host is asked is nobody else's."""
    found = {}
    for number, (host, question) in enumerate(asked.items()):
        path = work / f"parcel-{number}"
        path.write_bytes(question.parcel or b"")
        path.chmod(0o600)
        found[host] = str(path)
    return found


def parcel(request: dict[str, Any]) -> bytes:
    """The host's side of the remedies with a request, as one file that a shell hands to the system's Python."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (*_members(), (REQUEST, json.dumps(request).encode())):
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data, zipfile.ZIP_DEFLATED, 6)
    return PREFIX + buffer.getvalue()


@lru_cache(maxsize=1)
def _members() -> tuple[tuple[str, bytes], ...]:
    files = [
        "__init__.py",
        "probes/__init__.py",
        "probes/answer.py",
        "remedy/__init__.py",
        *(f"remedy/host/{path.name}" for path in sorted((PACKAGE / "remedy/host").glob("*.py"))),
    ]
    found = [(f"doctor/{name}", (PACKAGE / name).read_bytes()) for name in files]
    return (("__main__.py", ENTRY.encode()), *found)
