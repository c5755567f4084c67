"""The owner's mirror of Python packages: read where it is named, given to the one role that asks an index, kept without passwords."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.engine import line_of
from doctor.remedy import pip_settings
from doctor.remedy.fix import fix
from doctor.remedy.job import FixOptions
from doctor.remedy.resume import approved
from doctor.remedy.runner import Asked, RoleResult
from doctor.remedy.trust import TrustError
from tests.remedy.bench import Bench

MIRROR = {"PIP_INDEX_URL": "https://mirror/simple"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"PIP_CERT": "/c"}, {}),
        (MIRROR, MIRROR),
        ({**MIRROR, "PIP_CERT": "/c", "HOME": "/root"}, {**MIRROR, "PIP_CERT": "/c"}),
        ({"PIP_NO_INDEX": "1", "PIP_TARGET": "/t"}, {"PIP_NO_INDEX": "1"}),
    ],
)
def test_the_sessions_own_indexes_come_before_the_public_ones(
    environ: dict[str, str], expected: dict[str, str]
) -> None:
    found = pip_settings.pip_settings(environ)
    assert found == ({"PIP_CONFIG_FILE": "", **expected} if expected else {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[global]\nindex-url = https://mirror/simple\n", True),
        ("[install]\nfind-links = /w\n", True),
        ("[global]\ncert = /c\n", False),
        ("no settings", False),
    ],
)
def test_a_file_that_the_session_names_is_read_where_it_is_roots(
    tmp_path: Path, text: str, named: bool
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(text)
    environ = {"PIP_CONFIG_FILE": str(file)}
    assert pip_settings.pip_settings(environ) == (environ if named else {})


def test_root_takes_no_sources_from_what_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://mirror/simple\n")
    file.chmod(0o666)
    with pytest.raises(TrustError, match="PIP_CONFIG_FILE: "):
        pip_settings.pip_settings({"PIP_CONFIG_FILE": str(file)})


def test_only_the_role_of_engines_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.note("one")
    own = line_of(FixOptions(pip=MIRROR), lambda event: None).own
    assert own["engine_env"] == {"engine_env_pip": MIRROR, "engine_env_indexes": []}
    told: list[dict[str, Any]] = []
    job = bench.job()

    def play(asked: Asked, *others: Any) -> RoleResult:
        told.append(asked.values)
        return bench.play(asked, *others)

    for role, expected in (("engine_env", False), ("one", True)):
        line = msgspec.structs.replace(job.line, own={role: {"note_file_more": "told"}})
        at_work = msgspec.structs.replace(job, line=line, run_playbook=play)
        fix(at_work, bench.state.new_run())
        bench.note("one")
        assert ("note_file_more" in told[-1]) is expected


def test_a_folder_in_place_of_the_net_takes_nothing_of_it(tmp_path: Path) -> None:
    assert not line_of(FixOptions(pip=MIRROR, offline=str(tmp_path)), lambda event: None).own


@pytest.mark.parametrize("secret", ["", "user:hunter2@"])
def test_a_run_that_goes_on_later_has_them_and_no_password_is_kept(
    bench: Bench, secret: str
) -> None:
    bench.note("one")
    bench.fix(pip={"PIP_INDEX_URL": f"https://{secret}mirror/simple"})
    kept = approved(bench.last()).options.pip
    assert kept == ({} if secret else MIRROR)
    for path in bench.last().folder.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path
    assert bool(secret) == any("password" in getattr(item, "text", "") for item in bench.events)
