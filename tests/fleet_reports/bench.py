"""Time and memory of reports on stored results: `python -m tests.fleet_reports.bench [--hosts 100 1000 10000] [--formats csv ...]`.

Each report is a process of its own. Printed per format and size: seconds on the clock and of the processor, peak memory, and the
processor's milliseconds a host beyond the start; the last column is that cost at the largest size over the smallest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from doctor.report.formats import FORMATS

MAKE = """
import sys
from pathlib import Path
from tests.fleet_reports.corpus import store
folder, size = Path(sys.argv[1]), int(sys.argv[2])
store(folder / str(size), size, folder / f"scratch{size}")
"""
"""In a process of its own: what a process has used before it starts another counts as the other's peak."""


class Run:
    """One report."""

    def __init__(self, folder: Path, format_: str, out: Path) -> None:
        command = [sys.executable, "-m", "doctor", "fleet", "report", str(folder)]
        started = time.perf_counter()
        process = subprocess.Popen([*command, "--format", format_, "-o", str(out)])
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1, 3):
            raise SystemExit(f"{format_} of {folder}: exit code {process.returncode}")
        self.clock = time.perf_counter() - started
        self.processor = used.ru_utime + used.ru_stime
        self.mebibytes = used.ru_maxrss / 1024
        self.written = out.stat().st_size / 2**20
        out.unlink()


def measure(sizes: list[int], formats: list[str], folder: Path) -> dict[str, dict[int, Run]]:
    """Format -> size -> its run. The results of each size are made first and timed apart."""
    for size in sizes:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", MAKE, folder, str(size)], check=True)
        print(f"{size} results made in {time.perf_counter() - started:.1f} s", flush=True)
    found: dict[str, dict[int, Run]] = {}
    for format_ in formats:
        found[format_] = {size: Run(folder / str(size), format_, folder / "out") for size in sizes}
        _tell(format_, found[format_])
    return found


def _tell(format_: str, runs: dict[int, Run]) -> None:
    for size, run in runs.items():
        print(
            f"{format_:<10} {size:>6} hosts  {run.clock:6.2f} s  {run.processor:6.2f} s cpu  {run.mebibytes:5.0f} MiB  "
            f"{run.written:7.2f} MiB written",
            flush=True,
        )
    if len(runs) > 2:
        print(f"{format_:<10} cost of a host, large over middle: {growth(runs):.2f}", flush=True)


def growth(runs: dict[int, Run]) -> float:
    """Processor time of a further host between the two larger sizes over that between the two smaller: 1 is flat."""
    small, middle, large = sorted(runs)[-3:]
    early = (runs[middle].processor - runs[small].processor) / (middle - small)
    late = (runs[large].processor - runs[middle].processor) / (large - middle)
    return late / max(early, 1e-6)


def main(argv: list[str] | None = None) -> int:
    """1 when the largest size took more than 30 s or 400 MiB in any format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(sorted(asked.hosts), asked.formats, Path(folder))
    largest = [runs[max(runs)] for runs in found.values()]
    worst = max(run.clock for run in largest), max(run.mebibytes for run in largest)
    print(f"worst: {worst[0]:.1f} s, {worst[1]:.0f} MiB")
    return int(worst[0] > 30 or worst[1] > 400)


if __name__ == "__main__":
    sys.exit(main())
