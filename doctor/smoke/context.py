"""What the rungs share: the run's folders, the host as it was judged, what was asked, and a registry of everything to clean up."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from doctor.checks.finding import Finding
from doctor.events import SmokeStageProgress
from doctor.facts.tree import Facts
from doctor.smoke import ports, shared_memory
from doctor.smoke.processes import (
    Child,
    User,
    end_all,
    engine_environment,
    engine_user,
    is_of_run,
    spawn,
)

if TYPE_CHECKING:
    from doctor.checks.knowledge import Knowledge
    from doctor.probes.source import Source
    from doctor.report.model import Report
    from doctor.smoke.engines.base import Engine


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    engine: str = "auto"
    """auto, vllm, vllm-cpu or tensorrt_llm."""
    level: str = "load"
    """The last rung to climb."""
    python: Path | None = None
    """Interpreter that has the engine."""
    image: str | None = None
    """Container image that has the engine."""
    provision: bool = False
    """Make the engine's environment."""
    duration: float = 20.0
    """Seconds of load."""
    learn: bool = False
    """Keep what the load measured as this host's baseline."""
    keep: bool = False
    """Leave the model, caches and environment in the scratch folder."""
    model_class: str = "llama"
    """Key of tiny_model.MODEL_CLASSES."""


class Cancel(Protocol):
    """Set by whoever wants the run to end."""

    @property
    def canceled(self) -> bool:
        """Whether the end was asked for."""


class Ends(Protocol):
    """A process, a container: something with an exit code."""

    @property
    def returncode(self) -> int | None:
        """None while it runs."""


class NeverCanceled:
    """Nobody asks."""

    canceled = False


class StageFailed(Exception):
    """Raised anywhere below a rung: the rung breaks with this finding."""

    def __init__(self, finding: Finding, **extra: Any) -> None:
        super().__init__(finding.message)
        self.finding = finding
        self.extra = extra
        """Further keys of `model.failed`: numbers, files."""


class StageUnseen(Exception):
    """Raised anywhere below a rung: it could not be tried, and why."""


class StageTimeout(Exception):
    """The rung's time is over."""


class Canceled(Exception):
    """The end was asked for."""


class Resources:
    """Everything of a run that must not outlive it. Released in reverse, each once, whatever the others do."""

    def __init__(self, run: str, keep: bool) -> None:
        self.run = run
        self.scratch: Path | None = None
        self.keep = keep
        self.children: list[Child] = []
        self.ports: list[int] = []
        self._callbacks: list[tuple[str, Callable[[], None]]] = []
        self._segments = shared_memory.segments()

    def on_release(self, what: str, callback: Callable[[], None]) -> None:
        """Call this at the end, last added first; `what` names what is left behind if it fails."""
        self._callbacks.append((what, callback))

    def release(self, user: User) -> list[str]:
        """End processes, run callbacks, remove segments and the scratch folder; what would not go, in words."""
        left = [f"process {pid}" for pid in end_all(self.children, self.run)]
        while self._callbacks:
            what, callback = self._callbacks.pop()
            try:
                callback()
            except Exception as error:  # noqa: BLE001, RUF100 - the other callbacks must run
                left.append(f"{what}: {type(error).__name__}: {error}")
        left += [f"port {port}" for port in self.ports if self._still_ours(port)]
        owners = {user.uid if user.uid is not None else os.geteuid()}
        left += shared_memory.remove_new(self._segments, owners)
        if self.scratch is not None and not self.keep:
            shutil.rmtree(self.scratch, ignore_errors=True)
            if self.scratch.exists():
                left.append(f"folder {self.scratch}")
        self.children.clear()
        return left

    def _still_ours(self, port: int) -> bool:
        """Whether somebody listens on it who is not known to be somebody else."""
        if not ports.is_listening(port):
            return False
        found = ports.holder(port)
        return found is None or found[1] == "docker-proxy" or is_of_run(found[0], self.run)


