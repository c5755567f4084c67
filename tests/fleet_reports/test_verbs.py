"""`doctor fleet report`, `diff`, `learn` and `export`, as they are called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.cli.main import run
from doctor.fleet.folder import write_summary
from doctor.fleet.model import file_name
from doctor.fleet.store import Audit, Store
from doctor.report.formats import FORMATS, SUFFIXES
from tests.fleet_reports.sample import Small, audit, finish, line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _kept(tmp_path / "a", audit())


def _kept(folder: Path, kept: Small) -> Path:
    folder.mkdir()
    for item, found in kept.reports():
        if found is not None:
            (folder / file_name(item.name)).write_bytes(msgspec.json.encode(found))
    write_summary(folder, kept.fleet)
    return folder


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Two finished audits of one inventory: the second has a host less and another that is broken."""
    path = tmp_path / "history.db"
    monkeypatch.setattr("doctor.fleet.opening.open_store", lambda: Store(path))
    store = Store(path)
    hosts = [line(name, "rack") for name in ("a", "b", "c")]
    _audit(store, "20261129T120000Z-aaaa", hosts)
    broken = msgspec.structs.replace(hosts[1], verdict="broken", exit_code=1)
    _audit(store, "20261130T120000Z-bbbb", [hosts[0], broken])
    with store:
        yield store


def _audit(store: Store, id: str, hosts: list[Any]) -> None:
    from doctor.fleet.aggregate import Gathering

    gathering = Gathering()
    day = f"{id[:4]}-{id[4:6]}-{id[6:8]}"
    store.begin_audit(
        Audit(
            id=id,
            doctor="0",
            inventory="i",
            folder="",
            judged_as_of=day,
            started=f"{day}T12:00:00Z",
        )
    )
    for host in hosts:
        gathering.add(host)
        store.add_host(id, host, None)
    found = finish(gathering)
    store.finish(id, msgspec.structs.replace(found, audit=id, finished=f"{day}T12:05:00Z"))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_folder_in_every_format(folder: Path, tmp_path: Path, format_: str) -> None:
    out = tmp_path / "out"
    assert run(["fleet", "report", str(folder), "--format", format_, "-o", str(out)]) == 1
    assert "driver.skew" in out.read_text(encoding="utf-8")
    assert [item.name for item in tmp_path.iterdir() if item.name.endswith(".part")] == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_suffix_says_the_format(folder: Path, tmp_path: Path, suffix: str) -> None:
    named, asked = tmp_path / f"named{suffix}", tmp_path / "asked"
    run(["fleet", "report", str(folder), "-o", str(named)])
    run(["fleet", "report", str(folder), "--format", SUFFIXES[suffix], "-o", str(asked)])
    assert named.read_bytes() == asked.read_bytes()


def test_a_file_that_is_there_is_whole_or_as_it_was(folder: Path, tmp_path: Path) -> None:
    """The collector never reads half of it: what fails leaves the old file, and nothing beside it."""
    from doctor.cli import console

    out = tmp_path / "doctor.prom"
    out.write_text("old", encoding="utf-8")

    def pieces() -> Any:
        yield "half"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        console.stream(pieces(), out)
    assert out.read_text(encoding="utf-8") == "old"
    assert [item.name for item in tmp_path.iterdir() if item.is_file()] == ["doctor.prom"]
    run(["fleet", "report", str(folder), "-o", str(out)])
    assert out.read_text(encoding="utf-8").startswith("# HELP doctor_fleet_info")
    assert os.stat(out).st_mode & 0o444 == 0o444  # node_exporter runs as another user


def test_a_report_into_a_pipe_that_closes(folder: Path) -> None:
    command = f"{sys.executable} -m doctor fleet report {folder} --format csv | head -1"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith('"host","verdict"')
    assert "Traceback" not in ran.stderr


