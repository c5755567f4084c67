"""A host that lies: run in place of its shell, it lets Ansible make its folders and answers for the probe.

liar.py KIND RECORDING COMMAND
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
import time
import zlib
from typing import Any


def main() -> None:
    kind, recording, command = sys.argv[1:]
    found = re.search(r"--answer (\w+)", command)
    assert found is not None
    word = found.group(1)
    if kind in RAW:
        RAW[kind](word)
        return
    document = honest(recording)
    change = CHANGED[kind]
    say(word, pack(json.dumps(change(document)).encode()))


def honest(recording: str) -> dict[str, Any]:
    from doctor.probes.__main__ import envelope
    from doctor.probes.recordings.recorded import RecordedSource

    return envelope(RecordedSource(recording))


def pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def say(word: str, packed: str) -> None:
    sys.stdout.write(f"doctor-probe/1 {word} {packed}\n")
    sys.stdout.flush()


def hang(word: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def flood(word: str) -> None:
    block = "x" * (1 << 20)
    for _ in range(100):
        sys.stdout.write(block)


def flood_lines(word: str) -> None:
    block = "doctor-probe/1 x y\n" * 10000
    for _ in range(50):
        sys.stdout.write(block)


def die(word: str) -> None:
    sys.stdout.write(f"doctor-probe/1 {word} {pack(b'x' * 3000)[:20]}")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def twice(word: str) -> None:
    for _ in range(2):
        say(word, pack(b"{}"))


def refuse(word: str) -> None:
    sys.stderr.write(
        "Permission denied \x1b]0;owned\x07\x1b[2J[bold]you[/bold] token=hunter2swordfish\n"
    )
    sys.exit(126)


RAW = {
    "hangs": hang,
    "floods": flood,
    "floods-lines": flood_lines,
    "dies": die,
    "answers-twice": twice,
    "denies": refuse,
    "says-nothing": lambda word: None,
    "no-base64": lambda word: say(word, "%%%"),
    "no-zlib": lambda word: say(word, base64.b64encode(b"plain").decode()),
    "bomb": lambda word: say(word, pack(b" " * (300 << 20))),
    "no-json": lambda word: say(word, pack(b'{"schema": "doctor.facts/1", ')),
    "deep": lambda word: say(word, pack(b"[" * 100000 + b"]" * 100000)),
    "deep-facts": lambda word: say(
        word, pack(b'{"schema":"doctor.facts/1","facts":' + b'{"a":' * 500 + b"1" + b"}" * 501)
    ),
    "nan": lambda word: say(word, pack(b'{"schema":"doctor.facts/1","facts":{"x":NaN}}')),
    "huge-number": lambda word: say(word, pack(b"[" + b"9" * 5000 + b"]")),
    "another-word": lambda word: say("0" * 16, pack(b"{}")),
}


def _other_version(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"doctor": "99.0"}


def _wrong_types(document: dict[str, Any]) -> dict[str, Any]:
    document["facts"]["host"]["cpus"] = {"state": "known", "value": "many"}
    return document


def _other_areas(document: dict[str, Any]) -> dict[str, Any]:
    document["facts"]["more"] = {}
    return document


def _no_areas(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"facts": {}}


def _known(value: Any) -> dict[str, Any]:
    return {"state": "known", "value": value, "via": "x"}


def _named(name: str) -> Any:
    def change(document: dict[str, Any]) -> dict[str, Any]:
        document["facts"]["host"]["name"] = _known(name)
        document["host"] = {"name": name}
        return document

    return change


def _escapes(document: dict[str, Any]) -> dict[str, Any]:
    host = document["facts"]["host"]
    host["os_release"] = _known(
        'PRETTY_NAME="\x1b]0;owned\x07\x1b[2J[bold red]Rocky[/] <script>alert(1)</script>"\n'
    )
    host["name"] = _known("../../etc/cron.d/x\n\x1b[31m$(touch /tmp/pwned)")
    return document


def _escapes_elsewhere(document: dict[str, Any]) -> dict[str, Any]:
    """Where a log may have them; and no driver, so that it is said."""
    facts = document["facts"]
    facts["kernel"]["running"] = _known(
        "6.8.0\x1b[2J'; touch /tmp/pwned; ' [bold]<script>alert(1)</script>"
    )
    facts["kernel"]["next_boot"] = _known("6.8.0\x1b]0;owned\x07")
    facts["storage"] = {
        "": {"state": "unknown", "reason": "\x1b[2J[bold]<script>alert(2)</script>", "via": "x"}
    }
    return document


def _healthy_and_silent(document: dict[str, Any]) -> dict[str, Any]:
    """Every area failed: nothing was seen."""
    for area in document["facts"]:
        document["facts"][area] = {"": {"state": "unknown", "reason": "no", "via": "x"}}
    return document


CHANGED = {
    "is-honest": lambda document: document,
    "other-version": _other_version,
    "wrong-types": _wrong_types,
    "other-areas": _other_areas,
    "no-areas": _no_areas,
    "calls-itself-honest": _named("is-honest"),
    "escapes": _escapes,
    "escapes-elsewhere": _escapes_elsewhere,
    "claims-a-recording": lambda document: document | {"recording": "/x"},
    "sees-nothing": _healthy_and_silent,
    "old-python": lambda document: {
        "schema": "doctor.facts/1",
        "doctor": document["doctor"],
        "error": "doctor-probe needs Python 3.9 or newer; this is 3.6",
    },
}

if __name__ == "__main__":
    main()
