"""A source that keeps every answer it gives, for `doctor record` and `doctor-probe.pyz --record`."""

import posixpath
import threading
from typing import Any, Dict, List, Sequence, Tuple

from doctor.probes.source import Source

NOT_THERE = ("absent", "denied", "error")
"""Types of a path record that say why nothing was seen."""


class RecordingSource(Source):
    """Passes every question on and keeps the answer; `doctor.probes.recordings.record` writes them, redacted."""

    def __init__(self, inner: Source) -> None:
        super().__init__()
        self.inner = inner
        self._lock = threading.Lock()
        self.reads: Dict[str, Dict[str, Any]] = {}
        self.paths: Dict[str, Dict[str, Any]] = {}
        self.commands: Dict[Tuple[Any, ...], Tuple[List[str], Dict[str, str], Dict[str, Any]]] = {}
        self.answers: Dict[str, Dict[str, Any]] = {}
        self.cuda_answers: List[Dict[str, Any]] = []
        self.nvml_answer: Dict[str, Any] = {}
        self.process_answer: Dict[str, Any] = {}

    def _read(self, path: str) -> Dict[str, Any]:
        record = self.inner._read(path)
        with self._lock:
            self.reads[path] = record
        return record

    def _path(self, path: str, entries: bool, statvfs: bool) -> Dict[str, Any]:
        record = self.inner._path(path, entries, statvfs)
        kept = dict(record)
        if kept.get("error") and kept.get("type") not in NOT_THERE and (entries or statvfs):
            # the path is there; only this further look failed
            kept["entries_error" if entries else "statvfs_error"] = kept.pop("error")
        with self._lock:
            self.paths.setdefault(path, {}).update(kept)
        return record

    def _run(self, argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
        record = self.inner._run(argv, env, timeout)
        with self._lock:
            key = (tuple(argv), tuple(sorted(env.items())))
            self.commands[key] = (list(argv), dict(env), record)
        return record

    def _http(self, socket_path: str, target: str) -> Dict[str, Any]:
        record = self.inner._http(socket_path, target)
        with self._lock:
            self.answers["unix://%s GET %s" % (socket_path, target)] = record
        return record

    def _nvml(self) -> Dict[str, Any]:
        self.nvml_answer = self.inner._nvml()
        return self.nvml_answer

    def _cuda(self, name: str) -> Dict[str, Any]:
        record = self.inner._cuda(name)
        with self._lock:
            self.cuda_answers.append(dict(record, name=name))
        return record

    def _process(self) -> Dict[str, Any]:
        self.process_answer = self.inner._process()
        return self.process_answer

    def documents(self) -> Dict[str, Any]:
        """Every answer so far as the documents of a recording, contents as bytes; not yet redacted."""
        with self._lock:
            paths = {path: dict(record) for path, record in self.paths.items()}
            files = {}
            for path, record in self.reads.items():
                if "data" in record:
                    files[posixpath.normpath(path)] = record["data"]
                elif record.get("error") in ("absent", "denied"):
                    paths.setdefault(path, {"type": record["error"]})
                    paths[path]["read_error"] = record["error"]
                else:
                    paths.setdefault(path, {"type": "error", "error": "not recorded"})
                    paths[path]["read_error"] = str(record.get("error") or "could not look")
            return {
                "files": files,
                "paths": dict(sorted(paths.items())),
                "process": dict(self.process_answer),
                "cmds": [_command(*item) for item in self.commands.values()],
                "nvml": dict(self.nvml_answer),
                "cuda": [dict(look) for look in self.cuda_answers],
                "http": {key: dict(record) for key, record in sorted(self.answers.items())},
            }


def _command(argv: List[str], env: Dict[str, str], record: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "argv": argv,
        "env": env,
        "rc": record.get("rc"),
        "signal": record.get("signal"),
        "error": record.get("error"),
        "stdout": record.get("stdout") or b"",
        "stderr": record.get("stderr") or b"",
        "ms": record.get("ms", 0),
    }
