"""Answers that no other field implies: an argv prefix, cuInit, nvml or a unit's state. Comes last and replaces."""

from __future__ import annotations

import shlex
from typing import Any

from doctor.errors import UsageError
from doctor.simulate.consequence import cuda_answer, nvml_answer
from doctor.simulate.host import Host
from doctor.simulate.writer import RecordingWriter

FIELD_OF_COMMAND: dict[tuple[str, ...], str] = {
    ("uname", "-r"): "kernel",
    ("getconf", "GNU_LIBC_VERSION"): "glibc",
    ("apt-mark", "showhold"): "holds",
}
"""Commands whose output a field decides: saying them is a contradiction in waiting, so the field is named instead."""


FIELD_OF_UNIT = {
    "nvidia-fabricmanager": "fabric_manager",
    "nvidia-persistenced": "persistenced",
    "nvidia-imex": "imex",
}
"""Units that have a section of their own."""
UNIT_SUFFIXES = (".service", ".socket", ".path", ".timer")


def check(host: Host) -> None:
    """UsageError when a `says` denies what a field implies."""
    import msgspec

    bare = msgspec.structs.replace(host, d=msgspec.structs.replace(host.d, says={}))
    for key, said in host.d.says.items():
        if key == "cuInit":
            if not isinstance(said, int) or isinstance(said, bool):
                raise UsageError(
                    f"says.cuInit: {said} is not a number", "write cuInit's code, for example 803"
                )
            implied = cuda_answer(bare)
            if implied not in (0, said):
                raise _denied("cuInit", said, "none" if implied is None else implied)
        elif key == "nvml":
            if said != "ok" and not str(said).startswith("NVML_ERROR_"):
                raise UsageError(
                    f"says.nvml: {said} is not an NVML result", "write ok or NVML_ERROR_..."
                )
            init = nvml_answer(bare)
            if init not in ("ok", said):
                raise _denied("nvml", said, init)
        else:
            field = _field(key, host)
            if field:
                raise UsageError(
                    f"says.{key}: the field {field} decides that output", f"set {field} instead"
                )


def _field(key: str, host: Host) -> str | None:
    """The field that already decides what is said."""
    if key.endswith(UNIT_SUFFIXES):
        name = key.rpartition(".")[0]
        if name in host.d.services:
            return f"services.{name}"
        return FIELD_OF_UNIT.get(name) if key.endswith(".service") else None
    return FIELD_OF_COMMAND.get(tuple(shlex.split(key)))


def _denied(key: str, said: Any, implied: Any) -> UsageError:
    return UsageError(
        f"the description contradicts itself: says.{key} is {said} and its other fields make it {implied}",
        "change one of the two",
    )


def write(host: Host, out: RecordingWriter) -> None:
    """Replace what was said; cuInit and nvml are already the host's own answers."""
    for key, said in host.d.says.items():
        if key in ("cuInit", "nvml"):
            continue
        if key.endswith(UNIT_SUFFIXES):
            _unit(key, str(said), out)
        else:
            _command(shlex.split(key), said, out)


def _command(prefix: list[str], said: Any, out: RecordingWriter) -> None:
    answer: dict[str, Any] = said if isinstance(said, dict) else {"stdout": str(said)}
    wrong = set(answer) - {"stdout", "stderr", "rc", "error", "signal"}
    if wrong:
        raise UsageError(
            f"says.{shlex.join(prefix)}: no key {sorted(wrong)[0]}",
            "known here: stdout, stderr, rc, error, signal",
        )
    asked = [key for key in out.commands if list(key[0][: len(prefix)]) == prefix]
    for argv, env in asked or [(tuple(prefix), ())]:
        out.command(
            list(argv),
            _text(answer.get("stdout", "")),
            rc=int(answer.get("rc", 0)),
            stderr=_text(answer.get("stderr", "")),
            error=answer.get("error"),
            signal=answer.get("signal"),
            env=dict(env),
        )


def _text(value: Any) -> str:
    return "\n".join(value) + "\n" if isinstance(value, list) else str(value)


def _unit(name: str, state: str, out: RecordingWriter) -> None:
    """The state of a unit in every `systemctl show` that names it."""
    for (argv, env), record in list(out.commands.items()):
        if argv[:2] != ("systemctl", "show") or name not in argv:
            continue
        blocks = record["stdout"].split("\n\n")
        changed = []
        for block in blocks:
            lines = block.splitlines()
            if f"Id={name}" in lines or len(blocks) == 1:
                lines = [
                    f"ActiveState={state}" if line.startswith("ActiveState=") else line
                    for line in lines
                ]
            changed.append("\n".join(lines))
        out.command(list(argv), "\n\n".join(changed), env=dict(env), rc=record["rc"] or 0)
