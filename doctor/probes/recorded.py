"""A host that was recorded, or simulated: the same answers, from a folder. A recording is a stranger's data."""

import base64
import json
import os
import stat as statmod
from typing import Any, Dict, List, Optional, Sequence, Tuple

from doctor.probes.source import Source

FORMAT = 1
"""The recording format this version reads and writes."""
MAX_FILE = 64 * 1024 * 1024
MAX_TOTAL = 512 * 1024 * 1024
MAX_FILES = 50_000


class RecordingError(Exception):
    """The recording cannot be used: which file, and why, in one sentence."""


class RecordedSource(Source):
    """Answers from a recording folder. What it does not hold is Unknown, or absent where the manifest says so."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = os.path.abspath(folder)
        _refuse_what_is_not_plain(self.folder)
        self.manifest = self._document("manifest.json", dict)
        if self.manifest.get("format") != FORMAT:
            raise RecordingError(
                "%s/manifest.json: format %r; this doctor reads format %d"
                % (folder, self.manifest.get("format"), FORMAT)
            )
        if self.manifest.get("missing") not in ("unknown", "absent"):
            raise RecordingError("%s/manifest.json: missing must be unknown or absent" % folder)
        self.missing = "absent" if self.manifest["missing"] == "absent" else "unknown"
        self._paths = self._document("paths.json", dict, {})
        self._http_answers = self._document("http.json", dict, {})
        self._commands = self._load_commands()

    @property
    def recorded_at(self) -> str:
        """ISO date and time of the recording."""
        return str(self.manifest.get("recorded_at", ""))

    def _document(self, name: str, kind: type, default: Any = None) -> Any:
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            if default is not None:
                return default
            raise RecordingError("%s: no such file; not a recording" % path)
        try:
            with open(path, "rb") as file:
                value = json.loads(file.read().decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise RecordingError("%s: not valid JSON (%s)" % (path, error)) from error
        if not isinstance(value, kind):
            raise RecordingError(
                "%s: must hold a JSON %s" % (path, "object" if kind is dict else "array")
            )
        return value

    def _load_commands(
        self,
    ) -> Dict[Tuple[Tuple[str, ...], Tuple[Tuple[str, str], ...]], Dict[str, Any]]:
        found = {}
        folder = os.path.join(self.folder, "cmds")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            record = self._document(os.path.join("cmds", name), dict)
            argv, env = record.get("argv"), record.get("env", {})
            if not isinstance(argv, list) or not isinstance(env, dict):
                raise RecordingError(
                    "%s: argv must be a list and env an object" % os.path.join(folder, name)
                )
            found[(tuple(map(str, argv)), tuple(sorted(env.items())))] = record
        return found

    def _holds(self, path: str) -> bool:
        """Whether the recording has the bytes of that file."""
        return os.path.isfile(os.path.normpath(self.folder + "/files" + path))

    def _stored(self, path: str) -> Optional[bytes]:
        """The bytes of that file, or None."""
        if not self._holds(path):
            return None
        with open(os.path.normpath(self.folder + "/files" + path), "rb") as file:
            return file.read()

    def _read(self, path: str) -> Dict[str, Any]:
        where = os.path.normpath(self.folder + "/files" + path)
        if not where.startswith(self.folder + "/files/"):
            return {"error": "denied"}
        data = self._stored(path)
        if data is not None:
            return {"data": data}
        record = self._paths.get(path)
        if isinstance(record, dict) and record.get("type") in ("absent", "denied"):
            return {"error": record["type"]}
        real = self.realpath(path)
        if real.ok and real.value != path:
            return self._read(real.value)
        if isinstance(record, dict) and record.get("read_error"):
            return {"error": record["read_error"]}
        if record is None and self.missing == "absent":
            return {"error": "absent"}
        return {"error": "not recorded"}

    def _path(self, path: str, entries: bool, statvfs: bool) -> Dict[str, Any]:
        record = self._paths.get(path)
        if isinstance(record, dict):
            record = dict(record)
            if entries and record.get("type") == "dir" and "entries" not in record:
                record["error"] = "not recorded"
            if (
                statvfs
                and "statvfs" not in record
                and record.get("type") not in ("absent", "denied", "error")
            ):
                record["error"] = "not recorded"
            return record
        if self._holds(path):
            return (
                {"type": "error", "error": "not recorded"}
                if entries or statvfs
                else {"type": "file", "mode": None}
            )
        if self.missing == "absent":
            return {"type": "absent"}
        return {"type": "error", "error": "not recorded"}

    def _run(self, argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
        record = self._commands.get((tuple(argv), tuple(sorted(env.items()))))
        if record is None:
            return {"error": "not-found" if self.missing == "absent" else "not recorded"}
        answer = dict(record)
        for stream in ("stdout", "stderr"):
            answer[stream] = _bytes_of(record, stream)
        return answer

    def _http(self, socket_path: str, target: str) -> Dict[str, Any]:
        record = self._http_answers.get("unix://%s GET %s" % (socket_path, target))
        if record is None:
            return {"error": "absent" if self.missing == "absent" else "not recorded"}
        if record.get("error"):
            return {"error": record["error"]}
        return {"status": record.get("status"), "body": _bytes_of(record, "body")}

    def _nvml(self) -> Dict[str, Any]:
        default = (
            {"init": "NVML_ERROR_LIBRARY_NOT_FOUND"}
            if self.missing == "absent"
            else {"error": "not recorded"}
        )
        record: Dict[str, Any] = self._document("nvml.json", dict, default)
        return record

    def _cuda(self, name: str) -> Dict[str, Any]:
        for record in self._document("cuda.json", list, []):
            if isinstance(record, dict) and record.get("name", "scope") == name:
                return record
        return {"error": "not recorded"}

    def _process(self) -> Dict[str, Any]:
        default = {"env": {}, "rlimits": {}, "error": "not recorded"}
        record: Dict[str, Any] = self._document("process.json", dict, default)
        return record


def _bytes_of(record: Dict[str, Any], name: str) -> bytes:
    if record.get(name + "_b64") is not None:
        return base64.b64decode(record[name + "_b64"])
    return str(record.get(name) or "").encode("utf-8", "surrogateescape")


def _refuse_what_is_not_plain(folder: str) -> None:
    if not os.path.isdir(folder):
        raise RecordingError("%s: no such folder" % folder)
    files = 0
    total = 0
    pending: List[str] = [folder]
    while pending:
        here = pending.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                if statmod.S_ISDIR(info.st_mode):
                    pending.append(entry.path)
                    continue
                if not statmod.S_ISREG(info.st_mode):
                    raise RecordingError("%s: a recording holds plain files only" % entry.path)
                files += 1
                total += info.st_size
                if info.st_size > MAX_FILE:
                    raise RecordingError("%s: larger than 64 MiB" % entry.path)
                if files > MAX_FILES or total > MAX_TOTAL:
                    raise RecordingError("%s: more than 50,000 files or 512 MiB" % folder)
