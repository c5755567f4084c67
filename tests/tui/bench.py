"""How soon the app is there and how soon a key is answered: `python -m tests.tui.bench [--rounds N]`.

First paint is compared with an empty Textual app in the same run, both in a pseudo-terminal, alternately; keys are timed
inside one process over five thousand findings, from the key to the bytes for the terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pty
import select
import signal
import statistics
import sys
import time
from collections.abc import Sequence

from textual._compositor import CompositorUpdate
from textual.events import Key

from doctor.events import (
    AnyEvent,
    CheckFinished,
    FactsReady,
    FleetStarted,
    HostFinished,
    RunFinished,
    RunStarted,
)
from doctor.tui.app import DoctorApp
from doctor.tui.origin import AUDIT, Origin
from tests.tui.play import idle, told

EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("FIRST-PAINT")
Empty().run()
"""
MANY = 5000
HOSTS = 10_000
AIM_MS = 50.0
"""From a key to its paint."""
AIM_S = 0.5
"""From the first paint of an empty Textual app to the doctor's."""
AIM_RATIO = 3.0
"""As many times as long as the empty app, both from the start of the process."""


def first_paint(argv: Sequence[str], marker: bytes) -> tuple[float, float]:
    """Seconds, and seconds of CPU, from the start of the process until the terminal is told the marker."""
    started = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(argv[0], list(argv))
    seen = b""
    try:
        while marker not in seen and time.perf_counter() - started < 60:
            if select.select([terminal], [], [], 1)[0]:
                with contextlib.suppress(OSError):
                    seen += os.read(terminal, 65536)
        spent = time.perf_counter() - started
    finally:
        os.kill(pid, signal.SIGKILL)
        _, _, usage = os.wait4(pid, 0)
        os.close(terminal)
    return spent, usage.ru_utime + usage.ru_stime


def paints(rounds: int) -> dict[str, tuple[float, float]]:
    """Best of each."""
    asked = {
        "empty": ([sys.executable, "-c", EMPTY], b"FIRST-PAINT"),
        "doctor": ([sys.executable, "-m", "doctor", "tui"], b"1 Host"),
    }
    found = [{name: first_paint(*each) for name, each in asked.items()} for _ in range(rounds)]
    return {
        name: (min(each[name][0] for each in found), min(each[name][1] for each in found))
        for name in asked
    }


def many() -> Origin:
    """Five thousand findings in fifty areas."""
    events: list[AnyEvent] = [RunStarted(verb="check", source="made"), FactsReady(facts={})]
    for number in range(MANY):
        outcome = ("fail", "warn", "unknown")[number % 3]
        finding = {
            "id": f"area{number % 50}.fault-{number}",
            "title": f"Claim {number}",
            "outcome": outcome,
            "severity": "warn" if outcome == "warn" else "error",
            "message": f"value {number * 7919 % 10007} is not what it should be on this host",
        }
        events.append(CheckFinished(finding=finding))
    events.append(RunFinished(verdict="broken", exit_code=1))
    return told(events)


def many_hosts() -> Origin:
    """An audit of ten thousand hosts, each with what hosts have: ten findings, twenty traits."""
    names = [f"gpu-{number:05d}" for number in range(HOSTS)]
    events: list[AnyEvent] = [
        RunStarted(verb="fleet audit", source="made"),
        FleetStarted(audit="made", hosts={name: [f"rack-{name[4:7]}"] for name in names}),
    ]
    verdicts = ("healthy", "healthy", "degraded", "broken", "unknown")
    for number, name in enumerate(names):
        findings = [
            {
                "id": f"area{each}.fault-{(number + each) % 40}",
                "outcome": ("warn", "fail", "unknown")[each % 3],
                "severity": "warn",
                "message": f"value {number * 7919 % 10007} is not what it should be",
            }
            for each in range(10)
        ]
        line = {
            "name": name,
            "state": "audited",
            "verdict": verdicts[number % 5],
            "groups": [f"rack-{name[4:7]}"],
            "findings": findings,
            "next": findings[0]["id"],
            "passed": 120,
            "traits": {f"area.trait-{each}": f"5{number % 7}.{each}" for each in range(20)},
        }
        events.append(HostFinished(line=line, done=number + 1, of=HOSTS))
    return told(events, work=AUDIT)


FINDING_KEYS: tuple[tuple[str, Sequence[str]], ...] = (
    ("down", ["down"] * 30),
    ("page", ["pagedown"] * 15),
    ("ends", ["end", "home"] * 5),
    ("", ["slash"]),
    ("filter", list("value7919")),
    ("unfilter", ["backspace"] * 8),
)
HOST_KEYS: tuple[tuple[str, Sequence[str]], ...] = (
    ("down", ["down"] * 30),
    ("page", ["pagedown"] * 15),
    ("ends", ["end", "home"] * 5),
    ("show", ["o"] * 10),
    ("", ["slash"]),
    ("filter", list("rack-01 52.3")),
    ("unfilter", ["backspace"] * 11),
)


def keys(
    origin: Origin, presses: Sequence[tuple[str, Sequence[str]]]
) -> dict[str, dict[str, float]]:
    """Milliseconds from key to paint, by the clock and of the processor, of each kind of key: median and worst.

    A machine that does other things as well stretches the clock and leaves the processor's time as it is.
    """
    app = DoctorApp(origin)
    found: dict[str, dict[str, float]] = {}

    async def whole() -> None:
        async with app.run_test(size=(120, 36)) as pilot:
            await idle(app, pilot, 100)
            written: list[tuple[float, float]] = []
            driver = app._driver
            assert driver is not None

            def display(screen: object, update: object) -> None:
                if isinstance(update, CompositorUpdate):  # headless apps stop before the bytes
                    update.render_segments(app.console)
                    written.append((time.perf_counter(), time.process_time()))

            app._display = display  # type: ignore[method-assign,assignment]
            for name, several in presses:
                clock, processor = [], []
                for key in several:
                    written.clear()
                    started, begun = time.perf_counter(), time.process_time()
                    driver.send_message(Key(key, key if len(key) == 1 else None))
                    while not written and time.perf_counter() - started < 1:
                        await asyncio.sleep(0.0005)
                    painted, spent = written[0] if written else (started + 1, begun + 1)
                    clock.append((painted - started) * 1000)
                    processor.append((spent - begun) * 1000)
                    await pilot.pause(0.03)
                if name:
                    found[name] = {
                        "clock, median": round(statistics.median(clock), 1),
                        "clock, worst": round(max(clock), 1),
                        "processor, median": round(statistics.median(processor), 1),
                        "processor, worst": round(max(processor), 1),
                    }

    asyncio.run(whole())
    return found


def main(argv: list[str] | None = None) -> int:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args(argv).rounds
    spent = paints(rounds)
    empty, doctor = spent["empty"], spent["doctor"]
    shown = {
        "first paint, seconds": {name: round(each[0], 3) for name, each in spent.items()},
        "first paint, seconds of CPU": {name: round(each[1], 3) for name, each in spent.items()},
        "doctor / empty Textual app": round(doctor[0] / empty[0], 2),
        f"over an empty Textual app, seconds (aim {AIM_S})": round(doctor[0] - empty[0], 3),
        f"key to paint over {MANY} findings, ms (aim {AIM_MS:g})": keys(many(), FINDING_KEYS),
        f"key to paint over {HOSTS} hosts, ms (aim {AIM_MS:g})": keys(many_hosts(), HOST_KEYS),
    }
    print(json.dumps(shown, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
