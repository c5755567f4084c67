"""The history opens after a kill, serves two audits at once, and says what it cannot."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from doctor import engine
from doctor.errors import DoctorError, UsageError
from doctor.fleet.line import line_of
from doctor.fleet.migrations import MIGRATIONS
from doctor.fleet.model import FleetReport, HostLine
from doctor.fleet.store import Audit, Store, open_store, pack, unpack
from doctor.report.model import Report
from doctor.simulate.simulator import simulate


def audit(id: str, started: str = "2026-11-30T12:00:00Z", inventory: str = "hosts") -> Audit:
    return Audit(
        id=id,
        doctor="1",
        inventory=inventory,
        folder="/reports",
        judged_as_of="2026-11-30",
        started=started,
        options={"limit": "gpu*"},
    )


def summary(id: str, finished: str) -> FleetReport:
    return FleetReport(
        audit=id,
        doctor="1",
        inventory="hosts",
        started="2026-11-30T12:00:00Z",
        finished=finished,
        judged_as_of="2026-11-30",
        verdict="broken",
        exit_code=1,
        counts={"hosts": 1, "broken": 1},
        hosts=[HostLine(name="a", state="audited")],
        by_finding=[],
        outliers=[],
        across=[],
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    from doctor.cli.sources import open_source

    folder = simulate({"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "none"}).write(
        tmp_path_factory.mktemp("host") / "r"
    )
    opened = open_source(str(folder))
    assert opened.source is not None
    return engine.check(opened.source, engine.Options(as_of=opened.as_of, label=str(folder)))


def test_what_goes_in_comes_out(tmp_path: Path, report: Report) -> None:
    with open_store(tmp_path / "history.db") as store:
        store.begin_audit(audit("20261130T120000-aaaaaa"))
        line = line_of(report, "gpu-2", ["gpu"])
        store.add_host("20261130T120000-aaaaaa", line, report)
        gone = HostLine(name="gpu-1", state="unreachable", reason="no route to host")
        store.add_host("20261130T120000-aaaaaa", gone, None)
        assert store.summary("20261130T120000-aaaaaa") is None
        assert store.audit("last").finished == ""
        store.finish("20261130T120000-aaaaaa", summary("20261130T120000-aaaaaa", "later"))
    with open_store(tmp_path / "history.db") as store:
        found = store.audit("2026")
        assert (found.hosts, found.verdict, found.exit_code) == (2, "broken", 1)
        assert found.options == {"limit": "gpu*"}
        assert list(store.lines(found.id)) == [gone, line]
        told = [item for item in report.findings if item.outcome.value not in ("pass", "skip")]
        assert told
        assert [item and item.findings for _, item in store.reports(found.id)] == [None, told]
        assert store.report(found.id, "gpu-2") == report
        assert store.report(found.id, "gpu-1") is None
        kept = store.summary(found.id)
        assert kept is not None and kept.hosts == [] and kept.counts == {"hosts": 1, "broken": 1}


def test_a_host_that_answers_again_is_there_once(tmp_path: Path, report: Report) -> None:
    with open_store(tmp_path / "history.db") as store:
        store.begin_audit(audit("a"))
        store.add_host("a", line_of(report, "h"), report)
        store.add_host("a", HostLine(name="h", state="late"), None)
        assert [item.state for item in store.lines("a")] == ["late"]
        assert store.report("a", "h") is None
        with closing(sqlite3.connect(store.path)) as db:
            assert db.execute("SELECT count(*) FROM findings").fetchone()[0] == 0


def test_which_audit_is_meant(tmp_path: Path) -> None:
    with open_store(tmp_path / "history.db") as store:
        store.begin_audit(audit("ab1", "2026-11-01"))
        store.begin_audit(audit("ab2", "2026-11-02"))
        store.begin_audit(audit("zz", "2026-11-03", inventory="other"))
        assert store.audit("last").id == "zz"
        for wrong in ("ab", "nothing", ""):
            with pytest.raises(UsageError):
                store.audit(wrong)
        assert store.before("ab2") == ""
        store.finish("ab1", summary("ab1", "2026-11-01"))
        assert store.before("ab2") == "ab1"
        assert store.before("zz") == ""


def test_an_audit_that_goes_on_is_unfinished_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "history.db") as store:
        store.begin_audit(audit("a"))
        store.add_host("a", HostLine(name="h", state="late"), None)
        store.finish("a", summary("a", "2026-11-01"))
        store.begin_audit(audit("a"))
        assert store.summary("a") is None
        assert store.audit("a").finished == ""
        assert [item.name for item in store.lines("a")] == ["h"]


WRITER = """
import sys
from doctor.fleet.model import HostLine
from doctor.fleet.store import open_store
from tests.fleet.test_store import audit
with open_store(__import__("pathlib").Path(sys.argv[1])) as store:
    store.begin_audit(audit(sys.argv[2]))
    for number in range(int(sys.argv[3])):
        store.add_host(sys.argv[2], HostLine(name=f"h{number:05d}", state="late"), None)
        print(number, flush=True)
"""


def writer(path: Path, id: str, hosts: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), id, str(hosts)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_killed_while_writing_it_opens_and_keeps_what_it_said(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    child = writer(path, "a", 100000)
    assert child.stdout is not None
    for said in child.stdout:
        if int(said) >= 40:
            break
    os.kill(child.pid, signal.SIGKILL)
    said_last = max([40, *(int(word) for word in child.stdout.read().split())])
    child.wait()
    child.stdout.close()
    with open_store(path) as store:
        kept = [item.name for item in store.lines("a")]
        assert len(kept) >= said_last + 1
        assert kept == [f"h{number:05d}" for number in range(len(kept))]
        store.add_host("a", HostLine(name="later", state="late"), None)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_several_audits_at_once_from_the_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    children = [writer(path, name, 50) for name in "abcd"]
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    with open_store(path) as store:
        assert [(item.id, item.hosts) for item in store.audits()] == [(n, 50) for n in "abcd"]


def test_schemas_of_older_doctors_are_brought_up_and_newer_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    open_store(path).close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.commit()
    db.close()
    with pytest.raises(DoctorError, match="newer doctor"):
        open_store(path)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_text("nothing of the kind" * 100)
    with pytest.raises(DoctorError, match="cannot be used"):
        Store(path)


def test_nothing_unpacks_without_end() -> None:
    import zlib

    bomb = zlib.compress(b"\0" * (70 << 20), 9)
    started = time.monotonic()
    with pytest.raises(DoctorError):
        unpack(bomb)
    assert time.monotonic() - started < 5
    assert unpack(pack(b"x" * 1000)) == b"x" * 1000
