"""Climbs the ladder: one rung after the other, stops at the first that breaks, cleans up in reverse, whatever happens."""

from __future__ import annotations

import errno
import importlib
import shlex
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from doctor.checks.finding import Evidence, Severity
from doctor.events import SmokeStageFinished, SmokeStageStarted
from doctor.smoke import gpu_memory
from doctor.smoke.context import Canceled, Context, StageFailed, StageTimeout, StageUnseen
from doctor.smoke.model import CPU_ONLY, LADDER, StageResult, failed, fault, skipped, unseen
from doctor.smoke.processes import adopting

GPU_RUNGS = ("driver", "cuda", "nccl")
"""Rungs that an engine without a GPU skips."""


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
ROOM_BYTES = 16 * 1024
"""Without room for this a log is not whole."""


class Stage(Protocol):
    """A rung. Its module `doctor/smoke/stages/<name>.py` holds one as STAGE; a dash in the name is an underscore there."""

    name: str
    needs: tuple[str, ...]
    """Fact paths (`area.name`) that it reads."""
    timeout: float
    """Seconds; the rung asks `ctx.check()` or waits with `ctx.left`."""

    def run(self, ctx: Context) -> StageResult:
        """Try it. StageFailed and StageUnseen may be raised from any depth."""

    def cleanup(self, ctx: Context) -> None:
        """Undo what run did, however far it came; always called after run, in reverse order of the rungs."""


class Climb(msgspec.Struct, frozen=True, kw_only=True):
    """How far it went."""

    results: list[StageResult]
    interrupted: bool
    left_behind: list[str]
    cleaned: list[Evidence] = []
    """What was looked at after the cleaning."""


def stages_up_to(level: str) -> Iterator[Stage]:
    """The rungs up to and including `level`, in order, each imported when it is reached."""
    for name in LADDER[: LADDER.index(level) + 1]:
        yield importlib.import_module(f"doctor.smoke.stages.{name.replace('-', '_')}").STAGE


def climb(stages: Iterable[Stage], ctx: Context) -> Climb:
    """Run the rungs. Ctrl-C, SIGTERM, SIGHUP and the cancel token end it; everything is cleaned up before it returns."""
    with adopting():
        return _climb(stages, ctx)


def _climb(stages: Iterable[Stage], ctx: Context) -> Climb:
    results: list[StageResult] = []
    reached: list[Stage] = []
    interrupted = False
    left: list[str] = []
    cleaned: list[Evidence] = []
    held: gpu_memory.Gpus | str | None = None
    try:
        with _interrupts():
            held = gpu_memory.before(ctx)
            for stage in stages:
                reached.append(stage)
                result = _one(stage, ctx)
                results.append(result)
                ctx.emit(SmokeStageFinished(stage=stage.name, result=msgspec.to_builtins(result)))
                if result.outcome in ("fail", "unknown"):
                    break
    except (KeyboardInterrupt, Canceled):
        interrupted = True
    finally:
        with _deaf():
            left = _clean_up(reached, ctx)
            cleaned, still_held = gpu_memory.given_back(ctx, held)
            left += still_held
    if left and results:
        results[-1] = _with_leftovers(results[-1], left)
        ctx.emit(
            SmokeStageFinished(stage=results[-1].name, result=msgspec.to_builtins(results[-1]))
        )
    return Climb(results=results, interrupted=interrupted, left_behind=left, cleaned=cleaned)


def _with_leftovers(last: StageResult, left: Sequence[str]) -> StageResult:
    """A run that leaves something did not pass: its last rung says so, beside what it said itself."""
    passed = last.outcome in ("pass", "skip")
    finding = fault(
        last.name,
        "left-behind",
        "The run leaves nothing behind",
        f"after cleaning up: {'; '.join(left)}",
        want="no process, port, segment, folder or GPU memory of the run",
        say="see who holds it; a process that hangs in a driver call goes with a reset or a reboot",
        command="nvidia-smi; ls /dev/shm; ss -ltnp",
        severity=Severity.ERROR if passed else Severity.WARN,
        evidence=[Evidence(fact="smoke.left-behind", value=item) for item in left],
    )
    if not passed:
        return msgspec.structs.replace(last, warnings=[*last.warnings, finding])
    return msgspec.structs.replace(
        last,
        outcome="fail",
        message=f"{finding.message} (before that: {last.message})",
        finding=finding,
    )


