"""Interpreters that have an engine: named by the caller, made earlier by us, or seen on the host.

Root's environments are not in its state folder, which is closed to others: an engine runs as another user and must be able
to read, and never to write, what it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.checks.finding import Evidence
from doctor.facts.model import Known
from doctor.smoke import engine_log
from doctor.smoke.context import StageFailed
from doctor.smoke.engines.base import Place
from doctor.smoke.guest import how_it_ended
from doctor.smoke.model import fault

if TYPE_CHECKING:
    from doctor.smoke.context import Context

ROOT_ENVIRONMENTS = Path("/opt/gpu-host-doctor/envs")
"""Where the role engine_env makes them."""
VERSION_TIMEOUT_S = 60.0
LOCK = "requirements.lock"
"""In the folder of an environment that the role made, once it is whole."""
VERSION_CODE = (
    "import sys; from importlib import metadata\n"
    "for name in sys.argv[1:]:\n"
    "    try: print('found', name, metadata.version(name)); break\n"
    "    except metadata.PackageNotFoundError: pass\n"
)


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
            return place_of(python, found, note)
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
    return place_of(python, found, "as asked with --python")


def place_of(python: Path, found: tuple[str, str], note: str) -> Place:
    """An interpreter that has the engine."""
    name, version = found
    return Place(
        version=version,
        python=python,
        note=note,
        evidence=(Evidence(fact="engine.package", value=f"{name} {version}", via=str(python)),),
    )


def _managed(first: str) -> Iterator[Path]:
    """Interpreters of whole environments of ours, those of the package `first` before the others, the newest first."""
    try:
        folders = sorted(
            environments_dir().iterdir(),
            key=lambda item: (item.name.startswith(f"{first}-"), item.name),
            reverse=True,
        )
    except OSError:
        return
    for folder in folders:
        if (folder / LOCK).is_file():
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