class Context:
    """One run. Rungs put what later rungs need into `engine`, `model`, `server`, `reference` and `shared`."""

    def __init__(
        self,
        *,
        folder: Path,
        source: Source,
        facts: Facts,
        report: Report | None,
        knowledge: Knowledge,
        options: Options,
        emit: Callable[[Any], None],
        cancel: Cancel | None = None,
        user: User | None = None,
        state: Path | None = None,
    ) -> None:
        self.run = secrets.token_hex(6)
        self.folder = folder
        """Logs and answers; kept."""
        self.state = state or folder
        """Where what this host showed is kept for later runs."""
        self.source = source
        self.facts = facts
        self.report = report
        self.knowledge = knowledge
        self.options = options
        self.emit = emit
        self.cancel = cancel or NeverCanceled()
        self.user = user or engine_user()
        self.resources = Resources(self.run, options.keep)
        self.stage = ""
        self.engine: Engine | None = None
        self.shared: dict[str, Any] = {}
        """What rungs hand on beside the fields: keyed by the rung that made it."""
        self._deadline = float("inf")

    @property
    def uses_gpus(self) -> bool:
        """Whether GPUs have a part in the run: they have until an engine is chosen that computes without."""
        return self.engine is None or self.engine.gpu

    @property
    def chosen(self) -> Engine:
        """The engine, for rungs that are climbed with one alone."""
        if self.engine is None:
            raise LookupError(f"no engine was chosen for the rung {self.stage}")
        return self.engine

    def look_again(self) -> Source:
        """The host as it is now: what a source saw it keeps."""
        from doctor.probes.live import LiveSource

        if isinstance(self.source, LiveSource):
            return LiveSource(self.source.scope)
        return self.source

    @property
    def scratch(self) -> Path:
        """The engine's own folder: model, home and caches; made when first asked for, removed at the end."""
        if self.resources.scratch is None:
            self.resources.scratch = _scratch(self.user, self.run)
        return self.resources.scratch

    # time ------------------------------------------------------------------------------------------------------------

    def begin(self, stage: str, timeout: float) -> None:
        """A rung starts: its clock runs."""
        self.stage = stage
        self._deadline = time.monotonic() + timeout

    @property
    def left(self) -> float:
        """Seconds this rung still has; never negative."""
        return max(0.0, self._deadline - time.monotonic())

    def check(self) -> None:
        """Raise when the rung's time is over or the end was asked for; long rungs call it at least once a second."""
        if self.cancel.canceled:
            raise Canceled
        if self.left <= 0:
            raise StageTimeout

    def sleep(self, seconds: float) -> None:
        """Sleep, with an ear open."""
        until = time.monotonic() + min(seconds, self.left)
        while (rest := until - time.monotonic()) > 0:
            self.check()
            time.sleep(min(0.2, rest))
        self.check()

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Tell whoever watches."""
        self.emit(SmokeStageProgress(stage=self.stage, text=text, done=done, total=total))

    # processes --------------------------------------------------------------------------------------------------------

    def spawn(
        self,
        argv: Sequence[str],
        name: str,
        env: Mapping[str, str] | None = None,
        *,
        nice: int = 0,
        user: User | None = None,
    ) -> Child:
        """Start a process of the run, not as root; its output goes to `<folder>/<name>.log`. OSError when it cannot start."""
        child = spawn(
            argv,
            env=engine_environment(self.scratch, self.run, env or {}),
            cwd=self.scratch,
            log=self.folder / f"{name}.log",
            user=user or self.user,
            nice=nice,
        )
        self.resources.children.append(child)
        return child

    def wait(self, child: Ends, timeout: float | None = None) -> int | None:
        """Its exit code; None when `timeout` (or the rung's time) ended first."""
        until = time.monotonic() + min(self.left, timeout if timeout is not None else self.left)
        pause = 0.01
        while child.returncode is None:
            if self.cancel.canceled:
                raise Canceled
            if time.monotonic() >= until:
                return None
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)
        return child.returncode

    def end(self, child: Child) -> None:
        """End one process with all of its session, now."""
        left = end_all([child])
        if not left and child in self.resources.children:
            self.resources.children.remove(child)

    def free_port(self) -> int:
        """A port of the loopback that is free now; it is watched at the end."""
        port = ports.free_port()
        self.resources.ports.append(port)
        return port

    # the host ---------------------------------------------------------------------------------------------------------

    def finding(self, id: str) -> Finding | None:
        """What the check of this host said."""
        return self.findings.get(id)

    @property
    def findings(self) -> dict[str, Finding]:
        """Findings of the check, by id; empty without a report."""
        return {item.id: item for item in self.report.findings} if self.report else {}


def _scratch(user: User, run: str) -> Path:
    """A fresh folder that is the engine user's alone. Root's TMPDIR may be closed to that user."""
    import tempfile

    base = "/var/tmp" if user.uid is not None else None
    folder = Path(tempfile.mkdtemp(prefix=f"doctor-smoke-{run}-", dir=base))
    if user.uid is not None and user.gid is not None:
        os.chown(folder, user.uid, user.gid)
    return folder
