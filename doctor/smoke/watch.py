"""What a server uses while it is loaded: memory of its processes, and through NVML in a child memory and SM use of the GPUs."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from doctor.smoke import child_answer
from doctor.smoke.processes import members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from doctor.smoke.context import Context
    from doctor.smoke.processes import Child


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU over a run."""

    index: int
    memory_share: float
    """Most of its memory that was used, of all."""
    memory_growth: float | None
    """From the first third to the last; None for too few samples."""
    sm_percent_mean: float | None
    sm_percent_max: int | None


class Watch:
    """Watches from its making until `stop`."""

    def __init__(self, ctx: Context, sessions: set[int]) -> None:
        self._ctx = ctx
        self._sessions = sessions
        self._memory: list[int] = []
        self._next = 0.0
        self._child: Child | None = None
        if ctx.engine is not None and ctx.engine.gpu:
            self._child = child_answer.start(ctx, "watch_gpus", ["1.0"], "gpus")

    def sample(self) -> None:
        """The memory of the server's processes now, at most once a second."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 1.0
        found = sum(_rss(pid) for pid in members(self._sessions))
        if found:
            self._memory.append(found)

    def stop(self) -> tuple[int, float | None, list[GpuUse]]:
        """(most bytes of host memory, its growth, each GPU)."""
        gpus: list[GpuUse] = []
        if self._child is not None:
            text = self._child.tail(2_000_000)
            self._ctx.end(self._child)
            gpus = gpu_use(child_answer.parsed(text))
        return max(self._memory, default=0), growth(self._memory), gpus


def growth(samples: Sequence[float]) -> float | None:
    """How much more the last third is than the second sixth to third, as a share. The first sixth warms up."""
    if len(samples) < 9:
        return None
    size = len(samples)
    early = statistics.median(samples[size // 6 : size // 3 + 1])
    late = statistics.median(samples[-(size // 3) :])
    return (late - early) / early if early else None


def gpu_use(lines: Sequence[dict[str, object]]) -> list[GpuUse]:
    """Samples of the child -> one entry per GPU that said something."""
    found = []
    for index in sorted({line["gpu"] for line in lines if isinstance(line.get("gpu"), int)}):  # type: ignore[type-var]
        own = [line for line in lines if line.get("gpu") == index]
        used = [float(v) for line in own if isinstance(v := line.get("memory_used"), int)]
        total = [float(v) for line in own if isinstance(v := line.get("memory_total"), int)]
        busy = [v for line in own if isinstance(v := line.get("sm_percent"), int)]
        if not used or not total:
            continue
        found.append(
            GpuUse(
                index=int(str(index)),
                memory_share=round(max(used) / total[0], 4),
                memory_growth=growth(used),
                sm_percent_mean=round(statistics.mean(busy), 1) if busy else None,
                sm_percent_max=max(busy, default=None),
            )
        )
    return found


def _rss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
