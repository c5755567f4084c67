"""The probe alone: one file, same bytes, same answer on every Python, a clear refusal on one that is too old."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from doctor import bundle
from doctor.fleet.envelope import unpack

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
AREAS = ["cuda", "driver", "nvml"]


def interpreters() -> list[Path]:
    found = sorted(PYENV.glob("*/bin/python")) if PYENV.is_dir() else []
    return [*found, Path(sys.executable)]


def version_of(python: Path) -> tuple[int, ...]:
    code = "import sys; sys.stdout.write('%d %d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.build(tmp_path_factory.mktemp("zip") / bundle.NAME)


def run(python: Path, probe: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-B", probe, *args],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=60,
    )


def test_bytes_are_the_same_each_time() -> None:
    assert bundle.content() == bundle.content()


def test_members_are_probes_and_the_binding_only(probe: Path) -> None:
    with zipfile.ZipFile(probe) as archive:
        names = archive.namelist()
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert names == sorted(names)
    allowed = {"__main__.py", "pynvml.py", "doctor/__init__.py"}
    assert all(name in allowed or name.startswith("doctor/probes/") for name in names)


def test_every_member_is_python_3_9(probe: Path) -> None:
    with zipfile.ZipFile(probe) as archive:
        for name in archive.namelist():
            ast.parse(archive.read(name), name, feature_version=bundle.FLOOR)


def test_entry_parses_on_python_2() -> None:
    text = bundle.ENTRY.format(major=3, minor=9, version="0", too_old=75)
    assert 'f"' not in text
    ast.parse(text)


@pytest.mark.parametrize("python", interpreters(), ids=str)
def test_same_answer_on_every_python(python: Path, probe: Path) -> None:
    done = run(python, probe, "--only", *AREAS)
    document = json.loads(done.stdout)
    assert document["schema"] == "doctor.facts/1"
    if version_of(python) < bundle.FLOOR:
        assert done.returncode == 2
        assert "needs Python 3.9" in document["error"]
        return
    assert done.returncode == 0, done.stderr
    assert document["errors"] == {}
    reference = json.loads(run(Path(sys.executable), probe, "--only", *AREAS).stdout)
    assert document["facts"] == reference["facts"]


def test_children_run_from_inside_the_zip(probe: Path) -> None:
    document = json.loads(run(Path(sys.executable), probe, "--only", "nvml", "cuda").stdout)
    for fact in (document["facts"]["nvml"]["init"], document["facts"]["cuda"]["scope"]):
        assert fact["state"] in ("known", "absent"), fact


@pytest.mark.parametrize("place", ["{folder}/probe", "probe"])
def test_what_is_sent_looks_from_inside_itself(probe: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "probe").write_bytes(bundle.shipped())
    done = subprocess.run(
        ["/bin/sh", place.format(folder=tmp_path), "--answer", "word", "--only", "nvml", "cuda"],
        capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    said = unpack(done.stdout.split()[2])
    plain = json.loads(run(Path(sys.executable), probe, "--only", "nvml", "cuda").stdout)
    assert said["facts"] == plain["facts"]


def test_envelope_has_every_area_and_decodes(probe: Path) -> None:
    from doctor.facts.tree import AREAS as ALL
    from doctor.facts.tree import decode

    document = json.loads(run(Path(sys.executable), probe).stdout)
    assert {"schema", "doctor", "host", "recorded_at", "facts", "timing_ms", "errors"} <= set(
        document
    )
    assert set(document["facts"]) == set(ALL)
    decode(document["facts"])


@pytest.mark.parametrize("python", [it for it in interpreters() if version_of(it)[0] > 2], ids=str)
def test_what_is_sent_finds_a_python_that_can_run_it(python: Path, tmp_path: Path) -> None:
    sent = tmp_path / "probe"
    sent.write_bytes(bundle.shipped())
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to(python)
    (tools / "python3.16").symlink_to("/nonexistent")

    def ask() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", sent, "--answer", "word"],
            capture_output=True, text=True, env={"PATH": str(tools)}, check=False, timeout=60,
        )  # fmt: skip

    done = ask()
    if version_of(python) < bundle.FLOOR:
        assert (done.returncode, done.stdout) == (3, "")
        assert "needs Python 3.9 or newer; there is python3" in done.stderr
        (tools / "python3.10").symlink_to(sys.executable)
        done = ask()
    assert done.stdout.startswith("doctor-probe/1 word eJ"), done.stderr


def test_what_is_sent_tells_nothing_of_where_this_program_is_installed() -> None:
    places = [str(path.parent).encode() for path in (Path(bundle.__file__), bundle._pynvml())]
    with zipfile.ZipFile(io.BytesIO(bundle.shipped())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert any(name.endswith(".pyc") for name in members)
    assert [name for name, data in members.items() if any(place in data for place in places)] == []