def _one(stage: Stage, ctx: Context) -> StageResult:
    started = time.monotonic()
    reason = _skips(stage, ctx)
    if reason is not None:
        return skipped(stage.name, reason)
    ctx.begin(stage.name, stage.timeout)
    ctx.emit(SmokeStageStarted(stage=stage.name, timeout=stage.timeout))
    try:
        result = stage.run(ctx)
    except (StageFailed, StageUnseen) as broken:
        result = _full(stage, ctx, str(broken)) or _broken(stage, broken)
    except StageTimeout:
        result = _timed_out(stage, ctx)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        result = _no_room(stage, ctx, error)
    ms = int((time.monotonic() - started) * 1000)
    return msgspec.structs.replace(result, name=stage.name, ms=ms)


def _skips(stage: Stage, ctx: Context) -> str | None:
    """Why an engine without a GPU has nothing to do on this rung."""
    if ctx.uses_gpus:
        return None
    if stage.name in GPU_RUNGS:
        return CPU_ONLY
    if stage.name == "container" and ctx.options.image is None:
        return f"the engine runs from an interpreter, not from an image; {CPU_ONLY}"
    return None


def _broken(stage: Stage, broken: StageFailed | StageUnseen) -> StageResult:
    if isinstance(broken, StageFailed):
        return failed(broken.finding, **broken.extra)
    return unseen(stage.name, str(broken))


def _full(stage: Stage, ctx: Context, message: str) -> StageResult | None:
    """The disk behind what broke: a log that could not be written holds no answer, and its reader blames something else."""
    for folder in (ctx.folder, ctx.resources.scratch):
        if folder is None:
            continue
        probe = folder / ".room"
        try:
            probe.write_bytes(b"\0" * ROOM_BYTES)
        except OSError as error:
            if error.errno in NO_ROOM:
                return _no_room(stage, ctx, error, message)
        finally:
            with suppress(OSError):
                probe.unlink()
    return None


def _no_room(stage: Stage, ctx: Context, error: OSError, message: str = "") -> StageResult:
    """The run's own files could not be written."""
    place = Path(str(error.filename)).parent if error.filename else ctx.folder
    return failed(
        fault(
            stage.name,
            "no-room",
            "The run can write its logs and answers",
            f"{place}: {error.strerror}" + (f"; so {message}" if message else ""),
            want="room for the run's files: some megabytes, and the engine's environment where one is made",
            say="make room there",
            command=f"df -h {shlex.quote(str(place))}",
            evidence=[Evidence(fact="smoke.folder", value=str(place), via=error.strerror or "")],
        )
    )


def _timed_out(stage: Stage, ctx: Context) -> StageResult:
    return failed(
        fault(
            stage.name,
            "timeout",
            f"The {stage.name} rung ends in time",
            f"not done after {stage.timeout:.0f} s; it was stopped",
            want=f"at most {stage.timeout:.0f} s",
            say=f"read the logs in {ctx.folder}; the last lines say what it was waiting for",
            command=None,
        )
    )


def _clean_up(reached: Sequence[Stage], ctx: Context) -> list[str]:
    left: list[str] = []
    for stage in reversed(reached):
        try:
            stage.cleanup(ctx)
        except Exception as error:  # noqa: BLE001, RUF100 - the others must clean up too
            left.append(f"{stage.name}: {type(error).__name__}: {error}")
    return left + ctx.resources.release(ctx.user)


@contextmanager
def _interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP end the run like Ctrl-C. Only the main thread may set handlers; elsewhere the token does it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _deaf() -> Iterator[None]:
    """A second Ctrl-C does not stop the cleaning, which is bounded."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
