"""Interpreters that have an engine: named by the caller, made earlier by us, seen on the host, or made now.

Root's environments are not in its state folder, which is closed to others: an engine runs as another user and must be able
to read, and never to write, what it runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from doctor.checks.finding import Citation, Evidence
from doctor.facts.model import Known
from doctor.smoke import engine_log
from doctor.smoke.context import StageFailed
from doctor.smoke.engines.base import Place
from doctor.smoke.guest import Process, how_it_ended
from doctor.smoke.model import fault
from doctor.smoke.processes import User

if TYPE_CHECKING:
    from doctor.smoke.context import Context

ROOT_ENVIRONMENTS = Path("/opt/gpu-host-doctor/envs")
"""Where the role engine_env makes them too."""
VERSION_TIMEOUT_S = 60.0
INSTALL_TIMEOUT_S = 1800.0
MARKER = "doctor-environment.json"
"""In the folder of an environment made here, once it is whole."""
LOCK = "requirements.lock"
"""In the folder of one made by the role."""
VERSION_CODE = (
    "import sys; from importlib import metadata\n"
    "for name in sys.argv[1:]:\n"
    "    try: print('found', name, metadata.version(name)); break\n"
    "    except metadata.PackageNotFoundError: pass\n"
)


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How to make an environment."""

    name: str
    """The folder's name."""
    package: str
    version: str
    requires_python: tuple[tuple[int, int], tuple[int, int]]
    """Lowest version, and the first that is too new."""
    remove: tuple[str, ...] = ()
    """Packages that the installed ones bring and that break them."""
    sources: tuple[Citation, ...] = ()


def environments_dir() -> Path:
    """Where managed environments are. Root's is readable by all; a user's is in the XDG state folder."""
    if os.geteuid() == 0:
        return ROOT_ENVIRONMENTS
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "gpu-host-doctor" / "envs"


def version_in(ctx: Context, python: Path, packages: Sequence[str]) -> tuple[str, str] | None:
    """(package, version) of the first of these that the interpreter has; None when it has none. StageFailed when it does not run."""
    try:
        child = ctx.spawn([str(python), "-I", "-B", "-c", VERSION_CODE, *packages], "interpreter")
    except OSError as error:
        raise _unusable(ctx, python, error.strerror or str(error)) from None
    rc = ctx.wait(child, VERSION_TIMEOUT_S)
    if rc != 0:
        ctx.end(child)
        how = "no answer in time" if rc is None else how_it_ended(rc)
        raise engine_log.broken(
            ctx,
            "engine-build",
            "interpreter-broken",
            "The engine's interpreter runs",
            f"{python} does not run as {ctx.user.name} ({how})",
            child.tail(),
            child.log.name,
            want="a Python that starts",
        )
    return said_version(child.tail())


def said_version(text: str) -> tuple[str, str] | None:
    """What VERSION_CODE printed: (package, version)."""
    for line in reversed(text.splitlines()):
        words = line.split()
        if len(words) == 3 and words[0] == "found":
            return words[1], words[2]
    return None


def find(ctx: Context, packages: Sequence[str], managed: str) -> Place | None:
    """The place of an engine without --image: --python, the managed environment, or one seen on the host."""
    if ctx.options.python is not None:
        return _asked_for(ctx, ctx.options.python, packages)
    candidates = [(python, "the managed environment") for python in _managed(managed)]
    candidates += [(python, "seen on this host") for python in _seen(ctx, packages)]
    for python, note in candidates:
        try:
            found = version_in(ctx, python, packages)
        except StageFailed:
            continue  # one that this user cannot run is no place; another may be
        if found is not None:
            return _place(python, found, note)
    return None


def _asked_for(ctx: Context, python: Path, packages: Sequence[str]) -> Place:
    found = version_in(ctx, python, packages)
    if found is None:
        raise StageFailed(
            fault(
                "engine-build",
                "not-in-interpreter",
                "The interpreter has the engine",
                f"{python} has no {' or '.join(packages)}",
                want=packages[0],
                say="name the interpreter of the environment in which the engine is installed, or let one be made",
                command=f"doctor smoke --engine {ctx.engine.name if ctx.engine else 'auto'} --provision",
                evidence=[Evidence(fact="engine.package", reason="not there", via=str(python))],
            )
        )
    return _place(python, found, "as asked with --python")


def _place(python: Path, found: tuple[str, str], note: str) -> Place:
    name, version = found
    return Place(
        version=version,
        python=python,
        note=note,
        evidence=(Evidence(fact="engine.package", value=f"{name} {version}", via=str(python)),),
    )


def _managed(first: str) -> Iterator[Path]:
    """Interpreters of whole environments of ours, the one called `first` before the others."""
    try:
        folders = sorted(
            environments_dir().iterdir(), key=lambda item: (item.name != first, item.name)
        )
    except OSError:
        return
    for folder in folders:
        if (folder / MARKER).is_file() or (folder / LOCK).is_file():
            yield folder / "bin" / "python"


def _seen(ctx: Context, packages: Sequence[str]) -> Iterator[Path]:
    """Interpreters of environments that the probes saw with one of the packages; the scope's own first."""
    environments = ctx.facts.python_env.environments
    if not isinstance(environments, Known):
        return
    ordered = sorted(environments.value, key=lambda item: (not item.in_scope, item.path))
    for item in ordered:
        python = Path(item.path) / "bin" / "python3"
        if any(name in item.packages for name in packages) and python.exists():
            yield python


