"""Starts a rung's child (doctor/smoke/children) as the engine's user and reads what it said, line by line, also of one that hung.

The children travel as one zip in the run's scratch folder: the engine's user may not be able to read where the doctor
is installed, and a container gets the same file.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.checks.finding import Evidence
from doctor.smoke.context import StageUnseen
from doctor.smoke.processes import Child, User

if TYPE_CHECKING:
    from doctor.smoke.context import Context

PACKAGE = Path(__file__).parents[1]
PARTS = (
    "__init__.py",
    "probes/__init__.py",
    "probes/children/*.py",
    "smoke/__init__.py",
    "smoke/children/*.py",
)
"""What the zip holds: standard library only, Python 3.9."""
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "import importlib; importlib.import_module(sys.argv[1]).main(sys.argv[3:])"
)
SYSTEM_PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python", "/usr/local/bin/python3")
USABLE = "import ctypes, sys; sys.exit(sys.version_info < (3, 9))"
QUIET = {"CUDA_CACHE_DISABLE": "1"}
"""The driver keeps what it compiles; a rung compiles anew and leaves nothing."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a child said until it ended, or until its time was over."""

    lines: tuple[dict[str, Any], ...]
    ended: bool
    """False: it was stopped when its time was over."""
    rc: int | None
    log: str
    """Its log's name in the run folder."""

    def step(self, name: str, **where: Any) -> dict[str, Any] | None:
        """How a step ended; None when it did not."""
        for line in self.lines[::-1]:
            if (
                line.get("step") == name
                and line.get("state") != "start"
                and all(line.get(key) == value for key, value in where.items())
            ):
                return line
        return None

    @property
    def broke(self) -> dict[str, Any] | None:
        """The first step that failed, had a wrong answer, hung or killed the child."""
        for line in self.lines:
            if line.get("state") in ("failed", "wrong"):
                return line
        last = next((line for line in reversed(self.lines) if "step" in line), {"step": "start"})
        at = {key: value for key, value in last.items() if key not in ("state", "error")}
        if not self.ended:
            return at | {"state": "hang", "error": "no answer in time"}
        if self.rc != 0:
            how = f"killed by signal {-self.rc}" if self.rc and self.rc < 0 else f"exit {self.rc}"
            return at | {"state": "crash", "error": how}
        return None

    def evidence(self, prefix: str) -> list[Evidence]:
        """How each step ended, as evidence."""
        found = []
        for line in self.lines:
            if "step" not in line or line.get("state") in (None, "start"):
                continue
            place = "".join(f"[{key} {line[key]}]" for key in ("from", "to") if key in line)
            found.append(
                Evidence(fact=f"{prefix}.{line['step']}{place}", value=_shown(line), via=self.log)
            )
        if (broke := self.broke) and broke["state"] in ("hang", "crash"):
            found.append(
                Evidence(fact=f"{prefix}.{broke['step']}", value=broke["error"], via=self.log)
            )
        return found


def words(line: Mapping[str, Any]) -> str:
    """A failed step in words: call, name of the error, what the compiler said."""
    call = f"{line['call']}: " if "call" in line else ""
    code = f" ({line['code']})" if line.get("code", -1) >= 0 else ""
    log = f": {line['log']}" if line.get("log") else ""
    return f"{call}{line.get('error', line.get('state'))}{code}{log}"


def start(
    ctx: Context,
    module: str,
    arguments: Sequence[str],
    name: str,
    env: Mapping[str, str] | None = None,
) -> Child:
    """Start `doctor.smoke.children.<module>`; its log is `<name>.log`."""
    python, user = interpreter(ctx)
    argv = [
        python,
        "-I",
        "-S",
        "-B",
        "-c",
        BOOT,
        f"doctor.smoke.children.{module}",
        str(bundle(ctx)),
        *arguments,
    ]
    return ctx.spawn(argv, name, {**QUIET, **(env or {})}, user=user)


def finish(ctx: Context, child: Child, timeout: float) -> Answer:
    """Wait for it, end it when it is late, and read what it said."""
    rc = ctx.wait(child, timeout)
    ctx.end(child)
    return Answer(
        lines=tuple(parsed(child.tail())), ended=rc is not None, rc=rc, log=child.log.name
    )


def ask(
    ctx: Context,
    module: str,
    arguments: Sequence[str],
    name: str,
    timeout: float,
    env: Mapping[str, str] | None = None,
) -> Answer:
    """Start and finish."""
    return finish(ctx, start(ctx, module, arguments, name, env), timeout)


def parsed(text: str) -> list[dict[str, Any]]:
    """The JSON lines of a log; what libraries print between them is left in the log."""
    found = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            item = json.loads(line)
        except ValueError:
            continue
        if isinstance(item, dict):
            found.append(item)
    return found


def bundle(ctx: Context) -> Path:
    """The zip with the children, made once a run."""
    target = ctx.scratch / "children.zip"
    if not target.exists():
        with zipfile.ZipFile(target, "w") as archive:
            for pattern in PARTS:
                for file in sorted(PACKAGE.glob(pattern)):
                    archive.write(file, f"doctor/{file.relative_to(PACKAGE)}")
        target.chmod(0o644)
    return target


def interpreter(ctx: Context) -> tuple[str, User]:
    """A Python that the engine's user can run; where there is none, ours as ourselves."""
    known = ctx.shared.get("interpreter")
    if known is None:
        known = ctx.shared["interpreter"] = _interpreter(ctx)
    found: tuple[str, User] = known
    return found


def _interpreter(ctx: Context) -> tuple[str, User]:
    users = [ctx.user] if ctx.user.uid is None else [ctx.user, User("root")]
    for user in users:
        for python in (sys.executable, *SYSTEM_PYTHONS):
            try:
                child = ctx.spawn([python, "-I", "-S", "-c", USABLE], "python", user=user)
            except OSError:
                continue
            rc = ctx.wait(child, 10)
            ctx.end(child)
            if rc == 0:
                return python, user
    raise StageUnseen("no Python 3.9 or newer starts here, so nothing could be tried")


def _shown(line: Mapping[str, Any]) -> str:
    if line["state"] == "ok":
        rest = {
            key: value
            for key, value in line.items()
            if key not in ("step", "state", "from", "to", "gpu")
        }
        return "ok" + "".join(f", {key} {value}" for key, value in rest.items())
    return words(line)
