"""Runs scripts and servers where the engine is: under its interpreter, or in its image. Neither as root."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from doctor.smoke.context import StageUnseen
from doctor.smoke.processes import Child

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Mount, Place

INSIDE = "/smoke"
"""Where an image sees the run's scratch folder."""


class Running(Protocol):
    """A process or a container of the run."""

    log: Path

    @property
    def pid(self) -> int | None:
        """Of its first process on this host; None where it has none that is seen here."""

    @property
    def returncode(self) -> int | None:
        """None while it runs."""

    def tail(self, size: int = 200_000) -> str:
        """The end of its log."""

    def end(self) -> None:
        """End it with everything it started, now."""


class Process:
    """A child process with a way to end it."""

    def __init__(self, ctx: Context, child: Child) -> None:
        self.child = child
        self.log = child.log
        self._ctx = ctx

    @property
    def pid(self) -> int:
        """Also its session's id."""
        return self.child.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self.child.returncode

    def tail(self, size: int = 200_000) -> str:
        """The end of its log."""
        return self.child.tail(size)

    def end(self) -> None:
        """End its whole session."""
        self._ctx.end(self.child)


class Guest:
    """One place of an engine."""

    def __init__(self, ctx: Context, place: Place) -> None:
        self.ctx = ctx
        self.place = place

    def path(self, path: Path) -> str:
        """How the engine sees a path of the scratch folder."""
        if self.place.image is None:
            return str(path)
        return f"{INSIDE}/{path.relative_to(self.ctx.scratch)}"

    def start_script(
        self, source: str, spec: Mapping[str, Any], name: str, *, nice: int = 0
    ) -> Running:
        """Start a script of ours with its JSON argument. It is copied: the engine's user may not read our installation."""
        file, argument = self.ctx.scratch / f"{name}.py", self.ctx.scratch / f"{name}.json"
        for path, text in ((file, source), (argument, json.dumps(dict(spec)))):
            path.write_text(text, encoding="utf-8")
            path.chmod(0o644)
        return self.start(["-I", "-B", self.path(file), self.path(argument)], {}, name, nice=nice)

    def start(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        name: str,
        *,
        nice: int = 0,
        port: int | None = None,
        mounts: Sequence[Mount] = (),
        image_arguments: Sequence[str] | None = None,
    ) -> Running:
        """Start the engine's Python with these arguments. StageUnseen when nothing can be started at all."""
        if self.place.image is not None:
            from doctor.smoke import image_guest

            argv = list(image_arguments) if image_arguments is not None else ["python3", *arguments]
            return image_guest.start(self.ctx, self.place.image, argv, env, name, port, mounts)
        argv = [str(self.place.python), *arguments]
        try:
            return Process(self.ctx, self.ctx.spawn(argv, name, env, nice=nice))
        except OSError as error:
            raise StageUnseen(
                f"{self.place.python} cannot be started as {self.ctx.user.name}: {error.strerror}"
            ) from None


def script(name: str) -> str:
    """The text of a script of doctor/smoke/children."""
    return (Path(__file__).parent / "children" / f"{name}.py").read_text(encoding="utf-8")


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
