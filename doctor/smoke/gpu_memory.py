"""GPU memory before a run and after it: what a run took it gives back, and NVML has to say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.checks.finding import Evidence
from doctor.facts.model import Known
from doctor.facts.tree import decode
from doctor.probes import registry
from doctor.smoke.processes import is_of_run

if TYPE_CHECKING:
    from doctor.facts.areas.nvml import Gpu
    from doctor.probes.source import Source
    from doctor.smoke.context import Context

TOLERANCE_BYTES = 64 << 20
"""An eighth of a bare context, the least that a process holds: 527 MiB of an H200 (driver 580.159.04, 2026-11-30). When it
had ended, the 615.1 MiB in use were those of before."""
WAIT_S = 20.0
"""A bound for a driver that is slow or hangs: there 120 GB were back 0.2 s after the process was killed."""
POLL_S = 0.5

Gpus = Mapping[str, "Gpu"]


def look(source: Source) -> Gpus | str:
    """Every GPU by UUID as NVML sees it now; in words why it could not be asked."""
    found = decode(registry.run(source, ["nvml"])["facts"]).nvml
    if isinstance(found.gpus, Known):
        return found.gpus.value
    return f"NVML's GPUs were not seen: {getattr(found.gpus, 'reason', 'there are none')}"


def before(ctx: Context) -> Gpus | str | None:
    """What is held when the run begins; None where there is no GPU to take memory of."""
    init = ctx.facts.nvml.init
    if not ctx.uses_gpus or not isinstance(init, Known) or init.value != "ok":
        return None
    return look(ctx.look_again())


def given_back(
    ctx: Context,
    held: Gpus | str | None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[list[Evidence], list[str]]:
    """(what NVML says at the end, what is still held, in words), after a bounded wait for the driver."""
    if held is None:
        return [], []
    if isinstance(held, str):
        return [Evidence(fact="gpu.memory-after", reason=held, via="NVML")], []
    until = clock() + WAIT_S
    while True:
        now = look(ctx.look_again())
        left = [now] if isinstance(now, str) else still_held(held, now, _is_own(ctx))
        if not left or clock() >= until:
            return _evidence(held, now), left
        sleep(POLL_S)


def still_held(held: Gpus, now: Gpus, is_own: Callable[[int], bool]) -> list[str]:
    """What is not back as it was. Memory that a process of somebody else took meanwhile is theirs."""
    left = []
    for uuid, was in held.items():
        gpu = now.get(uuid)
        if gpu is None:
            left.append(f"GPU {was.index} ({uuid}) no longer answers to NVML")
            continue
        known, new = _processes(was), _processes(gpu)
        gone = [pid for pid in new if pid not in known and is_own(pid)]
        left += [
            f"GPU {gpu.index}: process {pid} of the run holds {_mib(new[pid])}" for pid in gone
        ]
        if not isinstance(was.memory_used, Known):
            continue  # a board that does not tell
        if not isinstance(gpu.memory_used, Known):
            left.append(f"GPU {gpu.index}: the memory in use is no longer told")
            continue
        theirs = _taken_by_others(known, new, set(gone))
        more = gpu.memory_used.value - was.memory_used.value
        if not gone and theirs is not None and more - theirs > TOLERANCE_BYTES:
            left.append(
                f"GPU {gpu.index}: {_mib(gpu.memory_used.value)} in use, {_mib(was.memory_used.value)} before the run"
            )
    return left


def _processes(gpu: Gpu) -> dict[int, int | None]:
    """pid -> bytes; empty where NVML does not say, as in a container."""
    found = gpu.processes
    return {item.pid: item.memory for item in found.value} if isinstance(found, Known) else {}


def _taken_by_others(
    was: Mapping[int, int | None], now: Mapping[int, int | None], own: set[int]
) -> int | None:
    """Bytes that others took since; None where one of them holds an amount that is not told."""
    total = 0
    for pid, memory in now.items():
        if pid in own:
            continue
        if memory is None:
            return None
        total += max(0, memory - (was.get(pid) or 0))
    return total


def _is_own(ctx: Context) -> Callable[[int], bool]:
    """Whether a process that NVML names is of the run: it carries the mark, or it is gone and still holds memory."""
    inside = ctx.facts.host.container
    sees_all = isinstance(inside, Known) and inside.value == "none"

    def is_own(pid: int) -> bool:
        if not Path(f"/proc/{pid}").exists():
            return sees_all  # in a container it may be a process of the host
        return is_of_run(pid, ctx.run)

    return is_own


def _evidence(held: Gpus, now: Gpus | str) -> list[Evidence]:
    if isinstance(now, str):
        return [Evidence(fact="gpu.memory-after", reason=now, via="NVML")]
    found = []
    for uuid, was in held.items():
        gpu = now.get(uuid)
        for name, seen in (("before", was), ("after", gpu)):
            used = seen.memory_used if seen is not None else None
            fact = f"gpu[{uuid}].memory-{name}"
            if isinstance(used, Known):
                found.append(Evidence(fact=fact, value=used.value, via="NVML"))
            else:
                found.append(Evidence(fact=fact, reason="not seen", via="NVML"))
    return found


def _mib(size: int | None) -> str:
    return "an amount that NVML does not tell" if size is None else f"{size >> 20} MiB"
