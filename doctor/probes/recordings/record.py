"""Records this host: every probe is run once, every answer kept, redacted, and written in one piece or not at all."""

import base64
import json
import os
import shutil
import tempfile
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

from doctor.probes import registry
from doctor.probes.live import LiveSource
from doctor.probes.recordings.identity import Documents, of_this_host
from doctor.probes.recordings.recorded import FORMAT, MAX_FILE, MAX_FILES, MAX_TOTAL
from doctor.probes.recordings.recording import RecordingSource
from doctor.probes.recordings.redact import redact


class RecordError(Exception):
    """The recording cannot be written there, and why, in one sentence."""


def record(
    out: str,
    scope: str = "shell",
    areas: Optional[Iterable[str]] = None,
    note: str = "",
    on_event: Optional[Callable[[str, str, int], None]] = None,
) -> Dict[str, Any]:
    """Look at this host and write what was seen to the new folder `out`. -> the envelope of the probes, not redacted."""
    refuse_occupied(out)
    source = RecordingSource(LiveSource(scope))
    source.process()  # whatever areas are asked for, a recording says whose environment it is
    envelope = registry.run(source, areas, on_event)
    documents = source.documents()
    documents["manifest"] = {
        "format": FORMAT,
        "recorded_at": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "host": os.uname().nodename,
        "note": note,
        "redacted": True,
        "missing": "unknown",
    }
    known = of_this_host()
    redacted = redact(documents, known)
    redacted["manifest"]["host"] = "host-1"
    write(redacted, out)
    return envelope


def refuse_occupied(out: str) -> None:
    """RecordError unless `out` is free or an empty folder."""
    if os.path.islink(out):
        raise RecordError("%s is a link; name a new folder" % out)
    if os.path.exists(out) and not os.path.isdir(out):
        raise RecordError("%s is a file; name a new folder" % out)
    try:
        if os.path.isdir(out) and os.listdir(out):
            raise RecordError("%s is not empty; name a new folder" % out)
        parent = os.path.dirname(os.path.abspath(out))
        if not os.path.isdir(parent):
            raise RecordError("%s: no such folder" % parent)
    except OSError as error:
        raise RecordError("%s: %s" % (out, error.strerror)) from error


def write(documents: Documents, out: str) -> None:
    """Write the fixed format: into a private folder beside `out`, then rename, so that half a recording never shows."""
    refuse_occupied(out)
    target = os.path.abspath(out)
    try:
        work = tempfile.mkdtemp(
            prefix="." + os.path.basename(target) + ".", dir=os.path.dirname(target)
        )
    except OSError as error:
        raise RecordError("%s: %s" % (os.path.dirname(target), error.strerror)) from error
    try:
        _write_into(work, documents)
        os.chmod(work, 0o777 & ~_umask())
        os.rename(work, target)
    except OSError as error:
        raise RecordError("%s: %s" % (out, error.strerror)) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_into(work: str, documents: Documents) -> None:
    paths = dict(documents["paths"])
    total = 0
    for number, (path, data) in enumerate(sorted(documents["files"].items())):
        total += len(data)
        if len(data) > MAX_FILE or total > MAX_TOTAL // 2 or number > MAX_FILES // 2:
            total -= len(data)
            paths.setdefault(path, {"type": "file"})
            paths[path] = dict(paths[path], read_error="too large to record")
            continue
        _put(work, "files" + path, data)
    os.makedirs(os.path.join(work, "cmds"))
    for number, command in enumerate(documents["cmds"]):
        program = os.path.basename(command["argv"][0]) if command["argv"] else ""
        name = "".join(letter if letter.isalnum() else "-" for letter in program)[:40]
        _dump(work, "cmds/%03d-%s.json" % (number, name), _command(command))
    _dump(work, "paths.json", paths)
    _dump(work, "process.json", documents["process"])
    _dump(work, "nvml.json", documents["nvml"])
    _dump(work, "cuda.json", documents["cuda"])
    _dump(work, "http.json", {key: _answer(item) for key, item in documents["http"].items()})
    _dump(work, "manifest.json", documents["manifest"])


def _command(command: Dict[str, Any]) -> Dict[str, Any]:
    shown = {key: item for key, item in command.items() if key not in ("stdout", "stderr")}
    for stream in ("stdout", "stderr"):
        shown.update(_as_json(stream, command[stream]))
    return shown


def _answer(answer: Dict[str, Any]) -> Dict[str, Any]:
    shown = {key: item for key, item in answer.items() if key != "body"}
    if "body" in answer:
        shown.update(_as_json("body", answer["body"]))
    return shown


def _as_json(name: str, data: bytes) -> Dict[str, Any]:
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {name + "_b64": base64.b64encode(data).decode("ascii")}


def _dump(work: str, name: str, value: Any) -> None:
    _put(work, name, (json.dumps(value, indent=1) + "\n").encode("utf-8"))


def _put(work: str, name: str, data: bytes) -> None:
    """A new file below the work folder; what would climb out of it or follow a link is refused."""
    parts: List[str] = [part for part in name.split("/") if part]
    if ".." in parts:
        raise RecordError("%s: refuses to write outside the recording" % name)
    folder = os.path.join(work, *parts[:-1])
    os.makedirs(folder, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(os.path.join(folder, parts[-1]), flags, 0o666)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
