"""The probe alone records like `doctor record`, on the oldest Python and the newest, and refuses an occupied folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from doctor import bundle, engine
from doctor.cli.sources import open_source
from doctor.probes import registry
from doctor.probes.recordings.recorded import RecordedSource
from tests.packaging.test_probe_zip import interpreters, version_of

PYTHONS = [python for python in interpreters() if version_of(python) >= (3, 9)]


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.build(tmp_path_factory.mktemp("zip") / bundle.NAME)


def run(python: Path, probe: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-B", probe, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=60,
    )


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_it_records_on_every_python(python: Path, probe: Path, tmp_path: Path) -> None:
    out = tmp_path / "host"
    done = run(python, probe, "--record", str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr
    assert registry.run(RecordedSource(str(out)))["errors"] == {}


def test_it_is_judged_like_one_of_doctor_record(probe: Path, tmp_path: Path) -> None:
    from doctor.probes.recordings import record

    assert run(Path(sys.executable), probe, "--record", str(tmp_path / "zip")).returncode == 0
    record.record(str(tmp_path / "doctor"))
    found = []
    for name in ("zip", "doctor"):
        opened = open_source(str(tmp_path / name))
        assert opened.source is not None
        report = engine.check(opened.source, engine.Options(as_of=opened.as_of))
        found.append([(item.id, item.outcome) for item in report.findings])
    assert found[0] == found[1]


def test_it_refuses_an_occupied_folder(probe: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    done = run(Path(sys.executable), probe, "--record", str(tmp_path))
    assert done.returncode == 2
    assert "not empty" in done.stderr and done.stderr.count("\n") == 1
