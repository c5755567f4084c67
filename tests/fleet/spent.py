"""What looks at containers cost: by the clock, and in processor time here and in the containers, which a busy machine changes little."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.playbooks.standins.engine import Engine
from tests.processors import busy, of_children


class Spent:
    """Costs by what they were for; of several runs the cheapest counts."""

    def __init__(self, engine: Engine, hosts: Sequence[str]) -> None:
        template = "{{.State.Pid}}"
        pids = engine.run("inspect", "-f", template, *hosts).stdout.split()
        self._counters = [_counter(int(pid)) for pid in pids]
        self._runs: dict[str, list[tuple[float, float]]] = {}
        self._machine = self._foreign = 0.0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Everything inside is one run."""
        before, own, began = busy(), self._spent(), time.monotonic()
        yield
        clock, own = time.monotonic() - began, self._spent() - own
        self._runs.setdefault(what, []).append((clock, own))
        self._foreign += max(0.0, busy() - before - own)
        self._machine += clock * (os.cpu_count() or 1)

    def clock(self, what: str) -> float:
        """Seconds."""
        return min(clock for clock, _ in self._runs[what])

    def processor(self, what: str) -> float:
        """Seconds of processors."""
        return min(own for _, own in self._runs[what])

    @property
    def others(self) -> float:
        """Share of the machine that was busy with something else."""
        return self._foreign / self._machine

    def __str__(self) -> str:
        found = [
            f"{what}: {self.clock(what):.1f} s, {self.processor(what):.1f} s of processors"
            for what in self._runs
        ]
        return "; ".join([*found, f"others took {self.others:.0%} of the machine"])

    def _spent(self) -> float:
        return of_children() + sum(map(_seconds, self._counters))


def _counter(pid: int) -> Path:
    """The file in which the kernel counts what the processor did for a container: of version 1 where that has the counter."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    paths = {names: path.lstrip("/") for _, names, path in (line.split(":", 2) for line in lines)}
    for names, path in paths.items():
        if "cpuacct" in names.split(","):
            return Path("/sys/fs/cgroup/cpuacct", path, "cpuacct.usage")
    return Path("/sys/fs/cgroup", paths[""], "cpu.stat")


def _seconds(counter: Path) -> float:
    text = counter.read_text()
    if counter.name == "cpuacct.usage":
        return int(text) / 1e9
    return int(text.split()[1]) / 1e6  # usage_usec comes first
