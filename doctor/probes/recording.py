"""A source that keeps every answer it gives, for `doctor record` and `doctor-probe.pyz --record`."""

import threading
from typing import Any, Dict, List, Sequence, Tuple

from doctor.probes.source import Source


class RecordingSource(Source):
    """Passes every question on and keeps the answer; `doctor.probes.record` writes them, redacted."""

    def __init__(self, inner: Source) -> None:
        super().__init__()
        self.inner = inner
        self._lock = threading.Lock()
        self.reads: Dict[str, Dict[str, Any]] = {}
        self.paths: Dict[str, Dict[str, Any]] = {}
        self.commands: List[Tuple[List[str], Dict[str, str], Dict[str, Any]]] = []
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
        with self._lock:
            self.paths.setdefault(path, {}).update(record)
        return record

    def _run(self, argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
        record = self.inner._run(argv, env, timeout)
        with self._lock:
            self.commands.append((list(argv), dict(env), record))
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
            self.cuda_answers.append(record)
        return record

    def _process(self) -> Dict[str, Any]:
        self.process_answer = self.inner._process()
        return self.process_answer
