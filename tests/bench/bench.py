"""Start-up and check times as ratios to something bare in the same run: `python -m tests.bench.bench [--rounds N]`.

Pairs are run alternately, so that a busy machine slows both; the ratio of the best times is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
CUINIT = "import ctypes\ntry: print(ctypes.CDLL('libcuda.so.1').cuInit(0))\nexcept OSError: print('none')"


def best(pairs: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """Seconds of the best run of each command, all commands once per round."""
    found = dict.fromkeys(pairs, float("inf"))
    for _ in range(rounds):
        for name, argv in pairs.items():
            started = time.perf_counter()
            subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            found[name] = min(found[name], time.perf_counter() - started)
    return found


def recording(folder: Path) -> Path:
    """A simulated healthy host."""
    from doctor.simulate.simulator import simulate

    described = {"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05"}
    return simulate(described).write(folder / "healthy")


def main(argv: list[str] | None = None) -> int:
    """Print one JSON object: seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args(argv).rounds
    python = sys.executable
    doctor = [python, "-m", "doctor"]
    with tempfile.TemporaryDirectory() as folder:
        # compiled as an installed package is, whatever this shell keeps Python from writing
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder + "/compiled"
        rec = str(recording(Path(folder)))
        commands = {
            "bare": [python, "-c", "pass"],
            "click and msgspec": [python, "-c", "import click, msgspec"],
            "version": [*doctor, "--version"],
            "only": [*doctor, "check", "--from", rec, "--only", "driver.library-mismatch"],
            "recorded": [*doctor, "check", "--from", rec],
            "live": [*doctor, "check"],
            "cuinit": [python, "-c", CUINIT],
        }
        if shutil.which("nvidia-smi"):
            commands["nvidia-smi -q"] = ["nvidia-smi", "-q"]
            commands["collect_env"] = [python, "-m", "torch.utils.collect_env"]
        seconds = best(commands, rounds)
        seconds |= inside(rec, rounds)
        slowest = slowest_probe(doctor)
    ratios = {
        "version / bare (aim 4)": seconds["version"] / seconds["bare"],
        "one check on a recording / bare (aim 8)": seconds["only"] / seconds["bare"],
        "of that, to load click and msgspec / bare": seconds["click and msgspec"] / seconds["bare"],
        "matrix and checks / bare YAML load of matrices": (
            seconds["matrix and checks"] / seconds["bare YAML"]
        ),
        "live check / slowest probe": seconds["live"] / max(slowest, 0.001),
        "live check / 1 second (aim 1 on two cores without a GPU)": seconds["live"],
        "live check / bare cuInit child (aim 1.5 on a GPU host)": seconds["live"]
        / seconds["cuinit"],
    }
    if "collect_env" in seconds:
        ratios["live check / nvidia-smi -q"] = seconds["live"] / seconds["nvidia-smi -q"]
        ratios["collect_env / live check (aim 10)"] = seconds["collect_env"] / seconds["live"]
    shown = {name: round(value, 4) for name, value in seconds.items()}
    print(
        json.dumps(
            {"seconds": shown, "ratios": {k: round(v, 2) for k, v in ratios.items()}}, indent=1
        )
    )
    return 0


def inside(rec: str, rounds: int) -> dict[str, float]:
    """Best seconds within a process, imports done: matrix and all checks on the recorded host, one want, a YAML load."""
    code = Path(__file__).with_name("inside.py")
    found: dict[str, float] = {}
    for _ in range(rounds):
        ran = subprocess.run([sys.executable, str(code), rec], capture_output=True, check=True)
        for name, value in json.loads(ran.stdout).items():
            found[name] = min(value, found.get(name, value))
    return found


def slowest_probe(doctor: list[str]) -> float:
    """Seconds of the slowest single probe of a live check."""
    ran = subprocess.run([*doctor, "check", "--format", "json"], capture_output=True, check=False)
    timing = json.loads(ran.stdout)["timing_ms"]
    return max((ms for name, ms in timing.items() if name.startswith("probe.")), default=0) / 1000


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main())
