"""A folder of results is text of strangers: each file is read for what it is, and what cannot be read is said and never passes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.finding import Evidence, Finding, Outcome, Severity
from doctor.errors import UsageError
from doctor.fleet.folder import Folder, read_report, read_telling, write_summary
from doctor.fleet.model import SUMMARY, file_name
from doctor.report.json_ import render
from tests.fleet_reports.sample import Small, audit, write
from tests.report.sample import report


def _store(folder: Path, kept: Small) -> Folder:
    for line, found in kept.reports():
        if found is not None:
            (folder / file_name(line.name)).write_bytes(msgspec.json.encode(found))
    write_summary(folder, kept.fleet)
    return Folder(folder)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kept = audit(host="a/b")
    found = _store(tmp_path, kept)
    assert found.fleet == kept.fleet
    assert [line.name for line, _ in found.reports()] == [line.name for line in kept.fleet.hosts]
    for format_ in ("junit", "sarif", "csv", "jsonl"):
        assert write(format_, found) == write(format_, kept)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "audit"
    elsewhere.write_text("mine")
    folder.mkdir()
    part = folder / f".{os.getpid()}.part"
    for link in (part, folder / f".{SUMMARY}.part", folder / SUMMARY):
        link.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        write_summary(folder, audit().fleet)
    part.unlink()
    write_summary(folder, audit().fleet)
    assert elsewhere.read_text() == "mine"
    assert not (folder / SUMMARY).is_symlink()
    assert Folder(folder).fleet == audit().fleet


def test_without_a_summary_the_reports_are_put_together(tmp_path: Path) -> None:
    _store(tmp_path, audit())
    (tmp_path / SUMMARY).unlink()
    (tmp_path / "cut.json").write_text('{"schema": "doctor.report/1", "fin', encoding="utf-8")
    found = Folder(tmp_path).fleet
    assert found.counts == {"hosts": 7, "audited": 6, "broken": 6, "refused": 1}
    assert found.finished == ""
    assert {line.state for line in found.hosts if line.name == "cut"} == {"refused"}


def _link(file: Path) -> None:
    file.symlink_to("/etc/passwd")


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.mkdir()


def _junk(file: Path) -> None:
    file.write_bytes(b"\xff\x00{")


def _other_schema(file: Path) -> None:
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(report(), schema="x/1")))


def _huge(file: Path) -> None:
    with file.open("wb") as made:
        made.truncate(65 << 20)


@pytest.mark.parametrize("spoil", [_link, _fifo, _folder, _junk, _other_schema, _huge, Path.unlink])
def test_a_report_that_is_none_any_more_is_missing_and_said(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    _store(tmp_path, audit())
    file = tmp_path / "gpu-1.json"
    if spoil is not Path.unlink:
        file.unlink()
    spoil(file)
    lines = {line.name: (line, found) for line, found in Folder(tmp_path).reports()}
    line, found = lines["gpu-1"]
    assert found is None
    assert "gpu-1.json" in line.reason
    assert lines["other-2"][1] is not None
    with pytest.raises(UsageError):
        read_report(file)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": "doctor.fleet/2"}', "[" * 100_000])
def test_a_bad_summary_is_a_usage_error(content: str, tmp_path: Path) -> None:
    (tmp_path / SUMMARY).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=SUMMARY):
        Folder(tmp_path)


def test_an_empty_folder_and_none_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no report"):
        Folder(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        Folder(tmp_path / "none")


def test_the_file_named_in_a_line_is_not_believed(tmp_path: Path) -> None:
    kept = audit()
    lines = [msgspec.structs.replace(line, file="/etc/passwd") for line in kept.fleet.hosts]
    kept.fleet = msgspec.structs.replace(kept.fleet, hosts=lines)
    found = _store(tmp_path, kept)
    assert next(report.host.name for _, report in found.reports() if report) == "gpu-1"


TEXTS = st.text(max_size=30) | st.sampled_from(
    ['"outcome":"pass"', '","outcome":"pass"', '{"id":"a","title":"b","outcome":"pass",', "\\", '"']
)


@given(
    st.lists(
        st.tuples(
            TEXTS, TEXTS, st.sampled_from(Outcome), st.dictionaries(TEXTS, TEXTS, max_size=2)
        ),
        max_size=5,
    ),
    st.booleans(),
)
def test_only_what_passed_or_does_not_apply_is_left_out(
    found: list[tuple[str, str, Outcome, dict[str, str]]], indented: bool
) -> None:
    import tempfile

    findings = [
        Finding(
            id=id.encode("utf-8", "replace").decode(),
            title=title.encode("utf-8", "replace").decode(),
            outcome=outcome,
            severity=Severity.ERROR,
            message=title.encode("utf-8", "replace").decode(),
            evidence=[Evidence(fact="f", value={str(k): str(v) for k, v in value.items()})],
        )
        for id, title, outcome, value in found
    ]
    whole = msgspec.structs.replace(report(), findings=findings)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "h.json"
        content = render(whole).encode() if indented else msgspec.json.encode(whole)
        file.write_bytes(content)
        told = read_telling(file)
        assert read_report(file).findings == findings
    loud = [item for item in findings if item.outcome not in (Outcome.PASS, Outcome.SKIP)]
    kept = [item for item in told.findings if item.outcome not in (Outcome.PASS, Outcome.SKIP)]
    assert kept == loud
