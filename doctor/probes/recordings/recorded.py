"""A host that was recorded, or simulated: the same answers, from a folder. A recording is a stranger's data."""

import os
import stat as statmod
from typing import Any, Dict, List, Sequence, Tuple

from doctor.probes import source as limits
from doctor.probes.fact import Fact, unknown
from doctor.probes.recordings import shape
from doctor.probes.recordings.variable import may_be_recorded
from doctor.probes.source import Source

FORMAT = 1
"""The recording format this version reads and writes."""
MAX_FILE = 64 * 1024 * 1024
MAX_TOTAL = 512 * 1024 * 1024
MAX_FILES = 50_000
MAX_DEPTH = 64
"""Folders inside each other; a real host has fewer than twenty."""

_Key = Tuple[Tuple[str, ...], Tuple[Tuple[str, str], ...]]


class RecordingError(Exception):
    """The recording cannot be used: which file, and why, in one sentence."""


class RecordedSource(Source):
    """Answers from a recording folder. What it does not hold is Unknown, or absent where the manifest says so."""

    may_wait = False

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = os.path.abspath(folder)
        self._files = _plain_files(self.folder)
        self.manifest = self._document("manifest.json", None)
        self.missing = "absent" if self.manifest["missing"] == "absent" else "unknown"
        self._paths = self._document("paths.json", {})
        self._http_answers = self._document("http.json", {})
        none = {"init": "NVML_ERROR_LIBRARY_NOT_FOUND"}
        unseen = {"error": "not recorded"}
        self._nvml_answer = self._document("nvml.json", none if self._missing_is_absent else unseen)
        self._cuda_looks = self._document("cuda.json", [])
        self._process_answer = self._document(
            "process.json", {"env": {}, "rlimits": {}, "error": "not recorded"}
        )
        self._commands = self._load_commands()

    @property
    def _missing_is_absent(self) -> bool:
        return self.missing == "absent"

    @property
    def recorded_at(self) -> str:
        """ISO date and time of the recording."""
        return str(self.manifest.get("recorded_at", ""))

    def _document(self, name: str, default: Any) -> Any:
        path = os.path.join(self.folder, name)
        if name not in self._files:
            if default is not None:
                return default
            raise RecordingError("%s: no such file; not a recording" % path)
        check = shape.SHAPES.get(name, shape.command)
        try:
            value = shape.parse(self._bytes(name))
        except ValueError as error:
            raise RecordingError("%s: not valid JSON (%s)" % (path, error)) from error
        if name == "manifest.json" and isinstance(value, dict) and value.get("format") != FORMAT:
            raise RecordingError(
                "%s: format %s; this doctor reads format %d"
                % (path, ascii(value.get("format"))[:40], FORMAT)
            )
        try:
            check(value)
        except ValueError as error:
            raise RecordingError("%s: %s" % (path, error)) from error
        return value

    def _bytes(self, name: str) -> bytes:
        """A file of the recording that was seen to be plain; a link put there since is not followed."""
        path = os.path.join(self.folder, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(fd, "rb") as file:
                if not statmod.S_ISREG(os.fstat(fd).st_mode):
                    raise RecordingError("%s: a recording holds plain files only" % path)
                return file.read(MAX_FILE + 1)[:MAX_FILE]
        except OSError as error:
            raise RecordingError("%s: %s" % (path, error.strerror)) from error

    def _load_commands(self) -> Dict[_Key, Dict[str, Any]]:
        found: Dict[_Key, Dict[str, Any]] = {}
        for name in sorted(self._files):
            if name.startswith("cmds/") and name.endswith(".json"):
                record = self._document(name, None)
                key = (tuple(record["argv"]), tuple(sorted(record.get("env", {}).items())))
                found[key] = record
        return found

    def _has(self, path: str) -> str:
        """The recorded file of an absolute path, empty when there is none."""
        name = os.path.normpath("files/" + path.lstrip("/"))
        return name if name in self._files and name.startswith("files/") else ""

    def _read(self, path: str) -> Dict[str, Any]:
        name = self._has(path)
        if name:
            if self._files[name] > limits.MAX_FILE:
                return {"error": "too-large"}
            return {"data": self._bytes(name)}
        record = self._paths.get(path)
        if record is not None:
            if record["type"] in ("absent", "denied"):
                return {"error": record["type"]}
            if record.get("read_error"):
                return {"error": record["read_error"]}
        real = self.realpath(path)
        if real.ok and real.value != path:
            return self._read(real.value)
        if record is None and (self._missing_is_absent or real.state == "absent"):
            return {"error": "absent"}
        if record is not None and record["type"] not in ("file", "link", "error"):
            return {"error": "not a regular file"}
        return {"error": "not recorded"}

    def _path(self, path: str, entries: bool, statvfs: bool) -> Dict[str, Any]:
        record = self._paths.get(path)
        if record is None:
            if self._has(path):
                known = {"type": "file", "mode": None}
                return {"type": "error", "error": "not recorded"} if entries or statvfs else known
            if self._missing_is_absent or self._is_listed_without(path):
                return {"type": "absent"}
            return {"type": "error", "error": "not recorded"}
        answer = dict(record)
        if answer["type"] in ("absent", "denied", "error"):
            return answer
        if entries and answer.get("entries_error"):
            answer["error"] = answer["entries_error"]
        elif entries and answer["type"] == "dir" and answer.get("entries") is None:
            answer["error"] = "not recorded"
        if statvfs and not answer.get("statvfs"):
            answer["error"] = answer.get("statvfs_error") or "not recorded"
        return answer

    def _is_listed_without(self, path: str) -> bool:
        """Whether the folder that would hold it was listed, and it is not in the list."""
        folder, _, name = path.rstrip("/").rpartition("/")
        parent = self._paths.get(folder or "/")
        if parent is None or parent["type"] != "dir" or parent.get("entries") is None:
            return False
        return name not in parent["entries"] and not folder.endswith(
            ("/site-packages", "/dist-packages")
        )

    def _run(self, argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
        record = self._commands.get((tuple(argv), tuple(sorted(env.items()))))
        if record is None:
            return {"error": "not-found" if self._missing_is_absent else "not recorded"}
        answer = dict(record)
        for stream in ("stdout", "stderr"):
            answer[stream] = _bytes_of(record, stream)
        return answer

    def _http(self, socket_path: str, target: str) -> Dict[str, Any]:
        record = self._http_answers.get("unix://%s GET %s" % (socket_path, target))
        if record is None:
            return {"error": "absent" if self._missing_is_absent else "not recorded"}
        if record.get("error"):
            return {"error": record["error"]}
        return {"status": record["status"], "body": _bytes_of(record, "body")}

    def _nvml(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = self._nvml_answer
        return answer

    def _cuda(self, name: str) -> Dict[str, Any]:
        for look in self._cuda_looks:
            if (look.get("name") or "scope") == name:
                found: Dict[str, Any] = look
                return found
        return {"error": "not recorded"}

    def _process(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = self._process_answer
        return answer

    def env(self, name: str) -> Fact:
        """As on the host; a variable whose name was not allowed into the recording is Unknown, not unset."""
        fact = super().env(name)
        if fact.state == "absent" and not self._missing_is_absent and not may_be_recorded(name):
            return unknown("not recorded", fact.via)
        return fact


def _bytes_of(record: Dict[str, Any], name: str) -> bytes:
    if record.get(name + "_b64") is not None:
        import base64

        return base64.b64decode(record[name + "_b64"])
    return str(record.get(name) or "").encode("utf-8", "surrogatepass")


def _plain_files(folder: str) -> Dict[str, int]:
    """Name -> size of everything in the folder; RecordingError for what is not a plain file, too large or too many."""
    if not os.path.isdir(folder):
        raise RecordingError("%s: no such folder" % folder)
    found: Dict[str, int] = {}
    total = 0
    looked = 0
    pending: List[Tuple[str, int]] = [("", 0)]
    while pending:
        here, depth = pending.pop()
        try:
            with os.scandir(os.path.join(folder, here)) as entries:
                for entry in entries:
                    name = here + entry.name
                    info = entry.stat(follow_symlinks=False)
                    looked += 1
                    if looked > 2 * MAX_FILES or len(found) >= MAX_FILES or total > MAX_TOTAL:
                        raise RecordingError("%s: more than 50,000 files or 512 MiB" % folder)
                    if statmod.S_ISDIR(info.st_mode):
                        if depth >= MAX_DEPTH:
                            raise RecordingError("%s: folders too deep" % entry.path)
                        pending.append((name + "/", depth + 1))
                        continue
                    if not statmod.S_ISREG(info.st_mode):
                        raise RecordingError("%s: a recording holds plain files only" % entry.path)
                    if info.st_size > MAX_FILE:
                        raise RecordingError("%s: larger than 64 MiB" % entry.path)
                    found[name] = info.st_size
                    total += info.st_size
        except OSError as error:
            raise RecordingError("%s: %s" % (os.path.join(folder, here), error.strerror)) from error
    return found