def missing(ctx: Context, engine: str, packages: Sequence[str], hint: str) -> StageFailed:
    """Nothing on this host has the engine."""
    return StageFailed(
        fault(
            "engine-build",
            "no-engine",
            "The engine is installed somewhere",
            f"no interpreter on this host that {ctx.user.name} can run has {' or '.join(packages)}",
            want=f"{packages[0]} in an interpreter or an image",
            say=hint,
            command=f"doctor smoke --engine {engine} --provision",
            evidence=[
                Evidence(fact="engine.package", reason="not there", via="python_env.environments")
            ],
        )
    )


def provision(ctx: Context, recipe: Recipe) -> Place:
    """Make the environment if it is not there yet. StageFailed with pip's own words when it cannot be made."""
    folder = environments_dir() / recipe.name
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with _locked(ctx, folder.parent / f"{recipe.name}.lock"):
        if not (folder / MARKER).is_file():
            _make(ctx, recipe, folder)
    found = version_in(ctx, python, [recipe.package])
    if found is None:
        raise _install_failed(ctx, recipe, f"{recipe.package} is not in {folder}", "", "pip.log")
    return _place(python, found, f"the managed environment {folder}")


def _make(ctx: Context, recipe: Recipe, folder: Path) -> None:
    base = _base_python(ctx, recipe)
    if folder.exists():
        shutil.rmtree(folder)  # begun and not finished
    own = User("us")  # it is ours, so that the engine cannot change it
    for argv, text in (
        ([base, "-m", "venv", str(folder)], "making the environment"),
        (
            [
                str(folder / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--disable-pip-version-check",
                "--no-input",
                "--no-cache-dir",
                "--only-binary=:all:",
                "--progress-bar=off",
                f"{recipe.package}=={recipe.version}",
            ],
            f"installing {recipe.package} {recipe.version}",
        ),
        (
            [str(folder / "bin" / "python"), "-m", "pip", "uninstall", "-y", *recipe.remove]
            if recipe.remove
            else [],
            "removing what breaks it",
        ),
    ):
        if argv:
            _step(ctx, recipe, argv, text, own)
    content = {"package": recipe.package, "version": recipe.version, "removed": list(recipe.remove)}
    (folder / MARKER).write_text(json.dumps(content) + "\n", encoding="utf-8")


def _step(ctx: Context, recipe: Recipe, argv: list[str], text: str, user: User) -> None:
    ctx.progress(text)
    passed_on = {
        key: value
        for key, value in os.environ.items()
        if key.startswith("PIP_") or key in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    }
    child = Process(ctx, ctx.spawn(argv, "pip", passed_on, user=user))
    waited, seconds = None, 0.0
    while waited is None and seconds < INSTALL_TIMEOUT_S:
        ctx.check()
        waited = ctx.wait(child.child, 2.0)
        seconds += 2.0
        lines = [
            line
            for line in child.tail(2000).splitlines()
            if line.startswith(("Collecting", "Down", "Inst"))
        ]
        ctx.progress(f"{text}: {lines[-1][:80]}" if lines else text, seconds, INSTALL_TIMEOUT_S)
    if waited != 0:
        code = child.returncode
        child.end()
        how = "no end in time" if code is None else how_it_ended(code)
        raise _install_failed(ctx, recipe, f"{text}: {how}", child.tail(), child.log.name)


def _install_failed(ctx: Context, recipe: Recipe, message: str, text: str, log: str) -> StageFailed:
    return engine_log.broken(
        ctx,
        "engine-build",
        "not-installed",
        "The engine's environment can be made",
        message,
        text,
        log,
        want=f"{recipe.package}=={recipe.version} from the configured package index",
        say="see that pip reaches a package index with this version, and that there is room for some gigabytes",
    )


def _base_python(ctx: Context, recipe: Recipe) -> str:
    """A Python of the system, in the range, that the engine's user can run and that has venv."""
    lowest, too_new = recipe.requires_python
    names = [f"python3.{minor}" for minor in range(too_new[1] - 1, lowest[1] - 1, -1)]
    tried = []
    for name in ["python3", *names]:
        path = shutil.which(
            name, path="/usr/bin:/usr/local/bin" if ctx.user.uid is not None else None
        )
        if path is None:
            continue
        code = f"import ensurepip, venv, sys; sys.exit(not {lowest!r} <= sys.version_info[:2] < {too_new!r})"
        child = ctx.spawn([path, "-I", "-c", code], "interpreter")
        if ctx.wait(child, VERSION_TIMEOUT_S) == 0:
            return path
        tried.append(path)
    wanted = f">={lowest[0]}.{lowest[1]},<{too_new[0]}.{too_new[1]} with venv"
    raise StageFailed(
        fault(
            "engine-build",
            "no-python",
            "The system has a Python for the engine",
            f"none of {', '.join(tried) or 'python3'} is a Python {wanted}",
            want=f"Python {wanted}",
            say="install a Python of that range with its venv module",
            command="sudo apt-get install -y python3-venv || sudo dnf install -y python3.12",
            sources=recipe.sources,
        )
    )


@contextmanager
def _locked(ctx: Context, path: Path) -> Iterator[None]:
    """One run makes an environment; another waits for it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                ctx.progress("another run makes this environment")
                ctx.sleep(1.0)
        yield
    finally:
        os.close(handle)


def _unusable(ctx: Context, python: Path, reason: str) -> StageFailed:
    return StageFailed(
        fault(
            "engine-build",
            "interpreter-unreachable",
            "The engine's user can run its interpreter",
            f"{python} cannot be run as {ctx.user.name}: {reason}",
            want="an interpreter that this user can reach: an engine never runs as root here",
            say="run doctor smoke as the owner of the environment (or with sudo from that user), or make a managed one",
            command=f"doctor smoke --engine {ctx.engine.name if ctx.engine else 'auto'} --provision",
            evidence=[Evidence(fact="engine.user", value=ctx.user.name, via=str(python))],
        )
    )