def test_golden_and_since(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = tmp_path / "golden.yml"
    assert run(["fleet", "learn", str(folder), "--host", "other-2", "-o", str(gold)]) == 0
    run(["fleet", "report", str(folder), "--golden", str(gold)])
    assert "golden: 580.95.05" in capsys.readouterr().out
    run(["fleet", "report", str(folder), "--golden", "other-2", "--since", str(folder)])
    assert "nothing changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "/none/such"], "is not a folder"),
        (["report", "zz"], "there is no audit 'zz'"),
        (["report", "FOLDER", "--golden", "nobody"], "neither a file nor a host"),
        (["learn", "FOLDER", "--host", "nobody"], "is not in audit"),
        (["learn", "FOLDER", "--host", "lost"], "was not audited"),
        (["diff", "zz"], "there is no audit 'zz'"),
        (["diff", "--since", "2020-01-01"], "no audit ended before"),
        (["diff", "--since", "yesterday"], "is not a date"),
    ],
)
def test_usage(
    arguments: list[str],
    said: str,
    folder: Path,
    history: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["fleet", *(str(folder) if item == "FOLDER" else item for item in arguments)]) == 2
    assert said in capsys.readouterr().err


def test_without_any_audit_it_is_said_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("doctor.fleet.opening.open_store", lambda: Store(tmp_path / "empty.db"))
    for verb in ("report", "diff", "learn"):
        assert run(["fleet", verb]) == 2
        assert "doctor fleet audit -i INVENTORY" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["20261129", "last"], ["20261129"], ["--since", "2026-11-30"]]
)
def test_what_changed(
    arguments: list[str], history: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "diff", *arguments, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["before"], found["after"]) == ("20261129T120000Z-aaaa", "20261130T120000Z-bbbb")
    assert [(item["host"], item["before"], item["after"]) for item in found["changes"]] == [
        ("b", "healthy", "broken"),
        ("c", "healthy", ""),
    ]


def test_no_change_for_the_worse_is_exit_code_zero(
    history: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "diff", "last", "last"]) == 0
    assert "nothing changed" in capsys.readouterr().out
    assert (
        run(["fleet", "diff", "last", "20261129"]) == 0
    )  # backwards: a new host, one that is well
    shown = capsys.readouterr().out
    assert "broken -> healthy  on b" in shown


@pytest.mark.parametrize("format_", ["text", "json", "jsonl", "markdown"])
def test_changes_in_every_format(
    format_: str, history: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["fleet", "diff", "--format", format_])
    assert "broken" in capsys.readouterr().out


def test_the_history_is_reported_like_a_folder(
    history: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "report"]) == 1
    assert "20261130T120000Z-bbbb" in capsys.readouterr().out
    assert run(["fleet", "report", "20261129"]) == 0


def test_an_audit_that_was_killed_is_reported_as_unfinished(
    history: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    id = "20261130T130000Z-cccc"
    history.begin_audit(
        Audit(
            id=id,
            doctor="0",
            inventory="i",
            folder="",
            judged_as_of="2026-11-30",
            started="2026-11-30T13",
        )
    )
    history.add_host(id, line("a"), None)
    assert run(["fleet", "report"]) == 0
    assert "not finished" in capsys.readouterr().out


def test_parquet_is_read_back_by_pyarrow(folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    out, lines = tmp_path / "a.parquet", tmp_path / "a.jsonl"
    assert run(["fleet", "export", str(folder), "-o", str(out)]) == 0
    assert run(["fleet", "export", str(folder), "-o", str(lines)]) == 0
    found = pyarrow.parquet.read_table(out).to_pylist()
    written = [json.loads(item) for item in lines.read_text(encoding="utf-8").splitlines()]
    assert [{k: v for k, v in row.items() if v is not None} for row in found] == written
    kinds = {row["record"] for row in found}
    assert kinds == {"host", "finding", "trait", "outlier", "rule", "change"}
    (lost,) = [row for row in found if row["record"] == "host" and row["host"] == "lost"]
    assert (lost["state"], lost["exit_code"]) == ("late", 3)


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_table_that_cannot_be_written_is_said(
    format_: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "a"
    assert run(["fleet", "export", str(folder), "--format", format_, "-o", str(out)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_without_pyarrow_it_is_said_how_to_get_it(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out = tmp_path / "a.parquet"
    assert run(["fleet", "export", str(folder), "-o", str(out)]) == 2
    assert "gpu-host-doctor[parquet]" in capsys.readouterr().err
    assert not out.exists()
