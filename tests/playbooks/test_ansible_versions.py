"""The roles under the oldest and the newest ansible-core that an installation may get: a dry run, a real fix and its undo, over ssh."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.conftest import Start
from tests.playbooks.standins import states
from tests.playbooks.standins.fixing import Before
from tests.playbooks.standins.host import Host
from tests.playbooks.standins.installation import build_wheel

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
SERIES = {"2.17": range(10, 13), "2.21": range(12, 15)}
"""ansible-core, and the minor versions of Python 3 that it runs on as a controller."""
DOCTOR = """
import pathlib, sys
from doctor.remedy import state
state.ROOT = pathlib.Path(sys.argv.pop(1))
from doctor.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
"""Its records are the test's own, not this machine's."""


def interpreter(minors: range) -> str | None:
    """A Python of one of these versions: of the system's, else of pyenv's."""
    for minor in minors:
        found = shutil.which(f"/usr/bin/python3.{minor}") or next(
            map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")), None
        )
        if found and not subprocess.run([found, "-c", "import ensurepip"], check=False).returncode:
            return found
    return None


@pytest.fixture(params=sorted(SERIES))
def python(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The Python of an environment with the doctor and that ansible-core."""
    found = interpreter(SERIES[request.param])
    if found is None:
        pytest.skip(f"needs a Python on which ansible-core {request.param} runs")
    subprocess.run([found, "-m", "venv", tmp_path / "venv"], check=True)
    wheel = build_wheel(tmp_path)
    pip = [tmp_path / "venv/bin/pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel, f"ansible-core=={request.param}.*"], check=True)
    yield tmp_path / "venv/bin/python"


def inventory(folder: Path, host: Host) -> str:
    """The host as a fleet of one."""
    said: Any = host.inventory(folder)
    variables = said["all"]["children"]["targets"]["hosts"][host.name]
    path = folder / "inventory.json"
    path.write_text(json.dumps({"all": {"hosts": {host.name: variables}}}))
    return str(path)


@pytest.mark.parametrize("flavor", ["ubuntu2404", "rocky9"])
def test_roles_do_the_same_under_every_ansible(
    start: Start, flavor: str, python: Path, tmp_path: Path
) -> None:
    def fleet(*words: str) -> dict[str, Any]:
        argv = [python, "-c", DOCTOR, tmp_path / "state", "fleet", *words, "--format", "json"]
        ran = subprocess.run(
            [str(word) for word in argv], cwd=tmp_path, capture_output=True, text=True, timeout=400
        )
        assert ran.returncode in (0, 1), ran.stdout[-3000:] + ran.stderr[-3000:]
        assert "DEPRECATION" not in ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    with start(flavor, with_doctor=False) as host:
        planted = states.not_registered(host)
        wanted = {planted, "packages.not-locked"}
        only = [word for name in sorted(wanted) for word in ("--only", name)]
        where = ("-i", inventory(tmp_path, host))
        before = Before.of(host)

        def statuses(found: dict[str, Any]) -> set[str]:
            [line] = found["hosts"]
            return {row["status"] for row in line["findings"] if row["id"] in wanted}

        dry = fleet("fix", *where, *only, "--dry-run")
        assert statuses(dry) == {"planned"}
        assert before.left(host) == {}
        done = fleet("fix", *where, *only)
        assert statuses(done) == {"verified"}, json.dumps(done["hosts"])[:4000]
        assert "nvidia" in json.loads(host.out("docker info -f '{{json .Runtimes}}'"))
        fleet("undo", done["fix"], *where)
        assert "nvidia" not in json.loads(host.out("docker info -f '{{json .Runtimes}}'"))
        assert before.left(host) == {}
