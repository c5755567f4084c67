"""Kills a fix on a stand-in, with all that it has started, at the moments that a test asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tests.playbooks.standins.host import Host

WATCH_S = 300
WATCHER = r"""
import glob, json, os, signal, subprocess, sys, time

asked = json.load(sys.stdin)
done = {tuple(item) for item in asked["done"]}
until = time.monotonic() + asked["seconds"]
RUNS = "/var/lib/gpu-host-doctor/runs/*/"

def records(name):
    for path in sorted(glob.glob(RUNS + name)):
        with open(path, "rb") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    pass

def moment():
    '''What is done right now and was not interrupted yet: (step, "begun") when its record is there, (step, "at work") some tasks later.'''
    begun = None
    for record in records("journal.jsonl"):
        if record["what"] == "step-begun":
            begun = record
        elif record["what"] in ("changed", "step-left", "finished"):
            begun = None
    if begun is None:
        return None
    if (begun["step"], "begun") not in done:
        return begun["step"], "begun"
    tasks = [e for e in records("events.jsonl") if e.get("step") == begun["step"] and e.get("at", 0) >= begun["at"] and e.get("done", 0) >= asked["tasks"]]
    return (begun["step"], "at work") if tasks and (begun["step"], "at work") not in done else None

def ours():
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid(), os.getppid()):
            continue
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                line = file.read()
            with open("/proc/%s/environ" % name, "rb") as file:
                marked = b"GPU_HOST_DOCTOR_RUN=" in file.read()
        except OSError:
            continue
        if marked or line.startswith(b"/opt/gpu-host-doctor/bin/"):
            yield int(name)

child = None
out = open("/run/killed.out", "w+b")
if asked["command"]:
    child = subprocess.Popen(asked["command"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
found = None
while time.monotonic() < until:
    found = moment()
    if found is not None:
        for again in range(5):
            for pid in list(ours()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        break
    if child is not None and child.poll() is not None:
        break
    if child is None and any(r["what"] == "finished" and r["at"] > asked["since"] for r in records("journal.jsonl")):
        break
    time.sleep(0.05)
code = child.wait() if child is not None else None
out.seek(0)
print(json.dumps({"killed": found, "code": code, "said": out.read().decode(errors="replace")}))
"""


@dataclass(frozen=True)
class Killed:
    """Where a run was killed; nowhere when it came to its end by itself."""

    moment: tuple[str, str] | None
    code: int | None
    said: str


def kill_next(
    host: Host,
    command: Sequence[str],
    done: Sequence[tuple[str, str]],
    *,
    tasks: int = 4,
    since: float = 0.0,
) -> Killed:
    """Run the command, or watch the run that the host has begun by itself, and kill it at the first moment that is not in `done`."""
    asked = {"command": list(command), "done": list(done), "tasks": tasks, "since": since}
    ran = host.run(
        ["/usr/bin/python3", "-I", "-c", WATCHER],
        input=json.dumps({**asked, "seconds": WATCH_S}),
        timeout=WATCH_S + 60,
    )
    said = json.loads(ran.stdout)
    moment = tuple(said["killed"]) if said["killed"] else None
    return Killed(moment, said["code"], said["said"])
