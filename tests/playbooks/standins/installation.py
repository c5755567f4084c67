"""The doctor as a pipeline installs it: a wheel in a root-owned environment at /opt/gpu-host-doctor, made with the system's Python."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.playbooks.standins import image, pins
from tests.playbooks.standins.engine import Engine, locked

REPOSITORY = Path(__file__).parents[3]
RECIPE = """\
ARG BUILDER
FROM $BUILDER
COPY wheels /tmp/wheels
COPY requirements.txt /tmp/requirements.txt
RUN python3 -m venv /opt/gpu-host-doctor && \\
    /opt/gpu-host-doctor/bin/pip install -q --no-cache-dir --disable-pip-version-check --no-index --find-links /tmp/wheels -r /tmp/requirements.txt && \\
    rm -rf /tmp/wheels
"""
FINGERPRINT = "/srv/keys/vendor.fingerprint"
"""Of the mirror's key, in its image."""
INSTALL = f"""\
set -e
/opt/gpu-host-doctor/bin/pip install -q --no-index --no-deps --force-reinstall --disable-pip-version-check /wheel/*.whl
/opt/gpu-host-doctor/bin/python -I - <<'PY'
{Path(pins.__file__).read_text()}
import doctor
repin(pathlib.Path(doctor.__file__).parent / "_data", pathlib.Path("{FINGERPRINT}").read_text().strip())
PY
/opt/gpu-host-doctor/bin/python -m compileall -q /opt/gpu-host-doctor/lib/python3*/site-packages/doctor || true
chown -R root:root /opt/gpu-host-doctor && chmod -R go-w /opt/gpu-host-doctor
"""


def requirements() -> str:
    """The run-time dependencies, from pyproject.toml."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    data = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return "".join(item + "\n" for item in data["project"]["dependencies"])


@functools.cache
def volume(engine: Engine) -> str:
    """The volume with this checkout's doctor installed in it."""
    below = image.builder(engine)
    mirror = image.mirror(engine)
    wanted = requirements()
    dependencies = f"standin-doctor:{image.digest(below, wanted, RECIPE)}"
    _dependencies(engine, dependencies, below, wanted)
    with tempfile.TemporaryDirectory(prefix="standin-wheel-") as folder:
        wheel = build_wheel(Path(folder))
        name = f"standin-doctor-{image.digest(dependencies, mirror, INSTALL, _content(wheel))}"
        with locked("installation"):
            if engine.run("volume", "inspect", name, check=False).returncode == 0:
                _keep(engine, name, dependencies)
                return name
            for old in engine.run(
                "volume", "ls", "-q", "--filter", "name=standin-doctor-"
            ).stdout.split():
                engine.run("volume", "rm", old, check=False)
            fingerprint = Path(folder) / "keys"
            fingerprint.mkdir()
            (fingerprint / "vendor.fingerprint").write_text(own_key(engine))
            try:
                engine.run(
                    "run", "--rm", "-i", "--network", "none", "-v", f"{name}:/opt/gpu-host-doctor", "-v", f"{folder}:/wheel:ro",
                    "-v", f"{fingerprint}:/srv/keys:ro", dependencies, "bash", "-s", input=INSTALL,
                )  # fmt: skip
            except BaseException:
                engine.run("volume", "rm", "-f", name, check=False)
                raise
            _keep(engine, name, dependencies)
    return name


def own_key(engine: Engine) -> str:
    """The fingerprint of the key by which the mirror's packages are signed."""
    argv = ("run", "--rm", "--network", "none", image.mirror(engine), "cat", FINGERPRINT)
    return engine.run(*argv).stdout.strip()


def _keep(engine: Engine, volume: str, source: str) -> None:
    """A container that never runs and has this process's number: another session leaves a volume that is in use."""
    name = f"doctor-{os.getpid()}-0"
    engine.run("rm", "-f", name, check=False)
    engine.run("create", "--name", name, "--label", "standin", "-v", f"{volume}:/kept:ro", source, "true")  # fmt: skip


def _dependencies(engine: Engine, name: str, below: str, wanted: str) -> None:
    with locked("dependencies"):
        if engine.has_image(name):
            return
        with tempfile.TemporaryDirectory(prefix="standin-context-") as folder:
            (Path(folder) / "Dockerfile").write_text(RECIPE)
            (Path(folder) / "requirements.txt").write_text(wanted)
            _download(Path(folder))
            engine.run(
                "build", "--network", "none", "--force-rm", "-t", name, "--build-arg", f"BUILDER={below}", folder, timeout=900
            )  # fmt: skip


def _download(folder: Path) -> None:
    """Wheels for the stand-ins' Python, by this machine's own pip: it knows the way out."""
    machine = platform.machine()
    tags = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (17, 28, 34)]
    tags += [f"--platform=manylinux2014_{machine}", "--abi=cp311", "--abi=abi3", "--abi=none"]
    python = ["--python-version=3.11", "--implementation=cp", "--only-binary=:all:"]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", *python, *tags,
         "-d", str(folder / "wheels"), "-r", str(folder / "requirements.txt")],
        check=True,
    )  # fmt: skip


def build_wheel(folder: Path) -> Path:
    """This checkout's wheel, built from a copy so that nothing is left beside the sources."""
    source = folder / "source"
    source.mkdir()
    for name in ("doctor", "playbooks", "matrices", "pyproject.toml", "README.md", "LICENSE"):
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.exists():
            shutil.copy(path, source / name)
    quick = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    isolated = ["-m", "build", "--wheel", "--outdir", str(folder), "."]
    argv = quick if importlib.util.find_spec("hatchling") else isolated
    subprocess.run([sys.executable, *argv], cwd=source, check=True, capture_output=True)
    shutil.rmtree(source)
    return next(folder.glob("*.whl"))


def _content(wheel: Path) -> str:
    """The wheel's record: names and hashes of all its files."""
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        return archive.read(record).decode()
